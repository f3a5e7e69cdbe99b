//! What holders tell of the work that they have left.
//!
//! It lies outside what those who wait for work watch, so that telling it wakes nobody.

use shardwright_contracts::{ShardKey, TenantId};
use shardwright_coordination::operation::{ListEstimates, PublishEstimate};
use shardwright_coordination::{HeldEstimate, InfraError, RunStatus};
use shardwright_engine::codec::Record;
use shardwright_engine::fault;
use shardwright_engine::transact::{self, Settled, Tries};
use shardwright_store::{Commit, Expect, Store};

use crate::coordinator::StoredCoordinator;
use crate::keys::StoreKey;
use crate::records::{EstimateRecord, RunStateRecord};

const OPERATION: &str = "estimate";

impl StoredCoordinator {
    pub(crate) async fn publish_estimate(
        &self,
        tenant: TenantId,
        request: PublishEstimate,
    ) -> Result<(), InfraError> {
        let PublishEstimate { lease, estimate } = request;
        let lease = &lease;
        let (core, ShardKey { run, .. }) = (&self.core, lease.key());
        let at = core.now().await?;
        let told = EstimateRecord { fence: lease.fence(), holder: lease.owner(), at, estimate };
        // A run that has ended or is gone gets nothing more.
        let gate = core.keys.gate(tenant, run);
        let loaded = core.store.load(std::slice::from_ref(&gate)).await;
        let snapshot = loaded.map_err(|error| fault::read(OPERATION, &error))?;
        let Some(found) = snapshot.values.into_iter().next().flatten() else { return Ok(()) };
        let status = RunStateRecord::decode(&found.value).map(|gate| gate.status);
        if status.map_err(|error| fault::decode(OPERATION, &error))? != RunStatus::Active {
            return Ok(());
        }
        let commit = Commit::builder().guard(gate, Expect::At(found.revision));
        let key = core.keys.estimate(tenant, lease.key());
        let commit = match core.session().await? {
            Some(session) => commit.put_in_session(key, told.encode(), session),
            None => commit.put(key, told.encode()),
        };
        let commit = transact::build(OPERATION, commit)?;
        match core.driver.settle(OPERATION, &commit, Tries::Once).await? {
            Settled::Stored(_) => Ok(()),
            settled => Err(settled.into_failure(OPERATION)),
        }
    }

    pub(crate) async fn list_estimates(
        &self,
        tenant: TenantId,
        request: ListEstimates,
    ) -> Result<Vec<HeldEstimate>, InfraError> {
        let run = request.run;
        let (_, entries) = self.core.list(&self.core.keys.estimates(tenant, run)).await?;
        let told = entries.iter().filter_map(|(key, found)| {
            let StoreKey::Estimate(_, key) = self.core.keys.parse(key)? else { return None };
            // What cannot be read is no advice.
            let EstimateRecord { fence, holder, at, estimate } =
                EstimateRecord::decode(&found.value).ok()?;
            Some(HeldEstimate { shard: key.shard, fence, holder, at, estimate })
        });
        Ok(told.collect())
    }
}
