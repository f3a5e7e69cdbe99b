//! What workers do to shards.

use shardwright_contracts::{
    Cursor, CursorUpdate, OpId, ShardKey, ShardSpec, SplitReplacePlan, SplitResidualPlan, TenantId,
    WorkerId,
};
use shardwright_coordination::async_traits::{SplitOff, SplitReplaced};
use shardwright_coordination::ops::{self, Acquired, NewShard, ReplaceStep, ResidualStep};
use shardwright_coordination::{
    AcquireError, AcquireResultView, AcquireScratch, AsyncCoordinationBackend, CheckpointError,
    CompleteError, Context, DeclineError, HolderNotice, IdempotentOutcome, Lease, OwnerLiveness,
    ParkError, ParkReason, ReleaseError, RenewError, RenewResult, RestoredShardState, ShardHead,
    ShardRecord, SplitError, SplitRequestError, UnparkError,
};
use shardwright_store::Write;

use crate::coordinator::StoredCoordinator;
use crate::fault;
use crate::operate::{Done, Verdict};
use crate::planted::{self, Defect};
use crate::shard::Place;

impl AsyncCoordinationBackend for StoredCoordinator {
    async fn acquire_and_restore(
        &self,
        tenant: TenantId,
        key: ShardKey,
        worker: WorkerId,
    ) -> Result<RestoredShardState, AcquireError> {
        self.acquire(Place { tenant, key }, worker).await
    }

    async fn renew(&self, tenant: TenantId, lease: &Lease) -> Result<RenewResult, RenewError> {
        let place = Place { tenant, key: lease.key() };
        let renewed = self.core.on_shard(place, Some(lease), "renew", |context, draft| {
            let renewed = ops::renew(context, &mut draft.record, lease, &mut draft.events)?;
            Ok::<_, RenewError>(Verdict::Store(renewed))
        });
        let Done { answer, now, .. } = renewed.await?;
        let new_deadline = answer.deadline();
        let aside = self.core.aside(place, lease.fence(), Some(new_deadline), now).await;
        Ok(RenewResult { new_deadline, notice: aside.notice, capacity: aside.capacity })
    }

    async fn checkpoint(
        &self,
        tenant: TenantId,
        lease: &Lease,
        cursor: CursorUpdate<'_>,
        op: OpId,
    ) -> Result<IdempotentOutcome<Option<HolderNotice>>, CheckpointError> {
        let place = Place { tenant, key: lease.key() };
        let mut attempts = 0;
        let moved = self.core.on_shard(place, Some(lease), "checkpoint", |context, draft| {
            attempts += 1;
            let op = planted::op_of_attempt(op, attempts);
            let (record, events) = (&mut draft.record, &mut draft.events);
            ops::checkpoint(context, record, lease, cursor, op, events).map(verdict)
        });
        let Done { answer, now, shard } = moved.await?;
        if !HolderNotice::is_owed(&answer) && !planted::is_active(Defect::ReplayTells) {
            return Ok(answer.map(|()| None));
        }
        let fence = shard.record.head.fence;
        let aside = self.core.aside(place, fence, None, now).await;
        Ok(answer.map(|()| aside.notice))
    }

    async fn complete(
        &self,
        tenant: TenantId,
        lease: &Lease,
        cursor: CursorUpdate<'_>,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, CompleteError> {
        let place = Place { tenant, key: lease.key() };
        let done = self.core.on_shard(place, Some(lease), "complete", |context, draft| {
            let (record, events) = (&mut draft.record, &mut draft.events);
            ops::complete(context, record, lease, cursor, op, events).map(verdict)
        });
        Ok(done.await?.answer)
    }

