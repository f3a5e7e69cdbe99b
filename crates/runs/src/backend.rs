//! The coordinator as a backend: one match from requests to typed functions, and the operations on
//! shards.

use std::future::Future;

use shardwright_contracts::{
    BoxFuture, Cursor, RunId, ShardSpec, SplitReplacePlan, SplitResidualPlan, TenantId, WorkerId,
};
use shardwright_coordination::async_traits::{Checkpointed, SplitOff, SplitReplaced};
use shardwright_coordination::error::reason::SplitInvalid;
use shardwright_coordination::operation::{
    Checkpoint, Complete, ParkShard, Release, Renew, SplitReplace, SplitResidual, UnparkShard,
    widen,
};
use shardwright_coordination::ops::{self, Acquired, NewShard, ReplaceStep, ResidualStep};
use shardwright_coordination::{
    AcquireError, AcquireResultView, AcquireScratch, Answer, Backend, CompleteError, CoordError,
    HolderNotice, IdempotentOutcome, ParkError, ReleaseError, RenewError, RenewResult, Reply,
    Request, RestoredShardState, ShardHead, ShardRecord, SplitError, UnparkError,
};
use shardwright_engine::{fault, operation};
use shardwright_store::Write;

use crate::coordinator::StoredCoordinator;
use crate::operate::{Done, RuleDecision};
use crate::shard::ShardAddress;

impl StoredCoordinator {
    pub(crate) async fn renew(
        &self,
        tenant: TenantId,
        request: Renew,
    ) -> Result<RenewResult, RenewError> {
        let lease = &request.lease;
        let address = ShardAddress { tenant, key: lease.key() };
        let renewed =
            self.core.on_shard(address, Some(lease), operation!("renew"), |context, draft| {
                let renewed = ops::renew(context, &mut draft.record, &request, &mut draft.events)?;
                Ok::<_, RenewError>(RuleDecision::Store(renewed))
            });
        let Done { answer, now, .. } = renewed.await?;
        let new_deadline = answer.deadline();
        let hints = self.core.holder_hints(address, lease.fence(), Some(new_deadline), now).await;
        Ok(RenewResult { new_deadline, notice: hints.notice, capacity: hints.capacity })
    }

    pub(crate) async fn checkpoint(
        &self,
        tenant: TenantId,
        request: Checkpoint<&[u8]>,
    ) -> Checkpointed {
        let lease = &request.lease;
        let address = ShardAddress { tenant, key: lease.key() };
        let moved =
            self.core.on_shard(address, Some(lease), operation!("checkpoint"), |context, draft| {
                let (record, events) = (&mut draft.record, &mut draft.events);
                ops::checkpoint(context, record, &request, events).map(decision)
            });
        let Done { answer, now, shard } = moved.await?;
        if !HolderNotice::is_owed(&answer) {
            return Ok(answer.map(|()| None));
        }
        let fence = shard.record.head.fence;
        let hints = self.core.holder_hints(address, fence, None, now).await;
        Ok(answer.map(|()| hints.notice))
    }

    pub(crate) async fn complete(
        &self,
        tenant: TenantId,
        request: Complete<&[u8]>,
    ) -> Result<IdempotentOutcome<()>, CompleteError> {
        let lease = &request.lease;
        let address = ShardAddress { tenant, key: lease.key() };
        let done =
            self.core.on_shard(address, Some(lease), operation!("complete"), |context, draft| {
                let (record, events) = (&mut draft.record, &mut draft.events);
                ops::complete(context, record, &request, events).map(decision)
            });
        Ok(done.await?.answer)
    }

    pub(crate) async fn park_shard(
        &self,
        tenant: TenantId,
        request: ParkShard<&[u8]>,
    ) -> Result<IdempotentOutcome<()>, ParkError> {
        let lease = &request.lease;
        let address = ShardAddress { tenant, key: lease.key() };
        let parked =
            self.core.on_shard(address, Some(lease), operation!("park"), |context, draft| {
                let (record, events) = (&mut draft.record, &mut draft.events);
                ops::park(context, record, &request, events).map(decision)
            });
        Ok(parked.await?.answer)
    }

