use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{Stream, StreamExt, stream};
use shardwright_contracts::{Env, FenceEpoch, InfraError, LogicalTime};
use shardwright_engine::floor::FenceFloor;
use shardwright_engine::follow::follow;
use shardwright_engine::setup::{look_up, set_up};
use shardwright_engine::transact::Driver;
use shardwright_engine::watch;
use shardwright_placement::{ClusterConfig, Membership, ShardHash, Sharding};
use shardwright_store::{AnyStore, Store};
use tokio::sync::oneshot;

use super::error::{ClusterOpenError, NotReady};
use super::existence::{Existence, KnownExistence, find_whole, write_plan};
use super::follow::FollowedRange;
use super::format::Format;
use super::options::{ClusterOptions, FoundCluster, Layout, TextShards};
use super::shared::{Core, PlanClock};
use super::state::State;
use super::view::ClusterView;
use crate::keys::ClusterKeys;
use crate::records::{ClusterFormat, ClusterPlanRecord};

/// A handle to a cluster. Clones share one connection.
///
/// It can view the cluster, route by it, and issue operators' requests. To own shards, a process
/// must [join](Cluster::join).
#[derive(Clone)]
pub struct Cluster {
    pub(super) core: Arc<Core>,
}

impl Cluster {
    /// Opens a cluster, and creates it if it does not exist.
    pub async fn open(
        store: impl Store,
        env: impl Env,
        options: ClusterOptions,
    ) -> Result<Self, ClusterOpenError> {
        Self::open_erased(AnyStore::new(store), Arc::new(env), options).await
    }

    /// Opens an existing cluster. Writes nothing until an operation requests it.
    pub async fn open_existing(
        store: impl Store,
        env: impl Env,
        options: ClusterOptions,
    ) -> Result<Self, ClusterOpenError> {
        Self::open_existing_erased(AnyStore::new(store), Arc::new(env), options).await
    }

    async fn open_erased(
        store: AnyStore,
        env: Arc<dyn Env>,
        options: ClusterOptions,
    ) -> Result<Self, ClusterOpenError> {
        options.validate()?;
        let keys = options.cluster_keys()?;
        let floor = set_up(&store, &options.keys).await?;
        if let (_, Some(found)) = find_whole(&store, &keys).await? {
            // Check an existing cluster before writing its plan record.
            agree(found, &options)?;
        }
        let existence = write_plan(&store, &keys, &options).await?;
        Self::follow(store, env, options, keys, floor, existence).await
    }

    async fn open_existing_erased(
        store: AnyStore,
        env: Arc<dyn Env>,
        options: ClusterOptions,
    ) -> Result<Self, ClusterOpenError> {
        options.validate()?;
        let keys = options.cluster_keys()?;
        let floor = look_up(&store, &options.keys).await?;
        let (existence, found) = find_whole(&store, &keys).await?;
        agree(found.ok_or(ClusterOpenError::NotThere)?, &options)?;
        Self::follow(store, env, options, keys, floor, existence).await
    }

    async fn follow(
        store: AnyStore,
        env: Arc<dyn Env>,
        options: ClusterOptions,
        keys: ClusterKeys,
        floor: FenceFloor,
        existence: Existence,
    ) -> Result<Self, ClusterOpenError> {
        let plan_clock = PlanClock::new(&*env);
        let members = Membership::try_new([], plan_clock.read(&*env));
        let members = members.map_err(|error| corrupt(error.to_string()))?;
        let num_shards = options.config.sharding.num_shards;
        let lowest = floor.get().max(existence.floor());
        let mut state = State::new(keys.clone(), num_shards, lowest, members);
        // The initial listing does not count as a change.
        let _nothing = state.publish();
        let ranges = keys.ranges();
        let (alive, gone): (Vec<_>, Vec<_>) = ranges.iter().map(|_| oneshot::channel()).unzip();
        let (views, _) = watch::channel(state.view());
        let retries = options.conflict_retries;
        let driver = Driver::new(store.clone(), Some(Arc::clone(&env)), retries).retrying_reads();
        let core = Core {
            store,
            env,
            driver,
            options,
            keys,
            floor,
            existence: KnownExistence::new(existence),
            plan_clock,
            state: Mutex::new(state),
            views,
            _alive: alive,
        };
        let core = Arc::new(core);
        let mut listed = Vec::new();
        for range in 0..ranges.len() {
            listed.push(core.relist(range).await?);
        }
        core.publish();
        for (range, ((keys, revision), gone)) in
            ranges.into_iter().zip(listed).zip(gone).enumerate()
        {
            let follower = FollowedRange { core: Arc::downgrade(&core), range };
            let env = Arc::clone(&core.env);
            core.env.spawn(Box::pin(follow(follower, keys, env, revision, gone)));
        }
        Ok(Self { core })
    }

