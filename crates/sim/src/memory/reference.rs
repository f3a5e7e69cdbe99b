//! The in-memory reference, called through one of its interfaces.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use shardwright_contracts::{
    Cursor, CursorSemantics, FenceEpoch, LogicalTime, ShardSpec, ShardSpecRef, SplitReplacePlan,
    SplitResidualPlan, TenantId,
};
use shardwright_coordination::operation::{
    Acquire, Checkpoint, Claim, CollectClaimCandidates, Complete, DeclineSplit, ListShards,
    ParkShard, Release, Renew, RequestSplit, SplitReplace, SplitResidual, widen,
};
use shardwright_coordination::{
    AcquireResultView, AcquireScratch, Answer, Backend, CapacityHint, Clock, CoordError,
    CoordinationBackend, IdempotentOutcome, InMemoryCoordinator, Lease, Reply, RestoredShardState,
    RunManagement, SessionEnd, SessionNotEnded, ShardClaiming, ShardStatus, StateTransitionEvent,
    Synchronized, WorkerSession, operation,
};

use super::settings::Interface;

type Request<'a> = operation::Request<&'a [u8]>;

/// A clock that returns the caller's time.
#[derive(Clone, Debug, Default)]
struct CallersClock(Arc<AtomicU64>);

impl Clock for CallersClock {
    fn now(&self) -> LogicalTime {
        LogicalTime::from_millis(self.0.load(Ordering::Relaxed))
    }
}

/// The reference and the interface through which it is called.
pub(crate) struct Reference {
    backend: Synchronized<InMemoryCoordinator, CallersClock>,
    clock: CallersClock,
    interface: Interface,
    scratch: AcquireScratch,
}

impl Reference {
    pub(crate) fn new(mut coordinator: InMemoryCoordinator, interface: Interface) -> Self {
        coordinator.collect_events();
        let clock = CallersClock::default();
        let backend = Synchronized::new(coordinator, clock.clone());
        Self { backend, clock, interface, scratch: AcquireScratch::new() }
    }

    pub(crate) fn take_events(&self) -> Vec<StateTransitionEvent> {
        self.backend.lock().map_or_else(|_| Vec::new(), |mut backend| backend.take_events())
    }

    pub(crate) fn raise_fence_floor(&self, floor: FenceEpoch) {
        if let Ok(mut backend) = self.backend.lock() {
            backend.raise_fence_floor(floor);
        }
    }
}

impl CoordinationBackend for Reference {
    fn call(&mut self, now: LogicalTime, tenant: TenantId, request: Request<'_>) -> Answer {
        if self.interface == Interface::Async {
            self.clock.0.store(now.as_millis(), Ordering::Relaxed);
            return ready(self.backend.call(tenant, request));
        }
        let mut backend = self.backend.lock()?;
        match self.interface {
            Interface::Session => in_session(&mut backend, now, tenant, request),
            _ => typed(&mut backend, now, tenant, request, &mut self.scratch),
        }
    }
}

#[expect(clippy::panic, reason = "only a bug in the adapter under test can get here")]
fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("an in-memory operation did not complete at once"),
    }
}

/// Calls the typed method of a request, if the reference has one.
fn typed(
    backend: &mut InMemoryCoordinator,
    now: LogicalTime,
    tenant: TenantId,
    request: Request<'_>,
    scratch: &mut AcquireScratch,
) -> Answer {
    match request {
        Request::Acquire(Acquire { key, worker }) => {
            let view = backend.acquire_and_restore_into(now, tenant, key, worker, scratch);
            widen(view.map(|view| RestoredShardState::from_view(&view)))
        }
        Request::Claim(Claim { run, worker }) => {
            let view = backend.claim_next_available(now, tenant, run, worker, scratch);
            widen(view.map(|view| RestoredShardState::from_view(&view)))
        }
        Request::Renew(Renew { lease }) => widen(backend.renew(now, tenant, &lease)),
        Request::Checkpoint(Checkpoint { lease, cursor, op }) => {
            widen(backend.checkpoint(now, tenant, &lease, cursor, op))
        }
        Request::RequestSplit(RequestSplit { key, requester, patience_ms }) => {
            let expires_at = now.saturating_add(patience_ms);
            widen(backend.request_split(now, tenant, key, requester, expires_at))
        }
        Request::DeclineSplit(DeclineSplit { lease, pause_ms }) => {
            let not_before = now.saturating_add(pause_ms);
            widen(backend.decline_split(now, tenant, &lease, not_before))
        }
        Request::ListShards(ListShards { run, filter }) => {
            let mut shards = Vec::new();
            let listed = backend.list_shards_into(now, tenant, run, filter, &mut shards);
            widen(listed.map(|()| shards))
        }
        Request::CollectClaimCandidates(CollectClaimCandidates { run, worker, limit }) => {
            let mut shards = Vec::new();
            let outlook =
                backend.collect_claim_candidates_into(now, tenant, run, worker, limit, &mut shards);
            widen(outlook.map(|outlook| (shards, outlook)))
        }
        request => backend.call(now, tenant, request),
    }
}

