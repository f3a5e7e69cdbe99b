//! Coordinators in a world whose clock the test moves.
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
use shardwright_contracts::{LogicalTime, TenantId};
use shardwright_coordination::StateTransitionEvent;
use shardwright_coordination::conformance::{COOLDOWN_MS, Harness};
use shardwright_engine::keyspace::Keyspace;
use shardwright_runs::{Delivery, EngineConfig, EventStream, LeaseBinding, StoredCoordinator};
use shardwright_store::Store;
use shardwright_store::memory::MemoryStore;

/// Without allowances, so that what happens when is exact.
pub(crate) fn exact() -> EngineConfig {
    EngineConfig {
        skew_allowance_ms: 0,
        quota_block: 1,
        sessions: LeaseBinding::Session { ttl: Duration::from_secs(3_600) },
        ..EngineConfig::default()
    }
}

pub(crate) type InMemory = StoredCoordinator;

pub(crate) async fn in_memory(clock: &ManualClock, config: EngineConfig) -> InMemory {
    over(MemoryStore::new(Arc::new(clock.clone())), clock, config).await
}

/// The coordinator over some store, in a world whose clock the test moves.
pub(crate) async fn over(
    store: impl Store,
    clock: &ManualClock,
    config: EngineConfig,
) -> StoredCoordinator {
    let env = TestEnv { clock: clock.clone() };
    StoredCoordinator::open(store, env, Keyspace::new("test/").unwrap(), config).await.unwrap()
}

/// What the suite for coordination backends needs, over some store. What the store itself needs
/// to live is kept beside it.
pub(crate) struct Over<K> {
    backend: StoredCoordinator,
    told: Told,
    clock: ManualClock,
    tenants: Tenants,
    _kept: K,
}

impl<K> Over<K> {
    pub(crate) async fn new(store: impl Store, kept: K) -> Self {
        // Not at zero, which is when nothing has happened yet.
        let clock = ManualClock::default();
        clock.advance(1_000);
        let backend = over(store, &clock, for_suite()).await;
        let told = Told::by(&backend);
        Self { backend, told, clock, tenants: Tenants::default(), _kept: kept }
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
        self.told.take(tenant)
    }
}

/// As exact, and with the pause between claims that the suite expects.
pub(crate) fn for_suite() -> EngineConfig {
    EngineConfig { claim_cooldown_interval_ms: COOLDOWN_MS, ..exact() }
}

/// What a coordinator has told.
pub(crate) struct Told(Mutex<(EventStream, Vec<StateTransitionEvent>)>);

impl Told {
    pub(crate) fn by(coordinator: &StoredCoordinator) -> Self {
        Self(Mutex::new((coordinator.subscribe(), Vec::new())))
    }

    /// What was told of a tenant, as far as it can be heard now.
    pub(crate) fn take(&self, tenant: TenantId) -> Vec<StateTransitionEvent> {
        let mut told = self.0.lock().unwrap();
        let (listener, untold) = &mut *told;
        let mut context = Context::from_waker(Waker::noop());
        while let Poll::Ready(heard) = pin!(listener.next()).poll(&mut context) {
            match heard {
                Some(Delivery::Event(event)) => untold.push((*event).clone()),
                other => panic!("{other:?}"),
            }
        }
        untold.extract_if(.., |event| event.tenant == tenant).collect()
    }
}

/// Tenants that nobody has used.
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
