use shardwright_contracts::{InitialShardInput, RunId, ShardId, ShardKey, TenantId};

use super::run_entry::RunEntry;
use super::{InMemoryCoordinator, PooledShard, PooledShardMut};
use crate::error::reason::{RunLimitExceeded, RunNotFound};
use crate::error::{
    ClaimError, CreateRunError, CreateRunWithShardsError, RegisterShardsError, RunQueryError,
    RunTransitionError,
};
use crate::guard::check_handing_out;
use crate::lease::OwnerLiveness;
use crate::op_log::IdempotentOutcome;
use crate::operation::{
    ChangeRun, CollectClaimCandidates, CreateRun, CreateRunWithShards, GetRun, ListShards,
    RegisterShards, RunTransition,
};
use crate::ops::{self, RegisterStep, RunCall, RunChange};
use crate::progress::{ProgressCounter, RunProgress};
use crate::record::{RunConfig, RunRecord, ShardHead};
use crate::summary::ShardSummary;
use crate::traits::{ClaimHint, RunManagement};

/// `call` answers every request.
impl RunManagement for InMemoryCoordinator {}

impl InMemoryCoordinator {
    pub(super) fn change_run(
        &mut self,
        call: RunCall,
        request: &ChangeRun,
    ) -> Result<IdempotentOutcome<()>, RunTransitionError> {
        let ChangeRun { run, change, op } = *request;
        let progress = match change {
            RunTransition::Complete => self.progress_of(call, run)?,
            _ => RunProgress::default(),
        };
        let mut events = self.collector();
        let state = self.run_mut(call.tenant, run)?;
        let change = RunChange::of(change, &progress);
        let result = ops::change_run(&call, &mut state.record, change, op, &mut events);
        self.publish(events);
        result
    }

    /// Checks that another run is within the limit.
    const fn check_run_limit(&self) -> Result<(), RunLimitExceeded> {
        let max = self.config.max_total_runs;
        if self.total_runs >= max {
            return Err(RunLimitExceeded { max });
        }
        Ok(())
    }

    fn insert_run(&mut self, tenant: TenantId, run: RunId, record: RunRecord) {
        let runs = &mut self.tenants.entry(tenant).or_default().runs;
        runs.insert(run, RunEntry::new(record));
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

    /// Inserts stored shards into their run.
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

/// The operations of [`crate::CoordinationBackend::call`] on runs.
impl InMemoryCoordinator {
    pub(super) fn make_run(
        &mut self,
        call: RunCall,
        request: &CreateRun,
    ) -> Result<(), CreateRunError> {
        let CreateRun { run, config } = *request;
        let tenant = call.tenant;
        let mut events = self.collector();
        let existing = self.tenants.get(&tenant).and_then(|tenant| tenant.runs.get(&run));
        let existing = existing.map(|state| &state.record);
        let record = ops::create_run(&call, run, config, existing, &mut events)?;
        self.check_run_limit()?;
        self.insert_run(tenant, run, record);
        self.publish(events);
        Ok(())
    }

    pub(super) fn register(
        &mut self,
        call: RunCall,
        request: &RegisterShards<&[u8]>,
    ) -> Result<IdempotentOutcome<()>, RegisterShardsError> {
        let RegisterShards { run, shards, op } = request;
        let (tenant, run) = (call.tenant, *run);
        let record = &self.run_mut(tenant, run)?.record;
        let config = record.config;
        let pending = match ops::register_shards(&call, record, shards, *op)? {
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

    pub(super) fn make_run_with_shards(
        &mut self,
        call: RunCall,
        request: CreateRunWithShards<&[u8]>,
    ) -> Result<IdempotentOutcome<()>, CreateRunWithShardsError> {
        let CreateRunWithShards { run, config, shards, op } = request;
        let tenant = call.tenant;
        let mut events = self.collector();
        let existing = self.run_mut(tenant, run).ok().map(|state| &state.record);
        let adopted = ops::adopt_run(&call, run, config, existing, &mut events)?;
        let Some(mut record) = adopted else {
            return Ok(self.register(call, &RegisterShards { run, shards, op })?);
        };
        self.check_run_limit().map_err(CreateRunError::from)?;
        let step = ops::register_shards(&call, &record, &shards, op)?;
        // Reserve the room first: without it no run is created.
        let stored = self.store_manifest(tenant, run, config, &shards)?;
        if let RegisterStep::Ready(pending) = step {
            pending.apply(&call, &mut record, &mut events);
        }
        self.insert_run(tenant, run, record);
        self.insert_manifest(tenant, run, stored);
        self.publish(events);
        Ok(IdempotentOutcome::Executed(()))
    }

    pub(super) fn record_of(
        &mut self,
        call: RunCall,
        request: &GetRun,
    ) -> Result<RunRecord, RunQueryError> {
        Ok(self.run_mut(call.tenant, request.run)?.record.clone())
    }

    pub(super) fn progress_of(
        &mut self,
        call: RunCall,
        run: RunId,
    ) -> Result<RunProgress, RunNotFound> {
        let Self { tenants, room, config, .. } = self;
        let state = tenants
            .get_mut(&call.tenant)
            .and_then(|tenant| tenant.runs.get_mut(&run))
            .ok_or(RunNotFound { run })?;
        let mut counter = ProgressCounter::new(config.takeover_terms(call.now));
        for shard in state.shards.iter() {
            let (spec, cursor) = (shard.spec(room), shard.cursor(room));
            counter.add(&shard.head, OwnerLiveness::Untracked, spec, cursor);
        }
        let progress = counter.finish(state.watermark.as_deref());
        state.watermark.clone_from(&progress.watermark);
        Ok(progress)
    }

    pub(super) fn list(
        &mut self,
        call: RunCall,
        request: &ListShards,
    ) -> Result<Vec<ShardSummary>, RunQueryError> {
        let ListShards { run, filter } = *request;
        let Self { tenants, room, config, .. } = self;
        let state = tenants
            .get_mut(&call.tenant)
            .and_then(|tenant| tenant.runs.get_mut(&run))
            .ok_or(RunNotFound { run })?;
        let (mut listed, terms) = (Vec::new(), config.takeover_terms(call.now));
        for shard in state.shards.iter_mut() {
            let shard = PooledShardMut { shard, room };
            let summary = ShardSummary::of(&shard, &terms, OwnerLiveness::Untracked);
            if filter.admits(&summary) {
                listed.push(summary);
            }
        }
        ShardSummary::sort(&mut listed);
        Ok(listed)
    }

    pub(super) fn list_candidates(
        &mut self,
        call: RunCall,
        request: &CollectClaimCandidates,
    ) -> Result<(Vec<ShardId>, ClaimHint), RunNotFound> {
        let mut found = Vec::new();
        let hint = self.candidates(call, request, &mut found)?;
        Ok((found, hint))
    }

    /// Collects available shards into `out`, in the order in which to try them.
    pub(super) fn candidates(
        &mut self,
        call: RunCall,
        request: &CollectClaimCandidates,
        out: &mut Vec<ShardId>,
    ) -> Result<ClaimHint, RunNotFound> {
        let CollectClaimCandidates { run, worker, limit } = *request;
        out.clear();
        let floor = self.config.fence_floor;
        let state = self.run_mut(call.tenant, run)?;
        state.expire(call.now);
        if check_handing_out::<ClaimError>(&state.record.state(floor)).is_err() {
            return Ok(ClaimHint { earliest_deadline: None });
        }
        out.extend(state.candidates(worker).take(limit));
        Ok(ClaimHint { earliest_deadline: state.earliest_deadline() })
    }
}
