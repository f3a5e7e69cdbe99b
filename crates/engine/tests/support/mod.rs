//! A world whose clock the test moves.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that panics is a test that fails, and each uses what it needs"
)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use shardwright_contracts::{Env, LogicalTime, TenantId};
use shardwright_coordination::conformance::Harness;
use shardwright_engine::keyspace::Keyspace;
use shardwright_engine::{EngineConfig, Sessions, StoredCoordinator};
use shardwright_store::memory::MemoryStore;
use shardwright_store::{SessionClock, Store};

/// Milliseconds that only the test counts.
#[derive(Clone, Default)]
pub(crate) struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    pub(crate) fn advance(&self, millis: u64) {
        self.0.fetch_add(millis, Ordering::Relaxed);
    }

    pub(crate) fn millis(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl SessionClock for ManualClock {
    fn now(&self) -> Duration {
        Duration::from_millis(self.millis())
    }
}

/// Tasks and pauses are tokio's, time is the test's.
#[derive(Clone)]
pub(crate) struct TestEnv {
    pub(crate) clock: ManualClock,
}

impl Env for TestEnv {
    fn wall_clock(&self) -> LogicalTime {
        LogicalTime::from_millis(self.clock.millis())
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.clock.millis())
    }

    async fn sleep(&self, duration: Duration) {
        // Back-offs are short and real; what waits for the clock waits until the test ends.
        tokio::time::sleep(duration).await;
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(tokio::spawn(task));
    }

    fn random(&self) -> u64 {
        fastrand::u64(..)
    }
}

/// Without allowances, so that what happens when is exact.
pub(crate) fn exact() -> EngineConfig {
    EngineConfig {
        skew_allowance_ms: 0,
        quota_block: 1,
        sessions: Sessions::Bound { ttl: Duration::from_secs(3_600) },
        ..EngineConfig::default()
    }
}

pub(crate) type InMemory = StoredCoordinator<MemoryStore, TestEnv>;

pub(crate) async fn in_memory(clock: &ManualClock, config: EngineConfig) -> InMemory {
    over(MemoryStore::new(Arc::new(clock.clone())), clock, config).await
}

/// The coordinator over some store, in a world whose clock the test moves.
pub(crate) async fn over<S: Store>(
    store: S,
    clock: &ManualClock,
    config: EngineConfig,
) -> StoredCoordinator<S, TestEnv> {
    let env = TestEnv { clock: clock.clone() };
    StoredCoordinator::open(store, env, Keyspace::new("test/").unwrap(), config).await.unwrap()
}

/// What the suite for coordination backends needs, over some store. What the store itself needs
/// to live is kept beside it.
pub(crate) struct Over<S, K> {
    backend: StoredCoordinator<S, TestEnv>,
    clock: ManualClock,
    tenants: Tenants,
    _kept: K,
}

impl<S: Store, K> Over<S, K> {
    pub(crate) async fn new(store: S, kept: K) -> Self {
        // Not at zero, which is when nothing has happened yet.
        let clock = ManualClock::default();
        clock.advance(1_000);
        let backend = over(store, &clock, exact()).await;
        Self { backend, clock, tenants: Tenants::default(), _kept: kept }
    }
}

impl<S: Store, K: Sync> Harness for Over<S, K> {
    type Backend = StoredCoordinator<S, TestEnv>;

    fn backend(&self) -> &Self::Backend {
        &self.backend
    }

    fn fresh_tenant(&self) -> TenantId {
        self.tenants.fresh()
    }

    async fn advance(&self, millis: u64) {
        self.clock.advance(millis);
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

static RUNTIME: LazyLock<tokio::runtime::Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
});

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    RUNTIME.block_on(future)
}
