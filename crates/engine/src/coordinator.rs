use std::sync::{Arc, Mutex};

use shardwright_contracts::{Env, FenceEpoch, LogicalTime};
use shardwright_coordination::{ClaimCooldowns, InfraError};
use shardwright_store::{AnyStore, Commit, Expect, Key, Revision, Store, Versioned};

use crate::clock::EngineClock;
use crate::codec::{ClockMark, Format, Incarnation, Record};
use crate::collection;
use crate::config::EngineConfig;
use crate::fault;
use crate::floor::FenceFloor;
use crate::keyspace::Keyspace;
use crate::ownership::OwnerSession;
use crate::publish::{Listener, Publisher};
use crate::shard::Served;
use crate::transact::{Decided, Decision, Driver, Read, Transaction};
use crate::view::Views;

/// The layout of the store that this code reads and writes.
const FORMAT: u32 = 1;
const OPERATION: &str = "coordinator.open";

/// The run protocol over a store.
///
/// A coordinator keeps nothing that is not in the store; any number of them, in any number of
/// processes, may work on one store. Clones are the same coordinator.
#[derive(Clone)]
pub struct StoredCoordinator {
    pub(crate) core: Arc<Core>,
}

/// What all clones of a coordinator share.
pub(crate) struct Core {
    pub(crate) store: AnyStore,
    pub(crate) env: Arc<dyn Env>,
    pub(crate) driver: Driver,
    pub(crate) keys: Keyspace,
    pub(crate) config: EngineConfig,
    pub(crate) clock: EngineClock,
    pub(crate) sessions: OwnerSession,
    pub(crate) served: Served,
    pub(crate) views: Views,
    pub(crate) cooldowns: Mutex<ClaimCooldowns>,
    pub(crate) publisher: Publisher,
}

/// Why a store cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// It was written by a later version.
    #[error("the store has format {found}, and this version knows formats up to {known}")]
    NewerFormat {
        /// The store's.
        found: u32,
        /// Ours.
        known: u32,
    },
    /// It failed.
    #[error(transparent)]
    Store(#[from] InfraError),
}

impl StoredCoordinator {
    /// Opens a store, and sets it up if it is empty.
    pub async fn open(
        store: impl Store,
        env: impl Env,
        keys: Keyspace,
        config: EngineConfig,
    ) -> Result<Self, OpenError> {
        Self::open_erased(AnyStore::new(store), Arc::new(env), keys, config).await
    }

    async fn open_erased(
        store: AnyStore,
        env: Arc<dyn Env>,
        keys: Keyspace,
        config: EngineConfig,
    ) -> Result<Self, OpenError> {
        let floor = set_up(&store, &keys).await?;
        let mark = load::<ClockMark>(&store, &keys.clock()).await?;
        let mark = match mark {
            Some((mark, found)) => Some((mark, found.revision)),
            None => None,
        };
        let interval_ms = config.clock_mark_interval_ms;
        let clock = EngineClock::new(&*env, keys.clock(), interval_ms, mark, floor);
        let retries = config.conflict_retries;
        let driver = Driver::new(store.clone(), Some(Arc::clone(&env)), retries);
        let core = Core {
            store,
            env,
            driver,
            keys,
            config,
            clock,
            sessions: OwnerSession::default(),
            served: Served::default(),
            views: Views::default(),
            cooldowns: Mutex::default(),
            publisher: Publisher::new(config.event_capacity),
        };
        let core = Arc::new(core);
        let every = config.collection_interval;
        let collecting =
            collection::clear_away(Arc::downgrade(&core), Arc::clone(&core.env), every);
        core.env.spawn(Box::pin(collecting));
        Ok(Self { core })
    }

    /// Gives up everything that is held through this coordinator, at once.
    pub async fn close(&self) -> Result<(), InfraError> {
        self.core.sessions.close(&self.core.store).await
    }

    /// Hears of what happens through this coordinator from now on.
    #[must_use]
    pub fn listen(&self) -> Listener {
        self.core.publisher.listen()
    }

    /// Whether anybody has set up a store under these keys, in a format that is known here.
    pub async fn is_set_up(store: impl Store, keys: &Keyspace) -> Result<bool, OpenError> {
        let store = &AnyStore::new(store);
        look_up(store, keys).await?;
        Ok(load::<Format>(store, &keys.format()).await?.is_some())
    }