/// Calls through a worker's session, if a session can make the request.
fn in_session(
    backend: &mut InMemoryCoordinator,
    now: LogicalTime,
    tenant: TenantId,
    request: Request<'_>,
) -> Answer {
    if let Request::Acquire(Acquire { key, worker }) = request {
        let session = WorkerSession::new(backend, now, tenant, key, worker)?;
        let (lease, capacity) = (*session.lease(), session.capacity());
        let snapshot = session.initial_snapshot();
        let view = AcquireResultView { lease, snapshot, capacity };
        return Ok(RestoredShardState::from_view(&view).into());
    }
    // A session acts only under its own lease.
    let lease = request.lease().copied().filter(|lease| lease.tenant() == tenant);
    let Some((lease, state)) = lease.and_then(|lease| Some((lease, holding(&lease)?))) else {
        return backend.call(now, tenant, request);
    };
    let mut session = WorkerSession::from_acquire_result(backend, state);
    match request {
        Request::Renew(_) => widen(session.renew(now)),
        Request::DeclineSplit(DeclineSplit { pause_ms, .. }) => {
            widen(session.decline_split(now, now.saturating_add(pause_ms)))
        }
        Request::Checkpoint(Checkpoint { cursor, op, .. }) => {
            widen(session.checkpoint(now, cursor, op))
        }
        Request::SplitResidual(SplitResidual { narrowed, residual, op, .. }) => {
            let plan = SplitResidualPlan::from_parts(narrowed, residual);
            widen(session.split_residual(now, &plan, op))
        }
        Request::Complete(Complete { cursor, op, .. }) => {
            ended(&lease, session.complete(now, cursor, op))
        }
        Request::ParkShard(ParkShard { reason, detail, op, .. }) => {
            ended(&lease, session.park(now, reason, detail, op))
        }
        Request::Release(Release { op, .. }) => ended(&lease, session.release(now, op)),
        Request::SplitReplace(SplitReplace { parts, op, .. }) => {
            match SplitReplacePlan::from_parts(&parts) {
                Ok(plan) => ended(&lease, session.split_replace(now, &plan, op)),
                Err(_) => backend.call(now, tenant, SplitReplace { lease, parts, op }.into()),
            }
        }
        request => backend.call(now, tenant, request),
    }
}

/// The answer of an operation that ends the session. A failed one returns the session unchanged.
fn ended<T, E: Into<CoordError>>(
    lease: &Lease,
    outcome: SessionEnd<'_, InMemoryCoordinator, T, E>,
) -> Answer
where
    IdempotentOutcome<T>: Into<Reply>,
{
    match outcome {
        Ok(outcome) => Ok(outcome.into()),
        Err(SessionNotEnded { session, error }) => {
            assert_eq!(session.lease(), lease, "a session was returned with another lease");
            Err(error.into())
        }
    }
}

/// The state of a shard that a worker needs to continue under a lease.
fn holding(lease: &Lease) -> Option<RestoredShardState> {
    Some(RestoredShardState {
        lease: *lease,
        status: ShardStatus::Active,
        spec: ShardSpec::try_from_ref(ShardSpecRef::new(b"a", b"b", b"")).ok()?,
        cursor: Cursor::initial(),
        cursor_semantics: CursorSemantics::default(),
        parent: None,
        spawned: Vec::new(),
        acquires: 1,
        acquires_without_progress: 1,
        capacity: CapacityHint::default(),
    })
}
