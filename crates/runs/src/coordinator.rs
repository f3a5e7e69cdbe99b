use std::sync::{Arc, Mutex};

use shardwright_contracts::{Env, FenceEpoch, LogicalTime};
use shardwright_coordination::{ClaimCooldowns, InfraError, TakeoverTerms};
use shardwright_engine::clock::EngineClock;
use shardwright_engine::codec::ClockMarkRecord;
use shardwright_engine::keyspace::Keyspace;
use shardwright_engine::setup::{self, StoreOpenError};
use shardwright_engine::transact::Driver;
use shardwright_store::{AnyStore, Store};

use crate::collection;
use crate::config::{CoordinatorOpenError, EngineConfig};
use crate::keys::RunKeys;
use crate::ownership::OwnerSession;
use crate::publish::{EventStream, Publisher};
use crate::shard::ShardCache;
use crate::view::Views;

/// The run protocol over a store.
///
/// A coordinator has no state of its own. Any number of coordinators, in any number of processes,
/// may work on one store. Clones share one coordinator.
#[derive(Clone)]
pub struct StoredCoordinator {
    pub(crate) core: Arc<Core>,
}

/// State that all clones of a coordinator share.
pub(crate) struct Core {
    pub(crate) store: AnyStore,
    pub(crate) env: Arc<dyn Env>,
    pub(crate) driver: Driver,
    pub(crate) keys: RunKeys,
    pub(crate) config: EngineConfig,
    pub(crate) clock: EngineClock,
    pub(crate) sessions: OwnerSession,
    pub(crate) cache: ShardCache,
    pub(crate) views: Views,
    pub(crate) cooldowns: Mutex<ClaimCooldowns>,
    pub(crate) publisher: Publisher,
}

impl StoredCoordinator {
    /// Opens a store, and sets it up if it is empty.
    pub async fn open(
        store: impl Store,
        env: impl Env,
        keys: Keyspace,
        config: EngineConfig,
    ) -> Result<Self, CoordinatorOpenError> {
        Self::open_erased(AnyStore::new(store), Arc::new(env), keys, config).await
    }

    async fn open_erased(
        store: AnyStore,
        env: Arc<dyn Env>,
        keys: Keyspace,
        config: EngineConfig,
    ) -> Result<Self, CoordinatorOpenError> {
        config.check()?;
        let floor = setup::set_up(&store, &keys).await?;
        let mark = setup::load::<ClockMarkRecord>(&store, &keys.clock()).await;
        let mark = mark.map_err(StoreOpenError::from)?;
        let interval_ms = config.clock_mark_interval_ms;
        let clock = EngineClock::new(&*env, keys.clock(), interval_ms, mark, floor);
        let retries = config.conflict_retries;
        let driver = Driver::new(store.clone(), Some(Arc::clone(&env)), retries);
        let core = Core {
            store,
            env,
            driver,
            keys: RunKeys::new(keys),
            config,
            clock,
            sessions: OwnerSession::default(),
            cache: ShardCache::default(),
            views: Views::default(),
            cooldowns: Mutex::default(),
            publisher: Publisher::new(config.event_capacity),
        };
        let core = Arc::new(core);
        let every = config.collection_interval;
        let collecting =
            collection::collect_periodically(Arc::downgrade(&core), Arc::clone(&core.env), every);
        core.env.spawn(Box::pin(collecting));
        Ok(Self { core })
    }

    /// Ends all leases of this coordinator at once.
    pub async fn close(&self) -> Result<(), InfraError> {
        self.core.sessions.close(&self.core.store).await
    }

    /// Subscribes to the events of this coordinator.
    #[must_use]
    pub fn subscribe(&self) -> EventStream {
        self.core.publisher.subscribe()
    }

    /// Whether a store was set up under these keys, in a format that this version supports.
    pub async fn is_set_up(store: impl Store, keys: &Keyspace) -> Result<bool, StoreOpenError> {
        setup::is_set_up(&AnyStore::new(store), keys).await
    }

    /// Invalidates every fence granted so far. Run it once on a store that was restored from a
    /// backup, before any process uses it: leases granted after the backup must not be granted
    /// again.
    pub async fn raise_generation(
        store: impl Store,
        keys: &Keyspace,
    ) -> Result<u32, StoreOpenError> {
        setup::raise_generation(&AnyStore::new(store), keys).await
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &AnyStore {
        &self.core.store
    }
}

impl Core {
    pub(crate) async fn now(&self) -> Result<LogicalTime, InfraError> {
        self.clock.now(&self.store, &*self.env).await
    }

    /// The time for operations that change nothing. It also works on a store that rejects writes.
    pub(crate) async fn now_at_most(&self) -> LogicalTime {
        self.clock.now_at_most(&self.store, &*self.env).await
    }

    /// What decides at `now` whether a lease can be taken over.
    pub(crate) fn takeover_terms(&self, now: LogicalTime) -> TakeoverTerms {
        let skew_ms = self.config.skew_allowance_ms;
        TakeoverTerms { now, fence_floor: self.fence_floor(), skew_ms }
    }

    /// The lowest valid fence. Operations that change something read the clock first.
    pub(crate) fn fence_floor(&self) -> FenceEpoch {
        self.clock.fence_floor()
    }
}
