//! The greatest watermark that anybody was told, so that nobody is told less.
//!
//! Work can start anew behind a watermark: children of a split need not carry their parent's
//! cursor on. What was done stays done, so the watermark does not go back, and is stored before
//! it is told. One that cannot be stored is not told; one that cannot be read was never told.

use shardwright_contracts::{RunId, TenantId};
use shardwright_coordination::InfraError;
use shardwright_store::{Commit, CommitError, Expect, Snapshot, Store, Versioned};

use crate::codec::{Record, Watermark};
use crate::coordinator::Core;
use crate::fault;
use crate::planted::{self, Defect};

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
        mut before: Told,
    ) -> Result<Told, InfraError> {
        let Some(reached) = reached else { return Ok(None) };
        let keys = [self.keys.watermark(tenant, run), self.keys.gate(tenant, run)];
        for conflicts in 0..=self.config.conflict_retries {
            self.back_off(conflicts).await;
            let loaded = self.store.load(&keys).await;
            let Snapshot { values, .. } = loaded.map_err(|error| fault::read(OPERATION, &error))?;
            let [found, Some(gate)] = values.as_slice() else { break };
            let goes_back = planted::is_active(Defect::WatermarkGoesBack);
            before = before.max(found.as_ref().and_then(told));
            if before.as_ref().is_some_and(|before| *before >= reached) && !goes_back {
                break;
            }
            let expect = found.as_ref().map_or(Expect::Absent, |found| Expect::At(found.revision));
            let [watermark_key, gate_key] = keys.clone();
            let value = Watermark { reached: reached.clone() }.encode();
            let commit = Commit::builder()
                .expect(gate_key, Expect::At(gate.revision))
                .expect(watermark_key.clone(), expect)
                .put(watermark_key, value)
                .build()
                .map_err(|error| fault::corrupt(OPERATION, error.to_string()))?;
            match self.store.commit(commit).await {
                Ok(_) => return Ok(Some(reached)),
                // Whatever comes of it, nobody is harmed by trying again.
                Err(CommitError::Conflict(_) | CommitError::Unknown(_)) => {}
                Err(error @ CommitError::Corrupt(_)) => {
                    return Err(fault::commit(OPERATION, &error));
                }
                Err(_) => break,
            }
        }
        Ok(before)
    }
}

fn told(found: &Versioned) -> Told {
    Watermark::decode(&found.value).ok().map(|watermark| watermark.reached)
}
