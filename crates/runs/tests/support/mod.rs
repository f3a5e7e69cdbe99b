//! Coordinators with a clock that the test moves.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that panics is a test that fails, and each uses what it needs"
)]

pub(crate) mod audit;
#[path = "../../../engine/tests/support/mod.rs"]
mod base;

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

pub(crate) use base::{ManualClock, TestEnv, block_on, world};
use shardwright_contracts::{
    CursorUpdate, InitialShardInput, LogicalTime, ShardId, ShardSpecRef, TenantId,
};
use shardwright_coordination::StateTransitionEvent;
use shardwright_coordination::conformance::{COOLDOWN_MS, Harness};
use shardwright_engine::keyspace::Keyspace;
use shardwright_runs::keys::RunKeys;
use shardwright_runs::{Delivery, EngineConfig, EventStream, LeaseBinding, StoredCoordinator};
use shardwright_store::Store;
use shardwright_store::memory::MemoryStore;

/// Without allowances, so that timing is exact.
pub(crate) fn exact() -> EngineConfig {
    EngineConfig {
        skew_allowance_ms: 0,
        clock_mark_interval_ms: 0,
        sessions: LeaseBinding::Session { ttl: Duration::from_secs(3_600) },
        ..EngineConfig::default()
    }
}

pub(crate) type InMemory = StoredCoordinator;

pub(crate) async fn in_memory(clock: &ManualClock, config: EngineConfig) -> InMemory {
    over(MemoryStore::new(Arc::new(clock.clone())), clock, config).await
}

/// A coordinator over a store, with a clock that the test moves.
pub(crate) async fn over(
    store: impl Store,
    clock: &ManualClock,
    config: EngineConfig,
) -> StoredCoordinator {
    let env = TestEnv { clock: clock.clone() };
    StoredCoordinator::open(store, env, keyspace(), config).await.unwrap()
}

fn keyspace() -> Keyspace {
    Keyspace::new("test/").unwrap()
}

/// Harness of the conformance suite over a store. Also owns the store's resources.
pub(crate) struct Over<K> {
    backend: StoredCoordinator,
    events: EventLog,
    clock: ManualClock,
    tenants: Tenants,
    _kept: K,
}

impl<K> Over<K> {
    pub(crate) async fn new(store: impl Store, kept: K) -> Self {
        // Not at zero, which is the initial time.
        let clock = ManualClock::default();
        clock.advance(1_000);
        let backend = over(store, &clock, for_suite()).await;
        let events = EventLog::of(&backend);
        Self { backend, events, clock, tenants: Tenants::default(), _kept: kept }
    }
}

impl<K> Drop for Over<K> {
    /// Audits the store after each test.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            block_on(audit::audit(self.backend.store(), &RunKeys::new(keyspace())));
        }
    }
}

impl<K: Sync> Harness for Over<K> {
    type Backend = StoredCoordinator;

    fn backend(&self) -> &Self::Backend {
        &self.backend
    }

    fn fresh_tenant(&self) -> TenantId {
        self.tenants.fresh()
    }

    async fn advance(&self, millis: u64) {
        self.clock.advance(millis);
    }

    async fn take_events(&self, tenant: TenantId) -> Vec<StateTransitionEvent> {
        self.events.take(tenant)
    }
}

/// Like [`exact`], with the claim cooldown that the suite expects.
pub(crate) fn for_suite() -> EngineConfig {
    EngineConfig { claim_cooldown_interval_ms: COOLDOWN_MS, ..exact() }
}

/// Events of a coordinator.
pub(crate) struct EventLog(Mutex<(EventStream, Vec<StateTransitionEvent>)>);

impl EventLog {
    pub(crate) fn of(coordinator: &StoredCoordinator) -> Self {
        Self(Mutex::new((coordinator.subscribe(), Vec::new())))
    }

    /// Takes the events of a tenant that are available now.
    pub(crate) fn take(&self, tenant: TenantId) -> Vec<StateTransitionEvent> {
        let mut events = self.0.lock().unwrap();
        let (stream, pending) = &mut *events;
        let mut context = Context::from_waker(Waker::noop());
        while let Poll::Ready(next) = pin!(stream.next()).poll(&mut context) {
            match next {
                Some(Delivery::Event(event)) => pending.push((*event).clone()),
                other => panic!("{other:?}"),
            }
        }
        pending.extract_if(.., |event| event.tenant == tenant).collect()
    }
}

/// A manifest of equal shards.
pub(crate) struct Manifest(Vec<[String; 2]>);

impl Manifest {
    pub(crate) fn of(shards: usize) -> Self {
        let bound = |index: usize| format!("{index:06}");
        Self((0..shards).map(|index| [bound(index), bound(index + 1)]).collect())
    }

    pub(crate) fn inputs(&self) -> Vec<InitialShardInput<'_>> {
        self.0
            .iter()
            .zip(0..)
            .map(|([start, end], id)| InitialShardInput {
                shard: ShardId::from_raw(id),
                spec: ShardSpecRef::new(start.as_bytes(), end.as_bytes(), b"meta"),
                cursor: CursorUpdate::initial(),
            })
            .collect()
    }
}

/// Tenants that no test has used.
#[derive(Default)]
pub(crate) struct Tenants(AtomicU64);

impl Tenants {
    pub(crate) fn fresh(&self) -> TenantId {
        let mut bytes = [0; TenantId::SIZE];
        bytes[..8].copy_from_slice(&self.0.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        TenantId::from_bytes(bytes)
    }
}

impl shardwright_coordination::Clock for world::World {
    fn now(&self) -> LogicalTime {
        Self::now(self)
    }
}
