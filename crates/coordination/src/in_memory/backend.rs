//! Executes requests in memory: finds the shard, calls the operation and updates the indexes.

use shardwright_contracts::{
    CursorUpdate, LogicalTime, OpId, ShardKey, SlabFull, SplitReplacePlan, SplitResidualPlan,
    TenantId, WorkerId,
};

use super::byte_budget::of_spawned;
use super::run_entry::{Availability, RunEntry};
use super::{InMemoryCoordinator, Located, PooledShard, PooledShardMut};
use crate::async_traits::{Checkpointed, SplitOff, SplitReplaced};
use crate::error::reason::{ShardNotFound, SplitInvalid};
use crate::error::{
    AcquireError, CompleteError, DeclineError, InfraError, ParkError, ReleaseError, RenewError,
    SplitReplaceError, SplitRequestError, SplitResidualError, UnparkError,
};
use crate::events::EventCollector;
use crate::guard::Context;
use crate::lease::Lease;
use crate::op_log::IdempotentOutcome;
use crate::operation::{
    Acquire, Answer, Checkpoint, Complete, DeclineSplit, ParkShard, Release, Renew, Reply, Request,
    RequestSplit, SplitReplace, SplitResidual, UnparkShard, widen,
};
use crate::ops::{self, Acquired, NewShard, ReplaceStep, ResidualStep, RunCall};
use crate::restore::{
    AcquireResultView, AcquireScratch, HolderNotice, RenewResult, RestoredShardState,
};
use crate::traits::CoordinationBackend;

impl InMemoryCoordinator {
    /// Executes an operation on one shard and updates the indexes.
    fn on_shard<T, E: From<ShardNotFound>>(
        &mut self,
        call: RunCall,
        key: ShardKey,
        operation: impl FnOnce(
            &Context<'_>,
            &mut PooledShardMut<'_>,
            &mut EventCollector,
        ) -> Result<T, E>,
    ) -> Result<T, E> {
        self.on_shard_then(call, key, operation, |_, outcome| outcome)
    }

    /// Like [`InMemoryCoordinator::on_shard`]. `complete` adds state of the run to the outcome.
    fn on_shard_then<T, U, E: From<ShardNotFound>>(
        &mut self,
        call: RunCall,
        key: ShardKey,
        operation: impl FnOnce(
            &Context<'_>,
            &mut PooledShardMut<'_>,
            &mut EventCollector,
        ) -> Result<T, E>,
        complete: impl FnOnce(&mut RunEntry, T) -> U,
    ) -> Result<U, E> {
        let RunCall { now, tenant } = call;
        let mut events = self.collector();
        let result = self.locate(tenant, key).map_err(E::from).and_then(|located| {
            let Located { run, room, state } = located;
            let (row, shard) = run.shards.find_mut(key.shard).ok_or(ShardNotFound { key })?;
            let before = Availability::of(&shard.head, state.fence_floor);
            let context = Context::new(now, tenant, &state);
            let mut view = PooledShardMut { shard, room };
            let result = operation(&context, &mut view, &mut events);
            let after = Availability::of(&view.shard.head, state.fence_floor);
            run.reindex(key.shard, row, before, after);
            result.map(|outcome| complete(run, outcome))
        });
        self.publish(events);
        result
    }

