//! A store in memory with a simulated environment, and shorthand for tests.

use std::cell::Cell;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use shardwright_contracts::{CursorSemantics, OpId, RunId, ShardId, ShardKey, TenantId, WorkerId};
use shardwright_coordination::{
    AsyncCoordinationBackend, AsyncRunManagement, Lease, RunConfig, ShardFilter, ShardSummary,
};
use shardwright_engine::keyspace::Keyspace;
use shardwright_runs::keys::RunKeys;
use shardwright_runs::{EngineConfig, LeaseBinding, StoredCoordinator};
use shardwright_store::Store;
use shardwright_store::memory::MemoryStore;

use crate::flaky::FlakyStore;
pub(crate) use crate::support::Manifest;
use crate::support::audit;
use crate::support::world::{self, World};

pub(crate) const LEASE_MS: u64 = 10_000;
pub(crate) const TENANT: TenantId = TenantId::from_bytes([7; TenantId::SIZE]);
pub(crate) const RUN: RunId = RunId::from_raw(1);
/// Default TTL of a coordinator's session, which outlives every lease.
pub(crate) const SESSION: Duration = Duration::from_secs(3_600);

pub(crate) type Engine = StoredCoordinator;

/// A store and its simulated environment.
pub(crate) struct Site {
    pub(crate) world: World,
    pub(crate) store: MemoryStore,
    pub(crate) keys: RunKeys,
    is_damaged: Cell<bool>,
}

/// Audits the store after each test, unless the test has damaged it.
impl Drop for Site {
    fn drop(&mut self) {
        if !self.is_damaged.get() && !std::thread::panicking() {
            self.audit();
        }
    }
}

impl Site {
    pub(crate) fn new() -> Self {
        let world = World::new(0);
        world.advance(1_000_000);
        let store = MemoryStore::new(Arc::new(world.clock().clone()));
        let keys = RunKeys::new(Keyspace::new("site/").unwrap());
        Self { world, store, keys, is_damaged: Cell::new(false) }
    }

    /// Notes that the test writes records that the coordinator would not.
    pub(crate) fn note_damaged(&self) {
        self.is_damaged.set(true);
    }

    pub(crate) fn config() -> EngineConfig {
        EngineConfig {
            skew_allowance_ms: 0,
            clock_mark_interval_ms: 0,
            sessions: LeaseBinding::Session { ttl: SESSION },
            ..EngineConfig::default()
        }
    }

    /// A coordinator without faults.
    pub(crate) fn engine(&self) -> Engine {
        self.engine_over(self.store.clone(), Self::config())
    }

    /// A coordinator over a store with scripted faults.
    pub(crate) fn flaky_engine(&self) -> (Engine, FlakyStore<MemoryStore>) {
        let store = FlakyStore::new(self.store.clone());
        (self.engine_over(store.clone(), Self::config()), store)
    }

    pub(crate) fn engine_over<S: Store>(&self, store: S, config: EngineConfig) -> Engine {
        let keys = self.keys.keyspace().clone();
        let opened = StoredCoordinator::open(store, self.world.clone(), keys, config);
        self.run(opened).unwrap()
    }

    pub(crate) fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.world.block_on(future)
    }

    /// Fails if the stored records are inconsistent.
    pub(crate) fn audit(&self) {
        self.run(audit::audit(&self.store, &self.keys));
    }

    pub(crate) fn key_names(&self) -> Vec<String> {
        self.run(audit::key_names(&self.store, &self.keys)).into_iter().collect()
    }

    /// Polls two futures to completion, in an order that the seed decides.
    pub(crate) fn race<A, B>(
        &self,
        seed: u64,
        one: impl Future<Output = A>,
        other: impl Future<Output = B>,
    ) -> (A, B) {
        self.run(world::race(seed, one, other))
    }
}

pub(crate) fn op(raw: u64) -> OpId {
    OpId::from_raw(raw)
}

pub(crate) fn worker(raw: u64) -> WorkerId {
    WorkerId::from_raw(raw)
}

pub(crate) fn shard(raw: u64) -> ShardKey {
    ShardKey::new(RUN, ShardId::from_raw(raw))
}

pub(crate) fn run_config() -> RunConfig {
    RunConfig::try_new(CursorSemantics::Completed, LEASE_MS, None).unwrap()
}

/// Starts the run with some shards.
pub(crate) async fn start(engine: &Engine, shards: usize) {
    start_run(engine, RUN, shards).await;
}

pub(crate) async fn start_run(engine: &Engine, run: RunId, shards: usize) {
    let manifest = Manifest::of(shards);
    let (inputs, op) = (manifest.inputs(), op(1_000_000));
    let started = engine.create_run_with_shards(TENANT, run, run_config(), &inputs, op).await;
    started.unwrap();
}

pub(crate) async fn acquire(engine: &Engine, id: u64, by: u64) -> Lease {
    engine.acquire_and_restore(TENANT, shard(id), worker(by)).await.unwrap().lease
}

pub(crate) async fn list(engine: &Engine) -> Vec<ShardSummary> {
    engine.list_shards(TENANT, RUN, ShardFilter::all()).await.unwrap()
}
