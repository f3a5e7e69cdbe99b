use shardwright_contracts::{
    InitialShardInput, LogicalTime, OpId, RunId, ShardId, ShardKey, TenantId, WorkerId,
};

use super::run_state::RunState;
use super::{InMemoryCoordinator, PooledShard, PooledShardMut};
use crate::error::reason::{RunLimitExceeded, RunNotFound};
use crate::error::{
    ClaimError, CreateRunError, RegisterShardsError, RunQueryError, RunTransitionError, UnparkError,
};
use crate::guard::check_handing_out;
use crate::op_log::IdempotentOutcome;
use crate::ops::{self, RegisterStep, RunCall, RunChange};
use crate::planted::{self, Defect};
use crate::progress::{ProgressCounter, RunProgress};
use crate::record::{RunConfig, RunRecord, ShardHead};
use crate::summary::{ShardFilter, ShardSummary};
use crate::traits::{ClaimOutlook, CreateRunWithShardsError, RunManagement};

impl InMemoryCoordinator {
    fn change_run(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        change: RunChange<'_>,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RunTransitionError> {
        let mut events = self.collector();
        let result = self.run_mut(tenant, run).map_err(Into::into).and_then(|state| {
            let call = RunCall { now, tenant };
            ops::change_run(&call, &mut state.record, change, op, &mut events)
        });
        self.publish(events);
        let has_paused =
            change == RunChange::Pause && matches!(result, Ok(IdempotentOutcome::Executed(())));
        if has_paused && planted::is_active(Defect::PauseSpreads) {
            let runs =
                self.tenants.get_mut(&tenant).into_iter().flat_map(|it| it.runs.values_mut());
            runs.filter(|run| run.record.status == crate::status::RunStatus::Active)
                .for_each(|run| run.record.paused = true);
        }
        result
    }

    /// Checks that there may be one more run.
    const fn check_run_limit(&self) -> Result<(), RunLimitExceeded> {
        let max = self.config.max_total_runs;
        if self.total_runs >= max {
            return Err(RunLimitExceeded { max });
        }
        Ok(())
    }

    fn insert_run(&mut self, tenant: TenantId, run: RunId, record: RunRecord) {
        let runs = &mut self.tenants.entry(tenant).or_default().runs;
        runs.insert(run, RunState::new(record));
        self.total_runs += 1;
    }

    /// Stores the shards of a manifest, or none of them if there is no room for all.
    fn store_manifest(
        &mut self,
        tenant: TenantId,
        run: RunId,
        config: RunConfig,
        shards: &[InitialShardInput<'_>],
    ) -> Result<Vec<PooledShard>, RegisterShardsError> {
        let of_tenant = self.tenants.get(&tenant).map_or(0, |tenant| tenant.shard_count);
        self.limits().check(of_tenant, self.total_shards, shards.len())?;
        let mut stored = Vec::with_capacity(shards.len());
        for input in shards {
            let key = ShardKey::new(run, input.shard);
            let head = ShardHead::new(tenant, key, None, config.cursor_semantics);
            match PooledShard::insert(&mut self.room, head, input.spec, input.cursor) {
                Ok(shard) => stored.push(shard),
                Err(full) => {
                    stored.into_iter().for_each(|shard: PooledShard| shard.remove(&mut self.room));
                    return Err(full.into());
                }
            }
        }
        Ok(stored)
    }

    /// Puts stored shards into their run.
    fn insert_manifest(&mut self, tenant: TenantId, run: RunId, stored: Vec<PooledShard>) {
        if let Some(state) = self.tenants.get_mut(&tenant) {
            state.shard_count += stored.len();
            self.total_shards += stored.len();
            if let Some(run) = state.runs.get_mut(&run) {
                run.insert_all(stored);
            }
        }
    }
}

impl RunManagement for InMemoryCoordinator {
    fn create_run(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        config: RunConfig,
    ) -> Result<(), CreateRunError> {
        let mut events = self.collector();
        let existing = self.tenants.get(&tenant).and_then(|tenant| tenant.runs.get(&run));
        let existing = existing.map(|state| &state.record);
        let call = RunCall { now, tenant };
        let record = ops::create_run(&call, run, config, existing, &mut events)?;
        self.check_run_limit()?;
        self.insert_run(tenant, run, record);
        self.publish(events);
        Ok(())
    }