    /// The newest view.
    #[must_use]
    pub fn view(&self) -> Arc<ClusterView> {
        Arc::clone(&self.core.views.borrow())
    }

    /// Subscribes to newer views.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<Arc<ClusterView>> {
        self.core.views.subscribe()
    }

    /// Waits until every shard is where it should be. Returns what is missing if that takes too
    /// long.
    pub async fn wait_until_ready(&self, patience: Duration) -> Result<Arc<ClusterView>, NotReady> {
        let mut views = self.changes();
        tokio::select! {
            biased;
            ready = views.wait_for(|view| view.readiness().is_ready()) => {
                // This handle keeps the sender alive.
                ready.map(|view| Arc::clone(&view)).map_err(|_closed| self.not_ready())
            }
            () = self.core.env.sleep(patience) => Err(self.not_ready()),
        }
    }

    fn not_ready(&self) -> NotReady {
        NotReady { lacks: self.view().readiness() }
    }

    /// Reads the whole cluster, for callers that cannot use a view that may lag.
    pub async fn refresh(&self) -> Result<Arc<ClusterView>, InfraError> {
        self.core.refresh().await
    }

    /// The time that plans use. It never goes back.
    #[must_use]
    pub fn now(&self) -> LogicalTime {
        self.core.now()
    }

    /// Configuration of the cluster.
    #[must_use]
    pub fn config(&self) -> &ClusterConfig {
        &self.core.options.config
    }

    /// Options of this process.
    #[must_use]
    pub fn options(&self) -> &ClusterOptions {
        &self.core.options
    }

    /// The lowest valid fence.
    #[must_use]
    pub fn fence_floor(&self) -> FenceEpoch {
        self.core.lock().floor()
    }

    /// The environment.
    #[must_use]
    pub fn env(&self) -> &Arc<dyn Env> {
        &self.core.env
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &AnyStore {
        &self.core.store
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("options", &self.core.options).finish_non_exhaustive()
    }
}

impl Core {
    pub(super) const fn format(&self) -> Format {
        if self.keys.is_text() { Format::Text } else { Format::Records }
    }

    /// Runs `act` for many items concurrently, so that the store can batch their commits.
    pub(super) async fn each<T, U, F: Future<Output = U>>(
        &self,
        items: Vec<T>,
        act: impl FnMut(T) -> F,
    ) -> Vec<U> {
        // All futures are created first. Otherwise the compiler cannot prove that the caller is
        // `Send`.
        let all: Vec<F> = items.into_iter().map(act).collect();
        stream::iter(all).buffered(self.options.commits_in_flight).collect().await
    }

    /// Like [`Self::each`], but yields results as soon as they are known, several at once if they
    /// arrive together. They are in the view by then.
    pub(super) fn as_they_come<F: Future>(
        self: &Arc<Self>,
        all: Vec<F>,
    ) -> impl Stream<Item = Vec<F::Output>> + use<F> {
        let (core, together) = (Arc::clone(self), all.len().max(1));
        let done = stream::iter(all).buffer_unordered(self.options.commits_in_flight);
        done.ready_chunks(together).inspect(move |_| {
            core.publish();
        })
    }
}

/// The plan record that this process would write.
pub(super) const fn plan_of(options: &ClusterOptions) -> ClusterPlanRecord {
    ClusterPlanRecord {
        sharding: options.config.sharding,
        format: match options.layout {
            Layout::Native => ClusterFormat::Native,
            Layout::Seed { .. } => ClusterFormat::Seed,
        },
    }
}

/// Checks that this process agrees with an existing cluster.
pub(super) fn agree(found: FoundCluster, options: &ClusterOptions) -> Result<(), ClusterOpenError> {
    let ours = plan_of(options);
    let cluster = match found {
        FoundCluster::Decided(cluster) => cluster,
        FoundCluster::Text(TextShards { at_least, .. }) => {
            let num_shards = ours.sharding.num_shards;
            if num_shards < at_least {
                return Err(ClusterOpenError::MoreShards { at_least, ours: num_shards });
            }
            // All clusters stored as text use this hash.
            let sharding = Sharding { hash: ShardHash::Fnv1a32, num_shards };
            ClusterPlanRecord { sharding, format: ClusterFormat::Seed }
        }
    };
    if cluster.format != ours.format {
        let ours = options.layout.clone();
        return Err(ClusterOpenError::Layout { cluster: cluster.format, ours });
    }
    Ok(cluster.sharding.check_join(ours.sharding)?)
}

fn corrupt(message: String) -> InfraError {
    shardwright_engine::fault::corrupt(shardwright_engine::operation!("cluster.open"), message)
}