    /// Checks that new shards fit, and stores them outside the run for a later insertion.
    fn reserve_children(
        &mut self,
        tenant: TenantId,
        parent: ShardKey,
        children: &[NewShard<'_>],
    ) -> Result<Vec<PooledShard>, ReserveError> {
        let of_tenant = self.tenants.get(&tenant).map_or(0, |tenant| tenant.shard_count);
        self.limits()
            .check(of_tenant, self.total_shards, children.len())
            .map_err(SplitInvalid::from)?;
        let Located { run, room, .. } = self.locate(tenant, parent)?;
        let head = run.shards.find(parent.shard).ok_or(ShardNotFound { key: parent })?;
        if let Some(taken) = children.iter().find(|child| run.shards.contains(child.shard)) {
            return Err(SplitInvalid::DerivedIdCollision { shard: taken.shard }.into());
        }
        // The parent records the ids of its children.
        room.reserve_outside(of_spawned(children.len()))?;
        let mut stored = Vec::with_capacity(children.len());
        for child in children {
            match PooledShard::insert(room, child.head(&head.head), child.spec, child.cursor) {
                Ok(shard) => stored.push(shard),
                Err(full) => {
                    room.free_outside(of_spawned(children.len()));
                    stored.into_iter().for_each(|shard: PooledShard| shard.remove(room));
                    return Err(full.into());
                }
            }
        }
        Ok(stored)
    }

    /// Frees the bytes of reserved shards.
    fn drop_children(&mut self, children: Vec<PooledShard>) {
        self.room.free_outside(of_spawned(children.len()));
        children.into_iter().for_each(|shard| shard.remove(&mut self.room));
    }

    /// Inserts reserved shards into their run.
    fn insert_children(&mut self, tenant: TenantId, parent: ShardKey, children: Vec<PooledShard>) {
        let count = children.len();
        if let Some(state) = self.tenants.get_mut(&tenant) {
            state.shard_count += count;
            self.total_shards += count;
            if let Some(run) = state.runs.get_mut(&parent.run) {
                run.insert_all(children);
                run.answer_request(parent.shard);
            }
        }
    }
}

/// Why there is no room for a split's shards.
enum ReserveError {
    NotFound(ShardNotFound),
    Invalid(SplitInvalid),
    Full(SlabFull),
}

impl From<ShardNotFound> for ReserveError {
    fn from(reason: ShardNotFound) -> Self {
        Self::NotFound(reason)
    }
}

impl From<SplitInvalid> for ReserveError {
    fn from(reason: SplitInvalid) -> Self {
        Self::Invalid(reason)
    }
}

impl From<SlabFull> for ReserveError {
    fn from(reason: SlabFull) -> Self {
        Self::Full(reason)
    }
}

impl From<ReserveError> for crate::error::SplitError {
    fn from(error: ReserveError) -> Self {
        match error {
            ReserveError::NotFound(reason) => reason.into(),
            ReserveError::Invalid(reason) => reason.into(),
            ReserveError::Full(reason) => reason.into(),
        }
    }
}

impl CoordinationBackend for InMemoryCoordinator {
    fn call(&mut self, now: LogicalTime, tenant: TenantId, request: Request<&[u8]>) -> Answer {
        let call = RunCall { now, tenant };
        match request {
            Request::Acquire(it) => widen(self.acquire(call, &it)),
            Request::Renew(it) => widen(self.extend(call, &it)),
            Request::Checkpoint(it) => widen(self.advance(call, &it)),
            Request::Complete(it) => widen(self.finish(call, &it)),
            Request::ParkShard(it) => widen(self.park(call, &it)),
            Request::Release(it) => widen(self.end_lease(call, &it)),
            Request::SplitReplace(it) => widen(self.replace(call, &it)),
            Request::SplitResidual(it) => widen(self.split_off(call, &it)),
            Request::RequestSplit(it) => widen(self.request_split_of(call, &it)),
            Request::DeclineSplit(it) => widen(self.decline(call, &it)),
            Request::CreateRun(it) => widen(self.make_run(call, &it)),
            Request::RegisterShards(it) => widen(self.register(call, &it)),
            Request::CreateRunWithShards(it) => widen(self.make_run_with_shards(call, it)),
            Request::GetRun(it) => widen(self.record_of(call, &it)),
            Request::GetRunProgress(it) => widen(self.progress_of(call, it.run)),
            Request::ListShards(it) => widen(self.list(call, &it)),
            Request::ChangeRun(it) => widen(self.change_run(call, &it)),
            Request::UnparkShard(it) => widen(self.unpark(call, &it)),
            Request::CollectClaimCandidates(it) => widen(self.list_candidates(call, &it)),
            Request::Claim(it) => widen(self.claim(call, &it)),
            Request::FindRun(it) => widen(Ok::<_, InfraError>(self.find(tenant, it.name))),
            Request::NameRun(it) => widen(self.name(tenant, &it)),
            Request::LabelOf(it) => widen(Ok::<_, InfraError>(self.label(tenant, it.run))),
            Request::ListLabels(_) => widen(Ok::<_, InfraError>(self.labels(tenant))),
            Request::PublishEstimate(it) => {
                self.publish_estimate_of(call, &it);
                Ok(Reply::Done)
            }
            Request::ListEstimates(it) => widen(Ok::<_, InfraError>(self.estimates(call, it.run))),
        }
    }

