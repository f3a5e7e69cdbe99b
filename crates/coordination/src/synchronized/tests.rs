use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use shardwright_contracts::{
    CursorSemantics, CursorUpdate, InitialShardInput, LogicalTime, OpId, RunId, ShardId, ShardKey,
    ShardSpecRef, WorkerId,
};

use super::*;
use crate::async_traits::{AsyncCoordinationBackend, AsyncRunManagement, AsyncShardClaiming};
use crate::error::{RenewError, RunQueryError};
use crate::in_memory::{CoordinatorRuntimeConfig, InMemoryCoordinator};
use crate::record::RunConfig;
use crate::status::ParkReason;
use crate::summary::ShardFilter;

const TENANT: TenantId = TenantId::from_bytes([1; 32]);
const RUN: RunId = RunId::from_raw(7);

#[derive(Default)]
struct ManualClock(AtomicU64);

impl Clock for ManualClock {
    fn now(&self) -> LogicalTime {
        LogicalTime::from_millis(self.0.load(Ordering::Relaxed))
    }
}

/// These futures never wait, so one poll is enough.
fn ready<T>(future: impl Future<Output = T> + Send) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a future of a synchronized backend waited"),
    }
}

fn shared() -> Synchronized<InMemoryCoordinator, ManualClock> {
    let config = CoordinatorRuntimeConfig {
        slab_capacity: 4_096,
        max_total_shards: 64,
        ..CoordinatorRuntimeConfig::default()
    };
    let backend = InMemoryCoordinator::try_new(config).unwrap();
    let shared = Synchronized::new(backend, ManualClock::default());
    let run_config = RunConfig::try_new(CursorSemantics::Completed, 100, None).unwrap();
    let shards =
        [(0, &b"a"[..], &b"m"[..]), (1, b"m", b"z")].map(|(id, start, end)| InitialShardInput {
            shard: ShardId::from_raw(id),
            spec: ShardSpecRef::new(start, end, b""),
            cursor: CursorUpdate::initial(),
        });
    let op = OpId::from_raw(1);
    ready(shared.create_run_with_shards(TENANT, RUN, run_config, &shards, op)).unwrap();
    shared
}

#[test]
fn operations_use_the_clock() {
    let shared = shared();
    let worker = WorkerId::from_raw(1);
    let first = ready(shared.claim_next_available(TENANT, RUN, worker)).unwrap();
    assert_eq!(first.lease.deadline(), LogicalTime::from_millis(100));
    shared.clock.0.store(100, Ordering::Relaxed);
    let expired = ready(shared.renew(TENANT, &first.lease));
    assert!(matches!(expired, Err(RenewError::LeaseExpired(_))));
    let key = first.lease.key();
    let again = ready(shared.acquire_and_restore(TENANT, key, worker)).unwrap();
    assert_eq!(again.lease.deadline(), LogicalTime::from_millis(200));
    let renewed = ready(shared.renew(TENANT, &again.lease)).unwrap();
    assert_eq!(renewed.new_deadline, LogicalTime::from_millis(200));
}

#[test]
fn every_operation_reaches_the_backend() {
    let shared = shared();
    let (worker, op) = (WorkerId::from_raw(1), OpId::from_raw);
    let key = ShardKey::new(RUN, ShardId::from_raw(0));
    let lease = ready(shared.acquire_and_restore(TENANT, key, worker)).unwrap().lease;
    ready(shared.request_split(TENANT, key, WorkerId::from_raw(2), 50)).unwrap();
    let at = CursorUpdate::at(b"c");
    let noticed = ready(shared.checkpoint(TENANT, &lease, at, op(2))).unwrap().into_inner();
    assert!(noticed.unwrap().split_request.is_some());
    ready(shared.decline_split(TENANT, &lease, 50)).unwrap();
    let spec = ShardSpecRef::new(b"a", b"m", b"");
    let residual = shardwright_contracts::plan_split_residual(spec, at, b"g").unwrap();
    ready(shared.split_residual(TENANT, &lease, &residual, op(3))).unwrap();
    let narrowed = ShardSpecRef::new(b"a", b"g", b"");
    let replace = shardwright_contracts::plan_split_replace(narrowed, at, &[b"e"]).unwrap();
    let split = ready(shared.split_replace(TENANT, &lease, &replace, op(4))).unwrap().into_inner();
    for (child, id) in split.children.iter().zip(10..) {
        let key = ShardKey::new(RUN, *child);
        let lease = ready(shared.acquire_and_restore(TENANT, key, worker)).unwrap().lease;
        let detail = b"why";
        let reason = ParkReason::Other;
        ready(shared.park_shard(TENANT, &lease, reason, detail, op(id))).unwrap();
        ready(shared.unpark_shard(TENANT, key, op(id + 10))).unwrap();
        let lease = ready(shared.acquire_and_restore(TENANT, key, worker)).unwrap().lease;
        ready(shared.release(TENANT, &lease, op(id + 20))).unwrap();
    }
    while let Ok(claimed) = ready(shared.claim_next_available(TENANT, RUN, worker)) {
        let (lease, cursor) = (claimed.lease, claimed.cursor.as_update());
        let done = op(100 + lease.key().shard.as_raw() % 1_000);
        ready(shared.complete(TENANT, &lease, cursor, done)).unwrap();
    }
    ready(shared.pause_run(TENANT, RUN, op(50))).unwrap();
    assert!(ready(shared.get_run(TENANT, RUN)).unwrap().paused);
    ready(shared.resume_run(TENANT, RUN, op(51))).unwrap();
    assert_eq!(ready(shared.get_run_progress(TENANT, RUN)).unwrap().done, 4);
    let done = ShardFilter { status: Some(crate::ShardStatus::Done), ..ShardFilter::all() };
    assert_eq!(ready(shared.list_shards(TENANT, RUN, done)).unwrap().len(), 4);
    ready(shared.complete_run(TENANT, RUN, op(52))).unwrap();
    assert!(ready(shared.fail_run(TENANT, RUN, op(53))).is_err());
    assert!(ready(shared.cancel_run(TENANT, RUN, op(54))).is_err());
}

#[test]
fn poisoned_backend_is_refused() {
    let shared = shared();
    std::thread::scope(|scope| {
        let broken = scope.spawn(|| {
            let _guard = shared.backend.lock().unwrap();
            panic!("an invariant is violated");
        });
        assert!(broken.join().is_err());
    });
    let refused = ready(shared.get_run(TENANT, RUN)).unwrap_err();
    let RunQueryError::BackendError(error) = refused else { panic!("{refused}") };
    assert!(!error.is_retryable());
}