    /// Makes every fence granted so far stale. For a store that was restored from a backup, before
    /// anybody works on it: what was granted after the backup was made must not be granted again.
    pub async fn raise_incarnation(store: impl Store, keys: &Keyspace) -> Result<u32, OpenError> {
        let store = AnyStore::new(store);
        let driver = Driver::new(store.clone(), None, OPEN_RETRIES);
        Ok(driver.transact(&mut Raising { store, key: keys.incarnation() }).await?)
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

    /// What time it is, for whoever only looks: a store that takes no writes can be looked at.
    pub(crate) async fn now_at_most(&self) -> LogicalTime {
        self.clock.now_at_most(&self.store, &*self.env).await
    }

    /// No fence below this one is granted or accepted. Whoever changes something asks for the time
    /// before.
    pub(crate) fn fence_floor(&self) -> FenceEpoch {
        self.clock.fence_floor()
    }
}

/// Sets a store up if it is empty, and tells below what no fence is granted or accepted.
pub(crate) async fn set_up(store: &AnyStore, keys: &Keyspace) -> Result<FenceFloor, OpenError> {
    let format = ensure(store, keys.format(), Format { version: FORMAT }).await?.0;
    if format.version > FORMAT {
        return Err(OpenError::NewerFormat { found: format.version, known: FORMAT });
    }
    let (incarnation, found) = ensure(store, keys.incarnation(), Incarnation { number: 0 }).await?;
    Ok(FenceFloor::new(keys.incarnation(), incarnation, found.map(|found| found.revision)))
}

/// What [`set_up`] tells, of a store in which nothing is made: what is missing is as it would be
/// made.
pub(crate) async fn look_up(store: &AnyStore, keys: &Keyspace) -> Result<FenceFloor, OpenError> {
    let format = load::<Format>(store, &keys.format()).await?;
    if let Some((Format { version: found }, _)) = format.filter(|(one, _)| one.version > FORMAT) {
        return Err(OpenError::NewerFormat { found, known: FORMAT });
    }
    let (incarnation, at) = match load::<Incarnation>(store, &keys.incarnation()).await? {
        Some((incarnation, found)) => (incarnation, Some(found.revision)),
        None => (Incarnation { number: 0 }, None),
    };
    Ok(FenceFloor::new(keys.incarnation(), incarnation, at))
}

/// What is under a key, and how it is stored.
pub(crate) async fn load<T: Record>(
    store: &AnyStore,
    key: &Key,
) -> Result<Option<(T, Versioned)>, InfraError> {
    let loaded = store.load(std::slice::from_ref(key)).await;
    let snapshot = loaded.map_err(|error| fault::read(OPERATION, &error))?;
    let Some(found) = snapshot.values.into_iter().next().flatten() else { return Ok(None) };
    let value = T::decode(&found.value).map_err(|error| fault::decode(OPERATION, &error))?;
    Ok(Some((value, found)))
}

/// How often opening a store is tried while other processes set it up.
const OPEN_RETRIES: u32 = 8;

/// What is under a key, or `value` if there was nothing.
pub(crate) async fn ensure<T: Record + Clone + Send + Sync>(
    store: &AnyStore,
    key: Key,
    value: T,
) -> Result<(T, Option<Versioned>), InfraError> {
    let driver = Driver::new(store.clone(), None, OPEN_RETRIES);
    let (value, found) = driver.transact(&mut Ensuring { store, key, value }).await?;
    Ok((value, Some(found)))
}

/// A record that is written unless there is one.
struct Ensuring<'s, T> {
    store: &'s AnyStore,
    key: Key,
    value: T,
}

impl<T: Record + Clone + Send + Sync> Transaction for Ensuring<'_, T> {
    type Basis = Option<(T, Versioned)>;
    type Answer = ();
    type Output = (T, Versioned);
    type Error = InfraError;

    fn operation(&self) -> &'static str {
        OPERATION
    }

    async fn load(&mut self, read: Read) -> Result<(Self::Basis, Read), InfraError> {
        Ok((load(self.store, &self.key).await?, read))
    }

    async fn decide(&mut self, found: &Self::Basis) -> Decided<(), InfraError> {
        if found.is_some() {
            return Ok(Decision::Answer(()));
        }
        let commit = Commit::builder().expect(self.key.clone(), Expect::Absent);
        Ok(Decision::Commit(commit.put(self.key.clone(), self.value.encode()), ()))
    }

    fn finish(
        &mut self,
        found: Self::Basis,
        (): (),
        stored: Option<(&Commit, Revision)>,
    ) -> (T, Versioned) {
        let revision = stored.map_or(Revision::ZERO, |(_, revision)| revision);
        let ours = || (self.value.clone(), Versioned::new(self.value.encode(), revision, None));
        found.unwrap_or_else(ours)
    }
}

/// The generation of a store, raised by one.
struct Raising {
    store: AnyStore,
    key: Key,
}

impl Transaction for Raising {
    type Basis = Option<(Incarnation, Versioned)>;
    type Answer = u32;
    type Output = u32;
    type Error = InfraError;

    fn operation(&self) -> &'static str {
        OPERATION
    }

    async fn load(&mut self, read: Read) -> Result<(Self::Basis, Read), InfraError> {
        Ok((load(&self.store, &self.key).await?, read))
    }

    async fn decide(&mut self, found: &Self::Basis) -> Decided<u32, InfraError> {
        let (number, expect) = match found {
            Some((current, found)) => (current.number, Expect::At(found.revision)),
            None => (0, Expect::Absent),
        };
        let number = number.saturating_add(1);
        let commit = Commit::builder().expect(self.key.clone(), expect);
        let commit = commit.put(self.key.clone(), Incarnation { number }.encode());
        Ok(Decision::Commit(commit, number))
    }

    fn finish(&mut self, _: Self::Basis, number: u32, _: Option<(&Commit, Revision)>) -> u32 {
        number
    }
}