    fn register_shards(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        shards: &[InitialShardInput<'_>],
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RegisterShardsError> {
        let call = RunCall { now, tenant };
        let record = &self.run_mut(tenant, run)?.record;
        let config = record.config;
        let pending = match ops::register_shards(&call, record, shards, op)? {
            RegisterStep::Replayed => return Ok(IdempotentOutcome::Replayed(())),
            RegisterStep::Ready(pending) => pending,
        };
        let stored = self.store_manifest(tenant, run, config, shards)?;
        let mut events = self.collector();
        let state = self.run_mut(tenant, run)?;
        pending.apply(&call, &mut state.record, &mut events);
        self.insert_manifest(tenant, run, stored);
        self.publish(events);
        Ok(IdempotentOutcome::Executed(()))
    }

    fn create_run_with_shards(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        config: RunConfig,
        shards: &[InitialShardInput<'_>],
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, CreateRunWithShardsError> {
        let call = RunCall { now, tenant };
        let mut events = self.collector();
        let existing = self.run_mut(tenant, run).ok().map(|state| &state.record);
        let adopted = ops::adopt_run(&call, run, config, existing, &mut events)?;
        let Some(mut record) = adopted else {
            return Ok(self.register_shards(now, tenant, run, shards, op)?);
        };
        self.check_run_limit().map_err(CreateRunError::from)?;
        let step = ops::register_shards(&call, &record, shards, op)?;
        // Room comes first: without it there is to be no run either.
        let stored = self.store_manifest(tenant, run, config, shards)?;
        if let RegisterStep::Ready(pending) = step {
            pending.apply(&call, &mut record, &mut events);
        }
        self.insert_run(tenant, run, record);
        self.insert_manifest(tenant, run, stored);
        self.publish(events);
        Ok(IdempotentOutcome::Executed(()))
    }

    fn get_run(&mut self, tenant: TenantId, run: RunId) -> Result<RunRecord, RunQueryError> {
        Ok(self.run_mut(tenant, run)?.record.clone())
    }

    fn get_run_progress(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
    ) -> Result<RunProgress, RunQueryError> {
        let Self { tenants, room, config, .. } = self;
        let state = tenants
            .get_mut(&tenant)
            .and_then(|tenant| tenant.runs.get_mut(&run))
            .ok_or(RunNotFound { run })?;
        let mut counter = ProgressCounter::new(now, config.fence_floor);
        for shard in state.shards.iter() {
            counter.add(&shard.head, shard.spec(room), shard.cursor(room));
        }
        let progress = counter.finish(state.watermark.as_deref());
        state.watermark.clone_from(&progress.watermark);
        Ok(progress)
    }

    fn list_shards_into(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        filter: ShardFilter,
        out: &mut Vec<ShardSummary>,
    ) -> Result<(), RunQueryError> {
        let Self { tenants, room, config, .. } = self;
        let state = tenants
            .get_mut(&tenant)
            .and_then(|tenant| tenant.runs.get_mut(&run))
            .ok_or(RunNotFound { run })?;
        out.clear();
        for shard in state.shards.iter_mut() {
            let summary =
                ShardSummary::of(&PooledShardMut { shard, room }, now, config.fence_floor);
            if filter.admits(&summary) {
                out.push(summary);
            }
        }
        ShardSummary::sort(out);
        Ok(())
    }

    fn complete_run(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RunTransitionError> {
        let progress = self.get_run_progress(now, tenant, run).map_err(|error| match error {
            RunQueryError::RunNotFound(reason) => RunTransitionError::from(reason),
            RunQueryError::TenantMismatch(reason) => reason.into(),
            RunQueryError::BackendError(reason) => reason.into(),
        })?;
        self.change_run(now, tenant, run, RunChange::Complete(&progress), op)
    }

    fn fail_run(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RunTransitionError> {
        self.change_run(now, tenant, run, RunChange::Fail, op)
    }

    fn cancel_run(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RunTransitionError> {
        self.change_run(now, tenant, run, RunChange::Cancel, op)
    }

    fn pause_run(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RunTransitionError> {
        self.change_run(now, tenant, run, RunChange::Pause, op)
    }

    fn resume_run(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RunTransitionError> {
        self.change_run(now, tenant, run, RunChange::Resume, op)
    }

    fn unpark_shard(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        key: ShardKey,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, UnparkError> {
        self.on_shard(now, tenant, key, |context, shard, events| {
            ops::unpark(context, shard, op, events)
        })
    }

    fn collect_claim_candidates_into(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        worker: WorkerId,
        limit: usize,
        out: &mut Vec<ShardId>,
    ) -> Result<ClaimOutlook, RunQueryError> {
        out.clear();
        let floor = self.config.fence_floor;
        let state = self.run_mut(tenant, run)?;
        state.expire(now);
        if check_handing_out::<ClaimError>(&state.record.gate(floor)).is_err() {
            return Ok(ClaimOutlook { earliest_deadline: None });
        }
        let skipped = usize::from(planted::is_active(Defect::CandidateSkipped));
        out.extend(state.candidates(worker).skip(skipped).take(limit));
        let is_silent = planted::is_active(Defect::OutlookSilent);
        let earliest_deadline = state.earliest_deadline().filter(|_| !is_silent);
        Ok(ClaimOutlook { earliest_deadline })
    }
}
