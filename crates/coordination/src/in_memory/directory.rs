use shardwright_contracts::limits::MAX_RUN_DESCRIPTION_SIZE;
use shardwright_contracts::{RunId, TenantId};

use super::InMemoryCoordinator;
use crate::directory::{NameRunError, RunLabel, RunName};
use crate::error::InfraError;
use crate::estimate::HeldEstimate;
use crate::operation::{NameRun, PublishEstimate};
use crate::ops::RunCall;
use crate::status::RunStatus;

/// Names of runs, and estimates of holders.
impl InMemoryCoordinator {
    pub(super) fn find(&self, tenant: TenantId, name: RunName) -> Option<RunId> {
        self.tenants.get(&tenant)?.names.get(&name).copied()
    }

    pub(super) fn label(&self, tenant: TenantId, run: RunId) -> Option<RunLabel> {
        self.tenants.get(&tenant)?.labels.get(&run).cloned()
    }

    pub(super) fn labels(&self, tenant: TenantId) -> Vec<(RunId, RunLabel)> {
        let labels = self.tenants.get(&tenant).into_iter().flat_map(|tenant| &tenant.labels);
        labels.map(|(run, label)| (*run, label.clone())).collect()
    }

    pub(super) fn name(
        &mut self,
        tenant: TenantId,
        request: &NameRun<&[u8]>,
    ) -> Result<RunId, NameRunError> {
        let NameRun { run, name, instead_of, description } = *request;
        if description.len() > MAX_RUN_DESCRIPTION_SIZE {
            return Err(NameRunError::LabelTooLarge { length: description.len() });
        }
        match self.find(tenant, name) {
            Some(named) if named == run || Some(named) != instead_of => return Ok(named),
            _ => {}
        }
        let state = self.tenants.entry(tenant).or_default();
        if state.runs.contains_key(&run) || state.labels.contains_key(&run) {
            return Err(NameRunError::RunIdUsed { run });
        }
        let max = self.config.max_total_runs;
        if state.labels.len() >= max {
            let message = format!("another named run would exceed the limit of {max}").into();
            return Err(InfraError::NotApplied { operation: "name_run", message }.into());
        }
        state.names.insert(name, run);
        state.labels.insert(run, RunLabel { name, description: description.into() });
        Ok(run)
    }

    /// Stores an estimate of the current holder and ignores any other. Estimates are advice, so
    /// none is refused.
    pub(super) fn publish_estimate_of(&mut self, call: RunCall, request: &PublishEstimate) {
        let PublishEstimate { lease, estimate } = *request;
        let (shard, fence, holder) = (lease.shard(), lease.fence(), lease.owner());
        let Ok(state) = self.run_mut(call.tenant, lease.run()) else { return };
        let is_held = state.shards.find(shard).is_some_and(|shard| {
            shard.head.fence == fence && shard.head.lease.is_some_and(|lease| lease.owner == holder)
        });
        if is_held && state.record.status == RunStatus::Active {
            let held = HeldEstimate { shard, fence, holder, at: call.now, estimate };
            state.estimates.insert(shard, held);
        }
    }

    /// The estimates of current holders.
    pub(super) fn estimates(&mut self, call: RunCall, run: RunId) -> Vec<HeldEstimate> {
        let floor = self.config.fence_floor;
        let Ok(state) = self.run_mut(call.tenant, run) else { return Vec::new() };
        let is_held = |held: &&HeldEstimate| {
            state.shards.find(held.shard).is_some_and(|shard| {
                shard.head.fence == held.fence && shard.head.holder_at(call.now, floor).is_some()
            })
        };
        state.estimates.values().filter(is_held).copied().collect()
    }
}
