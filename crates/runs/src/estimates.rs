//! Estimates of holders about their remaining work.
//!
//! Estimates are outside the watched range, so that publishing one wakes no worker.

use shardwright_contracts::{ShardKey, TenantId};
use shardwright_coordination::operation::{ListEstimates, PublishEstimate};
use shardwright_coordination::{HeldEstimate, InfraError, RunStatus};
use shardwright_engine::codec::Record;
use shardwright_engine::listing;
use shardwright_engine::transact::{self, Settled, Tries};
use shardwright_engine::{Operation, operation};
use shardwright_store::{Commit, Expect};

use crate::coordinator::StoredCoordinator;
use crate::keys::StoreKey;
use crate::records::{EstimateRecord, RunStateRecord};

const OPERATION: Operation = operation!("publish_estimate");
const LIST: Operation = operation!("list_estimates");

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
        let record = EstimateRecord { fence: lease.fence(), holder: lease.owner(), at, estimate };
        // Nothing is stored for a run that has ended or is deleted.
        let gate = core.keys.gate(tenant, run);
        let (found, _) = core.load_one(&gate, OPERATION).await?;
        let Some(found) = found else { return Ok(()) };
        let RunStateRecord { status, .. } = listing::decode(&found, OPERATION)?;
        if status != RunStatus::Active {
            return Ok(());
        }
        let commit = Commit::builder().guard(gate, Expect::At(found.revision));
        let key = core.keys.estimate(tenant, lease.key());
        let commit = match core.session().await? {
            Some(session) => commit.put_in_session(key, record.encode(), session),
            None => commit.put(key, record.encode()),
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
        let (_, entries) = self.core.list(&self.core.keys.estimates(tenant, run), LIST).await?;
        let estimates = entries.iter().filter_map(|(key, found)| {
            let StoreKey::Estimate(_, key) = self.core.keys.parse(key)? else { return None };
            // An estimate that cannot be read is skipped.
            let EstimateRecord { fence, holder, at, estimate } =
                EstimateRecord::decode(&found.value).ok()?;
            Some(HeldEstimate { shard: key.shard, fence, holder, at, estimate })
        });
        Ok(estimates.collect())
    }
}