    fn acquire_and_restore_into<'s>(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        key: ShardKey,
        worker: WorkerId,
        scratch: &'s mut AcquireScratch,
    ) -> Result<AcquireResultView<'s>, AcquireError> {
        self.on_shard_then(
            RunCall { now, tenant },
            key,
            |context, shard, events| match ops::acquire(context, shard, worker, 0, events)? {
                Acquired::Granted(lease) => Ok((lease, scratch.restore(shard))),
                Acquired::Parked(reason) => Err(AcquireError::from(reason)),
            },
            |run, (lease, snapshot)| {
                // Requests and refusals of the previous holder end with its lease.
                run.forget_requests(key.shard);
                run.waiting.stop(worker);
                AcquireResultView { lease, snapshot, capacity: run.capacity(now) }
            },
        )
    }

    fn renew(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        lease: &Lease,
    ) -> Result<RenewResult, RenewError> {
        self.extend(RunCall { now, tenant }, &Renew { lease: *lease })
    }

    fn checkpoint(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        lease: &Lease,
        cursor: CursorUpdate<'_>,
        op: OpId,
    ) -> Checkpointed {
        self.advance(RunCall { now, tenant }, &Checkpoint { lease: *lease, op, cursor })
    }
}

/// The operations of [`CoordinationBackend::call`] on shards.
impl InMemoryCoordinator {
    fn acquire(
        &mut self,
        call: RunCall,
        request: &Acquire,
    ) -> Result<RestoredShardState, AcquireError> {
        let RunCall { now, tenant } = call;
        let Acquire { key, worker } = *request;
        let mut scratch = AcquireScratch::new();
        let acquired = self.acquire_and_restore_into(now, tenant, key, worker, &mut scratch)?;
        Ok(RestoredShardState::from_view(&acquired))
    }

    fn extend(&mut self, call: RunCall, request: &Renew) -> Result<RenewResult, RenewError> {
        let (now, key) = (call.now, request.lease.key());
        self.on_shard_then(
            call,
            key,
            |context, shard, events| ops::renew(context, shard, request, events),
            |run, renewed| RenewResult {
                new_deadline: renewed.deadline(),
                notice: Some(run.notice(key.shard, now)),
                capacity: run.capacity(now),
            },
        )
    }

    fn advance(&mut self, call: RunCall, request: &Checkpoint<&[u8]>) -> Checkpointed {
        let (now, key) = (call.now, request.lease.key());
        self.on_shard_then(
            call,
            key,
            |context, shard, events| ops::checkpoint(context, shard, request, events),
            |run, outcome| {
                let is_owed = HolderNotice::is_owed(&outcome);
                let notice = is_owed.then(|| run.notice(key.shard, now));
                outcome.map(|()| notice)
            },
        )
    }

    fn finish(
        &mut self,
        call: RunCall,
        request: &Complete<&[u8]>,
    ) -> Result<IdempotentOutcome<()>, CompleteError> {
        self.on_shard(call, request.lease.key(), |context, shard, events| {
            ops::complete(context, shard, request, events)
        })
    }

    fn park(
        &mut self,
        call: RunCall,
        request: &ParkShard<&[u8]>,
    ) -> Result<IdempotentOutcome<()>, ParkError> {
        self.on_shard(call, request.lease.key(), |context, shard, events| {
            ops::park(context, shard, request, events)
        })
    }

    fn end_lease(
        &mut self,
        call: RunCall,
        request: &Release,
    ) -> Result<IdempotentOutcome<()>, ReleaseError> {
        self.on_shard(call, request.lease.key(), |context, shard, events| {
            ops::release(context, shard, request, events)
        })
    }

