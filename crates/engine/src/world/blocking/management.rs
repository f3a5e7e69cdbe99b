use shardwright_contracts::{
    InitialShardInput, LogicalTime, OpId, RunId, ShardId, ShardKey, TenantId, WorkerId,
};
use shardwright_coordination::{
    AsyncRunManagement, ClaimOutlook, CreateRunError, CreateRunWithShardsError, IdempotentOutcome,
    RegisterShardsError, RunConfig, RunManagement, RunProgress, RunQueryError, RunRecord,
    RunTransitionError, ShardFilter, ShardSummary, UnparkError,
};

use super::Blocking;

impl<B: AsyncRunManagement> RunManagement for Blocking<B> {
    fn create_run(
        &mut self,
        _now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        config: RunConfig,
    ) -> Result<(), CreateRunError> {
        self.wait_for(|backend| backend.create_run(tenant, run, config))
    }

    fn register_shards(
        &mut self,
        _now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        shards: &[InitialShardInput<'_>],
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RegisterShardsError> {
        self.wait_for(|backend| backend.register_shards(tenant, run, shards, op))
    }

    fn create_run_with_shards(
        &mut self,
        _now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        config: RunConfig,
        shards: &[InitialShardInput<'_>],
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, CreateRunWithShardsError> {
        self.wait_for(|backend| backend.create_run_with_shards(tenant, run, config, shards, op))
    }

    fn get_run(&mut self, tenant: TenantId, run: RunId) -> Result<RunRecord, RunQueryError> {
        self.wait_for(|backend| backend.get_run(tenant, run))
    }

    fn get_run_progress(
        &mut self,
        _now: LogicalTime,
        tenant: TenantId,
        run: RunId,
    ) -> Result<RunProgress, RunQueryError> {
        self.wait_for(|backend| backend.get_run_progress(tenant, run))
    }

    fn list_shards_into(
        &mut self,
        _now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        filter: ShardFilter,
        out: &mut Vec<ShardSummary>,
    ) -> Result<(), RunQueryError> {
        *out = self.wait_for(|backend| backend.list_shards(tenant, run, filter))?;
        Ok(())
    }

    fn complete_run(
        &mut self,
        _now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RunTransitionError> {
        self.wait_for(|backend| backend.complete_run(tenant, run, op))
    }

    fn fail_run(
        &mut self,
        _now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RunTransitionError> {
        self.wait_for(|backend| backend.fail_run(tenant, run, op))
    }

    fn cancel_run(
        &mut self,
        _now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RunTransitionError> {
        self.wait_for(|backend| backend.cancel_run(tenant, run, op))
    }

    fn pause_run(
        &mut self,
        _now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RunTransitionError> {
        self.wait_for(|backend| backend.pause_run(tenant, run, op))
    }

    fn resume_run(
        &mut self,
        _now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RunTransitionError> {
        self.wait_for(|backend| backend.resume_run(tenant, run, op))
    }

    fn unpark_shard(
        &mut self,
        _now: LogicalTime,
        tenant: TenantId,
        key: ShardKey,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, UnparkError> {
        self.wait_for(|backend| backend.unpark_shard(tenant, key, op))
    }

    fn collect_claim_candidates_into(
        &mut self,
        _now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        worker: WorkerId,
        limit: usize,
        out: &mut Vec<ShardId>,
    ) -> Result<ClaimOutlook, RunQueryError> {
        let found =
            self.wait_for(|backend| backend.collect_claim_candidates(tenant, run, worker, limit));
        let outlook;
        (*out, outlook) = found?;
        Ok(outlook)
    }
}