    pub(crate) async fn release(
        &self,
        tenant: TenantId,
        request: Release,
    ) -> Result<IdempotentOutcome<()>, ReleaseError> {
        let lease = &request.lease;
        let address = ShardAddress { tenant, key: lease.key() };
        let released =
            self.core.on_shard(address, Some(lease), operation!("release"), |context, draft| {
                let (record, events) = (&mut draft.record, &mut draft.events);
                ops::release(context, record, &request, events).map(decision)
            });
        Ok(released.await?.answer)
    }

    pub(crate) async fn split_replace(
        &self,
        tenant: TenantId,
        request: SplitReplace<&[u8]>,
    ) -> SplitReplaced {
        let (lease, op) = (&request.lease, request.op);
        let plan = &SplitReplacePlan::from_parts(&request.parts).map_err(SplitInvalid::from)?;
        let address = ShardAddress { tenant, key: lease.key() };
        let split =
            self.core.split_shard(address, lease, operation!("split_replace"), |context, draft| {
                match ops::split_replace(context, &draft.record, lease, plan, op)? {
                    ReplaceStep::Replayed(before) => {
                        Ok(RuleDecision::Answer(IdempotentOutcome::Replayed(before)))
                    }
                    ReplaceStep::Ready(pending) => {
                        draft.new_shards = new_shards(pending.children(), &draft.record.head)?;
                        let result = pending.apply(context, &mut draft.record, &mut draft.events);
                        Ok(RuleDecision::Store(IdempotentOutcome::Executed(result)))
                    }
                }
            });
        let done: Result<Done<_>, SplitError> = split.await;
        Ok(done?.answer)
    }

    pub(crate) async fn split_residual(
        &self,
        tenant: TenantId,
        request: SplitResidual<&[u8]>,
    ) -> SplitOff {
        let (lease, op) = (&request.lease, request.op);
        let plan = &SplitResidualPlan::from_parts(request.narrowed, request.residual);
        let address = ShardAddress { tenant, key: lease.key() };
        let split = self.core.split_shard(
            address,
            lease,
            operation!("split_residual"),
            |context, draft| match ops::split_residual(context, &draft.record, lease, plan, op)? {
                ResidualStep::Replayed(before) => {
                    Ok(RuleDecision::Answer(IdempotentOutcome::Replayed(before)))
                }
                ResidualStep::Ready(pending) => {
                    let residual = std::slice::from_ref(pending.residual());
                    draft.new_shards = new_shards(residual, &draft.record.head)?;
                    let result = pending.apply(context, &mut draft.record, &mut draft.events)?;
                    Ok(RuleDecision::Store(IdempotentOutcome::Executed(result)))
                }
            },
        );
        let done: Result<Done<_>, SplitError> = split.await;
        Ok(done?.answer)
    }
}

impl StoredCoordinator {
    pub(crate) async fn acquire(
        &self,
        address: ShardAddress,
        worker: WorkerId,
    ) -> Result<RestoredShardState, AcquireError> {
        let ShardAddress { tenant, key } = address;
        let seen = self.core.views.get(tenant, key.run);
        let skew_ms = self.core.config.skew_allowance_ms;
        let waiting = || Write::Delete { key: self.core.keys.waiting(tenant, key.run, worker) };
        let acquired =
            self.core.on_shard(address, None, operation!("acquire"), |context, draft| {
                let (record, events) = (&mut draft.record, &mut draft.events);
                let acquired = ops::acquire(context, record, worker, skew_ms, events)?;
                if seen.as_ref().is_some_and(|view| view.is_waiting(worker)) {
                    draft.also.push(waiting());
                }
                Ok::<_, AcquireError>(RuleDecision::Store(acquired))
            });
        let Done { answer, now, shard } = acquired.await?;
        let lease = match answer {
            Acquired::Granted(lease) => lease,
            Acquired::Parked(reason) => return Err(reason.into()),
        };
        let mut scratch = AcquireScratch::new();
        let snapshot = scratch.restore(&shard.record);
        let capacity = self.core.holder_hints(address, lease.fence(), None, now).await.capacity;
        Ok(RestoredShardState::from_view(&AcquireResultView { lease, snapshot, capacity }))
    }