    async fn park_shard(
        &self,
        tenant: TenantId,
        lease: &Lease,
        reason: ParkReason,
        detail: &[u8],
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, ParkError> {
        let place = Place { tenant, key: lease.key() };
        let parked = self.core.on_shard(place, Some(lease), "park", |context, draft| {
            let (record, events) = (&mut draft.record, &mut draft.events);
            ops::park(context, record, lease, reason, detail, op, events).map(verdict)
        });
        Ok(parked.await?.answer)
    }

    async fn release(
        &self,
        tenant: TenantId,
        lease: &Lease,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, ReleaseError> {
        let place = Place { tenant, key: lease.key() };
        let released = self.core.on_shard(place, Some(lease), "release", |context, draft| {
            let (record, events) = (&mut draft.record, &mut draft.events);
            ops::release(context, record, lease, op, events).map(verdict)
        });
        Ok(released.await?.answer)
    }

    async fn split_replace(
        &self,
        tenant: TenantId,
        lease: &Lease,
        plan: &SplitReplacePlan<'_>,
        op: OpId,
    ) -> SplitReplaced {
        let place = Place { tenant, key: lease.key() };
        let split = self.core.on_shard(place, Some(lease), "split_replace", |context, draft| {
            match ops::split_replace(context, &draft.record, lease, plan, op)? {
                ReplaceStep::Replayed(before) => {
                    Ok(Verdict::Answer(IdempotentOutcome::Replayed(before)))
                }
                ReplaceStep::Ready(pending) => {
                    draft.newborn = newborn(pending.children(), &draft.record.head)?;
                    let result = pending.apply(context, &mut draft.record, &mut draft.events);
                    Ok(Verdict::Store(IdempotentOutcome::Executed(result)))
                }
            }
        });
        let done: Result<Done<_>, SplitError> = split.await;
        Ok(done?.answer)
    }

    async fn split_residual(
        &self,
        tenant: TenantId,
        lease: &Lease,
        plan: &SplitResidualPlan<'_>,
        op: OpId,
    ) -> SplitOff {
        let place = Place { tenant, key: lease.key() };
        let split = self.core.on_shard(place, Some(lease), "split_residual", |context, draft| {
            match ops::split_residual(context, &draft.record, lease, plan, op)? {
                ResidualStep::Replayed(before) => {
                    Ok(Verdict::Answer(IdempotentOutcome::Replayed(before)))
                }
                ResidualStep::Ready(pending) => {
                    let residual = std::slice::from_ref(pending.residual());
                    draft.newborn = newborn(residual, &draft.record.head)?;
                    let result = pending.apply(context, &mut draft.record, &mut draft.events)?;
                    Ok(Verdict::Store(IdempotentOutcome::Executed(result)))
                }
            }
        });
        let done: Result<Done<_>, SplitError> = split.await;
        Ok(done?.answer)
    }

    async fn request_split(
        &self,
        tenant: TenantId,
        key: ShardKey,
        asker: WorkerId,
        patience_ms: u64,
    ) -> Result<(), SplitRequestError> {
        self.ask_for_split(Place { tenant, key }, asker, patience_ms).await
    }

    async fn decline_split(
        &self,
        tenant: TenantId,
        lease: &Lease,
        pause_ms: u64,
    ) -> Result<(), DeclineError> {
        self.decline(Place { tenant, key: lease.key() }, lease, pause_ms).await
    }
}

impl StoredCoordinator {
    pub(crate) async fn acquire(
        &self,
        place: Place,
        worker: WorkerId,
    ) -> Result<RestoredShardState, AcquireError> {
        let Place { tenant, key } = place;
        let seen = self.core.views.get(tenant, key.run);
        let is_exact = planted::is_active(Defect::SkewIgnored);
        let skew_ms = if is_exact { 0 } else { self.core.config.skew_allowance_ms };
        let waiting = || Write::Delete { key: self.core.keys.waiting(tenant, key.run, worker) };
        let acquired = self.core.on_shard(place, None, "acquire", |context, draft| {
            let (record, events) = (&mut draft.record, &mut draft.events);
            let overthrown = Context { holder: OwnerLiveness::Gone, ..*context };
            let max = context.gate.config.max_shard_retries;
            let is_fruitless = max.is_some_and(|max| record.head.fruitless_acquires >= max.get());
            let is_overthrown = planted::is_active(Defect::LiveOwnerOverthrown)
                || (is_fruitless && planted::is_active(Defect::HolderParked));
            let context = match is_overthrown {
                true => &overthrown,
                false => context,
            };
            let acquired = ops::acquire(context, record, worker, skew_ms, events)?;
            if seen.as_ref().is_some_and(|view| view.is_waiting(worker)) {
                draft.also.push(waiting());
            }
            Ok::<_, AcquireError>(Verdict::Store(acquired))
        });
        let Done { answer, now, shard } = acquired.await?;
        let lease = match answer {
            Acquired::Granted(lease) => lease,
            Acquired::Parked(reason) => return Err(reason.into()),
        };
        let mut scratch = AcquireScratch::new();
        let snapshot = scratch.restore(&shard.record);
        let capacity = self.core.aside(place, lease.fence(), None, now).await.capacity;
        Ok(RestoredShardState::from_view(&AcquireResultView { lease, snapshot, capacity }))
    }

    pub(crate) async fn unpark(
        &self,
        place: Place,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, UnparkError> {
        let unparked = self.core.on_shard(place, None, "unpark", |context, draft| {
            ops::unpark(context, &mut draft.record, op, &mut draft.events).map(verdict)
        });
        Ok(unparked.await?.answer)
    }
}

/// What was done before is not stored again.
fn verdict<T>(outcome: IdempotentOutcome<T>) -> Verdict<IdempotentOutcome<T>> {
    match outcome {
        IdempotentOutcome::Executed(_) => Verdict::Store(outcome),
        IdempotentOutcome::Replayed(_) => Verdict::Answer(outcome),
    }
}

/// The records of shards that a split makes.
fn newborn(shards: &[NewShard<'_>], parent: &ShardHead) -> Result<Vec<ShardRecord>, SplitError> {
    let broken = |error: String| SplitError::from(fault::corrupt("split.newborn", error));
    let record = |shard: &NewShard<'_>| {
        Ok(ShardRecord {
            head: shard.head(parent),
            spec: ShardSpec::try_from_ref(shard.spec).map_err(|error| broken(error.to_string()))?,
            cursor: Cursor::try_from_update(shard.cursor)
                .map_err(|error| broken(error.to_string()))?,
        })
    };
    shards.iter().map(record).collect()
}
