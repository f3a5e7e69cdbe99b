//! The greatest watermark that anybody was told, so that nobody is told less.
//!
//! Work can start anew behind a watermark: children of a split need not carry their parent's
//! cursor on. What was done stays done, so the watermark does not go back, and is stored before
//! it is told. One that cannot be stored is not told; one that cannot be read was never told.

use shardwright_contracts::{InfraError, RunId, TenantId};
use shardwright_engine::codec::Record;
use shardwright_engine::fault;
use shardwright_engine::transact::{Decided, Decision, Read, Transaction};
use shardwright_store::{Commit, Expect, Key, Revision, Snapshot, Store, Versioned};

use crate::coordinator::Core;
use crate::records::WatermarkRecord;

const OPERATION: &str = "watermark";

/// What is known of a run's watermark: a key, if any.
type Told = Option<Box<[u8]>>;

impl Core {
    /// The watermark that was told last.
    pub(crate) async fn watermark(&self, tenant: TenantId, run: RunId) -> Result<Told, InfraError> {
        let key = self.keys.watermark(tenant, run);
        let loaded = self.store.load(std::slice::from_ref(&key)).await;
        let Snapshot { values, .. } = loaded.map_err(|error| fault::read(OPERATION, &error))?;
        Ok(values.into_iter().next().flatten().and_then(|found| told(&found)))
    }

    /// Stores a greater watermark than the one that was told before, and gives the one that may be
    /// told. If the store does not take it, or the run goes meanwhile, that is the one before.
    ///
    /// The gate is compared so that nothing is stored of a run that was taken away, not even by a
    /// commit that comes late.
    pub(crate) async fn raise_watermark(
        &self,
        tenant: TenantId,
        run: RunId,
        reached: Told,
        before: Told,
    ) -> Result<Told, InfraError> {
        let Some(reached) = reached else { return Ok(None) };
        let keys = [self.keys.watermark(tenant, run), self.keys.gate(tenant, run)];
        let mut raising = Raising { core: self, keys, reached, before, is_loaded: false };
        match self.driver.transact(&mut raising).await {
            Ok(told) => Ok(told),
            Err(InfraError::NotApplied { .. } | InfraError::Unknown { .. })
                if raising.is_loaded =>
            {
                Ok(raising.before)
            }
            Err(error) => Err(error),
        }
    }
}

/// A watermark that is stored before it is told.
struct Raising<'c> {
    core: &'c Core,
    /// Of the watermark and of the run's gate.
    keys: [Key; 2],
    reached: Box<[u8]>,
    /// The greatest one known to be stored.
    before: Told,
    is_loaded: bool,
}

impl Transaction for Raising<'_> {
    type Basis = Vec<Option<Versioned>>;
    type Answer = Told;
    type Output = Told;
    type Error = InfraError;

    fn operation(&self) -> &'static str {
        OPERATION
    }

    async fn load(&mut self, read: Read) -> Result<(Self::Basis, Read), InfraError> {
        self.is_loaded = false;
        let loaded = self.core.store.load(&self.keys).await;
        let Snapshot { values, .. } = loaded.map_err(|error| fault::read(OPERATION, &error))?;
        self.is_loaded = true;
        Ok((values, read))
    }

    async fn decide(&mut self, values: &Self::Basis) -> Decided<Told, InfraError> {
        let [found, Some(gate)] = values.as_slice() else {
            return Ok(Decision::Answer(self.before.clone()));
        };
        self.before = self.before.take().max(found.as_ref().and_then(told));
        let is_told = self.before.as_ref().is_some_and(|before| *before >= self.reached);
        if is_told {
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

    fn finish(&mut self, _: Self::Basis, told: Told, _: Option<(&Commit, Revision)>) -> Told {
        told
    }
}

fn told(found: &Versioned) -> Told {
    WatermarkRecord::decode(&found.value).ok().map(|watermark| watermark.reached)
}