    pub(crate) async fn unpark(
        &self,
        tenant: TenantId,
        request: UnparkShard,
    ) -> Result<IdempotentOutcome<()>, UnparkError> {
        let address = ShardAddress { tenant, key: request.key };
        let unparked = self.core.on_shard(address, None, operation!("unpark"), |context, draft| {
            ops::unpark(context, &mut draft.record, &request, &mut draft.events).map(decision)
        });
        Ok(unparked.await?.answer)
    }
}

/// A replayed operation stores nothing.
fn decision<T>(outcome: IdempotentOutcome<T>) -> RuleDecision<IdempotentOutcome<T>> {
    match outcome {
        IdempotentOutcome::Executed(_) => RuleDecision::Store(outcome),
        IdempotentOutcome::Replayed(_) => RuleDecision::Answer(outcome),
    }
}

/// Records of the shards that a split creates.
fn new_shards(shards: &[NewShard<'_>], parent: &ShardHead) -> Result<Vec<ShardRecord>, SplitError> {
    let broken = |error: String| SplitError::from(fault::corrupt(operation!("split"), error));
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

impl Backend for StoredCoordinator {
    fn call<'a>(&'a self, tenant: TenantId, request: Request<&'a [u8]>) -> BoxFuture<'a, Answer> {
        match request {
            Request::Acquire(it) => {
                answer(self.acquire(ShardAddress { tenant, key: it.key }, it.worker))
            }
            Request::Renew(it) => answer(self.renew(tenant, it)),
            Request::Checkpoint(it) => answer(self.checkpoint(tenant, it)),
            Request::Complete(it) => answer(self.complete(tenant, it)),
            Request::ParkShard(it) => answer(self.park_shard(tenant, it)),
            Request::Release(it) => answer(self.release(tenant, it)),
            Request::SplitReplace(it) => answer(self.split_replace(tenant, it)),
            Request::SplitResidual(it) => answer(self.split_residual(tenant, it)),
            Request::RequestSplit(it) => {
                answer(self.change_slot(ShardAddress { tenant, key: it.key }, it))
            }
            Request::DeclineSplit(it) => {
                answer(self.change_slot(ShardAddress { tenant, key: it.lease.key() }, it))
            }
            Request::CreateRun(it) => answer(self.create_run(tenant, it)),
            Request::RegisterShards(it) => answer(self.register_shards(tenant, it)),
            Request::CreateRunWithShards(it) => answer(self.create_run_with_shards(tenant, it)),
            Request::GetRun(it) => answer(self.get_run(tenant, it)),
            Request::GetRunProgress(it) => answer(self.get_run_progress(tenant, it)),
            Request::ListShards(it) => answer(self.list_shards(tenant, it)),
            Request::ChangeRun(it) => answer(self.change(tenant, it.run, it.change, it.op)),
            Request::UnparkShard(it) => answer(self.unpark(tenant, it)),
            Request::CollectClaimCandidates(it) => {
                answer(self.candidates(tenant, it.run, it.worker, it.limit))
            }
            Request::Claim(it) => answer(self.claim_next_available(tenant, it)),
            Request::FindRun(it) => answer(self.find_run(tenant, it)),
            Request::NameRun(it) => answer(self.name_run(tenant, it)),
            Request::LabelOf(it) => answer(self.label_of(tenant, it)),
            Request::ListLabels(_) => answer(self.list_labels(tenant)),
            Request::PublishEstimate(it) => answer(self.publish_estimate(tenant, it)),
            Request::ListEstimates(it) => answer(self.list_estimates(tenant, it)),
        }
    }

    fn claimable<'a>(&'a self, tenant: TenantId, run: RunId) -> BoxFuture<'a, ()> {
        Box::pin(self.wait_until_claimable(tenant, run))
    }
}

/// Boxes a typed call, so that the future of each operation has its own size.
fn answer<'a, T: Into<Reply>, E: Into<CoordError>>(
    call: impl Future<Output = Result<T, E>> + Send + 'a,
) -> BoxFuture<'a, Answer> {
    Box::pin(async move { widen(call.await) })
}
