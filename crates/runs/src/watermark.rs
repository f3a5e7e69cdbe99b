//! The highest watermark that a coordinator has reported for a run.
//!
//! Work can restart below a watermark: children of a split need not continue their parent's
//! cursor. Finished work stays finished, so the reported watermark never decreases. It is stored
//! before it is reported. A watermark that cannot be stored is not reported. A stored watermark
//! that cannot be read counts as never reported.

use shardwright_contracts::{InfraError, RunId, TenantId};
use shardwright_engine::codec::Record;
use shardwright_engine::listing;
use shardwright_engine::transact::{Decided, Decision, Read, Transaction};
use shardwright_engine::{Operation, operation};
use shardwright_store::{Commit, Expect, Key, Revision, Versioned};

use crate::coordinator::Core;
use crate::records::WatermarkRecord;

const OPERATION: Operation = operation!("watermark");

/// A key, or none before the first report.
type Watermark = Option<Box<[u8]>>;

impl Core {
    /// The watermark that was last reported.
    pub(crate) async fn watermark(
        &self,
        tenant: TenantId,
        run: RunId,
    ) -> Result<Watermark, InfraError> {
        let (found, _) = self.load_one(&self.keys.watermark(tenant, run), OPERATION).await?;
        Ok(found.as_ref().and_then(decode))
    }

    /// Stores a higher watermark than `before`, and returns the one to report. That is the one
    /// before if the store rejects the write or the run is deleted meanwhile.
    ///
    /// The commit compares the gate, so that nothing is stored for a deleted run, even by a commit
    /// that arrives late.
    pub(crate) async fn raise_watermark(
        &self,
        tenant: TenantId,
        run: RunId,
        reached: Watermark,
        before: Watermark,
    ) -> Result<Watermark, InfraError> {
        let Some(reached) = reached else { return Ok(None) };
        let keys = [self.keys.watermark(tenant, run), self.keys.gate(tenant, run)];
        let mut raising = Raising { core: self, keys, reached, before, is_loaded: false };
        match self.driver.transact(&mut raising).await {
            Ok(stored) => Ok(stored),
            Err(InfraError::NotApplied { .. } | InfraError::Unknown { .. })
                if raising.is_loaded =>
            {
                Ok(raising.before)
            }
            Err(error) => Err(error),
        }
    }
}

/// Stores a watermark.
struct Raising<'c> {
    core: &'c Core,
    /// Of the watermark and of the run's gate.
    keys: [Key; 2],
    reached: Box<[u8]>,
    /// The highest one known to be stored.
    before: Watermark,
    is_loaded: bool,
}

impl Transaction for Raising<'_> {
    type Basis = [Option<Versioned>; 2];
    type Answer = Watermark;
    type Output = Watermark;
    type Error = InfraError;

    fn operation(&self) -> Operation {
        OPERATION
    }

    async fn load(&mut self, read: Read) -> Result<(Self::Basis, Read), InfraError> {
        self.is_loaded = false;
        let (found, _) = listing::load_all(&self.core.store, &self.keys, OPERATION).await?;
        self.is_loaded = true;
        Ok((found, read))
    }

    async fn decide(&mut self, found: &Self::Basis) -> Decided<Watermark, InfraError> {
        let [found, Some(gate)] = found else {
            return Ok(Decision::Answer(self.before.clone()));
        };
        self.before = self.before.take().max(found.as_ref().and_then(decode));
        if self.before.as_ref().is_some_and(|before| *before >= self.reached) {
            return Ok(Decision::Answer(self.before.clone()));
        }
        let expect = found.as_ref().map_or(Expect::Absent, |found| Expect::At(found.revision));
        let [watermark_key, gate_key] = self.keys.clone();
        let value = WatermarkRecord { reached: self.reached.clone() }.encode();
        let commit = Commit::builder()
            .expect(gate_key, Expect::At(gate.revision))
            .expect(watermark_key.clone(), expect)
            .put(watermark_key, value);
        Ok(Decision::Commit(commit, Some(self.reached.clone())))
    }

    fn finish(
        &mut self,
        _: Self::Basis,
        watermark: Watermark,
        _: Option<(&Commit, Revision)>,
    ) -> Watermark {
        watermark
    }
}

fn decode(found: &Versioned) -> Watermark {
    WatermarkRecord::decode(&found.value).ok().map(|watermark| watermark.reached)
}
