//! The greatest watermark that anybody was told, so that nobody is told less.
//!
//! Work can start anew behind a watermark: children of a split need not carry their parent's
//! cursor on. What was done stays done, so the watermark does not go back, and is stored before
//! it is told.

use shardwright_contracts::{Env, RunId, TenantId};
use shardwright_coordination::InfraError;
use shardwright_store::{Commit, CommitError, Expect, Revision, Snapshot, Store, Versioned};

use crate::codec::{Record, Watermark};
use crate::coordinator::Core;
use crate::fault;
use crate::planted::{self, Defect};

const OPERATION: &str = "watermark";

impl<S: Store, E: Env> Core<S, E> {
    /// The watermark that was told last.
    pub(crate) async fn watermark(
        &self,
        tenant: TenantId,
        run: RunId,
    ) -> Result<Option<(Box<[u8]>, Revision)>, InfraError> {
        let key = self.keys.watermark(tenant, run);
        let loaded = self.store.load(std::slice::from_ref(&key)).await;
        let Snapshot { values, .. } = loaded.map_err(|error| fault::read(OPERATION, &error))?;
        values.into_iter().next().flatten().map(|found| decode(&found)).transpose()
    }

    /// Stores a greater watermark, and gives the one that may be told.
    ///
    /// The gate is compared so that nothing is stored of a run that was taken away, not even by a
    /// commit that comes late.
    pub(crate) async fn raise_watermark(
        &self,
        tenant: TenantId,
        run: RunId,
        reached: Option<Box<[u8]>>,
    ) -> Result<Option<Box<[u8]>>, InfraError> {
        let Some(reached) = reached else { return Ok(None) };
        let keys = [self.keys.watermark(tenant, run), self.keys.gate(tenant, run)];
        for conflicts in 0..=self.config.conflict_retries {
            self.back_off(conflicts).await;
            let loaded = self.store.load(&keys).await;
            let Snapshot { values, .. } = loaded.map_err(|error| fault::read(OPERATION, &error))?;
            let [told, gate] = values.as_slice() else { continue };
            let goes_back = planted::is_active(Defect::WatermarkGoesBack);
            let expect = match told.as_ref().map(decode).transpose()? {
                Some((told, _)) if told >= reached && !goes_back => return Ok(Some(told)),
                Some((_, at)) => Expect::At(at),
                None => Expect::Absent,
            };
            // The run was there: either the read is an old one, or it has gone.
            let Some(gate) = gate else { continue };
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
                Err(error) => return Err(fault::commit(OPERATION, &error)),
            }
        }
        Err(fault::contention(OPERATION))
    }
}

fn decode(found: &Versioned) -> Result<(Box<[u8]>, Revision), InfraError> {
    let Watermark { reached } =
        Watermark::decode(&found.value).map_err(|error| fault::decode(OPERATION, &error))?;
    Ok((reached, found.revision))
}