    fn replace(&mut self, call: RunCall, request: &SplitReplace<&[u8]>) -> SplitReplaced {
        let SplitReplace { lease, parts, op } = request;
        let (key, plan) = (lease.key(), SplitReplacePlan::from_parts(parts));
        let plan = plan.map_err(SplitInvalid::from)?;
        let step = self.on_shard(call, key, |context, shard, _| {
            ops::split_replace(context, shard, lease, &plan, *op)
        })?;
        let pending = match step {
            ReplaceStep::Replayed(result) => return Ok(IdempotentOutcome::Replayed(result)),
            ReplaceStep::Ready(pending) => pending,
        };
        let children = self.reserve_children(call.tenant, key, pending.children())?;
        let result = self.on_shard(call, key, |context, shard, events| {
            Ok::<_, SplitReplaceError>(pending.apply(context, shard, events))
        })?;
        self.insert_children(call.tenant, key, children);
        Ok(IdempotentOutcome::Executed(result))
    }

    fn split_off(&mut self, call: RunCall, request: &SplitResidual<&[u8]>) -> SplitOff {
        let SplitResidual { lease, narrowed, residual, op } = request;
        let (key, plan) = (lease.key(), SplitResidualPlan::from_parts(*narrowed, *residual));
        let step = self.on_shard(call, key, |context, shard, _| {
            ops::split_residual(context, shard, lease, &plan, *op)
        })?;
        let pending = match step {
            ResidualStep::Replayed(result) => return Ok(IdempotentOutcome::Replayed(result)),
            ResidualStep::Ready(pending) => pending,
        };
        let children = self.reserve_children(call.tenant, key, &[*pending.residual()])?;
        let applied = self.on_shard(call, key, |context, shard, events| {
            Ok::<_, SplitResidualError>(pending.apply(context, shard, events)?)
        });
        match applied {
            Ok(result) => {
                self.insert_children(call.tenant, key, children);
                Ok(IdempotentOutcome::Executed(result))
            }
            Err(error) => {
                self.drop_children(children);
                Err(error)
            }
        }
    }

    fn request_split_of(
        &mut self,
        call: RunCall,
        request: &RequestSplit,
    ) -> Result<(), SplitRequestError> {
        let RunCall { now, tenant } = call;
        let RequestSplit { key, requester, .. } = *request;
        let mut events = self.collector();
        let Located { run, state, .. } = self.locate(tenant, key)?;
        let context = Context::new(now, tenant, &state);
        let open_elsewhere = run.has_asked_elsewhere(&context, requester, key.shard);
        let mut slot = run.request_slot(key.shard);
        let head = head_of(run, key)?;
        ops::request_split(&context, head, &mut slot, request, open_elsewhere, &mut events)?;
        run.set_request_slot(key.shard, slot);
        self.publish(events);
        Ok(())
    }

    fn decline(&mut self, call: RunCall, request: &DeclineSplit) -> Result<(), DeclineError> {
        let RunCall { now, tenant } = call;
        let key = request.lease.key();
        let mut events = self.collector();
        let Located { run, state, .. } = self.locate(tenant, key)?;
        let mut slot = run.request_slot(key.shard);
        let head = head_of(run, key)?;
        let context = Context::new(now, tenant, &state);
        ops::decline_split(&context, head, &mut slot, request, &mut events)?;
        run.set_request_slot(key.shard, slot);
        self.publish(events);
        Ok(())
    }

    fn unpark(
        &mut self,
        call: RunCall,
        request: &UnparkShard,
    ) -> Result<IdempotentOutcome<()>, UnparkError> {
        self.on_shard(call, request.key, |context, shard, events| {
            ops::unpark(context, shard, request, events)
        })
    }
}

fn head_of(run: &RunEntry, key: ShardKey) -> Result<&crate::record::ShardHead, ShardNotFound> {
    run.shards.find(key.shard).map(|shard| &shard.head).ok_or(ShardNotFound { key })
}
