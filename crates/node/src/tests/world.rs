//! Nodes and gates in one process, on a store in memory and a virtual clock.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use shardwright_api::CallError;
use shardwright_cluster::records::ClusterDeletionRecord;
use shardwright_cluster::{
    Cluster, ClusterDeleteError, ClusterKey, ClusterName, ClusterOptions, ClusterView, Layout,
};
use shardwright_contracts::{Env, FenceEpoch, ShardId};
use shardwright_engine::codec::Record;
use shardwright_placement::testing::object_id_for_shard;
use shardwright_placement::{ClusterConfig, NodeAddress, ObjectId, ShardCount};
use shardwright_store::memory::{self, Before, Hooks, MemoryStore};
use shardwright_store::{Commit, Expect, Fault, FaultKind, SessionClock, Store as _};

use super::counter::{Counter, Rows};
use crate::testing::PausedEnv;
use crate::{
    AutoLoad, Call, Gate, GateOptions, LocalNetwork, Node, NodeOptions, ObjectKey, ObjectTypes,
    Transport,
};

/// The connection of a process to the store, with faults.
#[derive(Debug, Default)]
pub(super) struct Line {
    pub(super) cut: AtomicBool,
    /// Whether the store is full and refuses commits.
    pub(super) full: AtomicBool,
    /// Whether commits get stuck in flight, without an answer.
    pub(super) sticky: AtomicBool,
    /// The same for commits that write a key with this suffix.
    pub(super) sticky_key: Mutex<Option<String>>,
    stuck: Mutex<Vec<Commit>>,
}

impl Line {
    /// The number of stuck commits.
    pub(super) fn stuck(&self) -> usize {
        self.stuck.lock().unwrap().len()
    }

    /// Makes writes of a shard get stuck.
    pub(super) fn stick(&self, shard: ShardId) {
        *self.sticky_key.lock().unwrap() = Some(format!("/claim/{:016x}", shard.as_raw()));
    }

    fn sticks(&self, commit: &Commit) -> bool {
        let of_key = self.sticky_key.lock().unwrap();
        let mut keys = commit.writes().iter().map(|write| write.key().to_string());
        let ends = |end: &String| keys.any(|key| key.ends_with(end));
        self.sticky.load(Ordering::Relaxed) || of_key.as_ref().is_some_and(ends)
    }
}

impl Hooks for Line {
    async fn before(&self, call: memory::HookedCall<'_>) -> Before {
        if self.cut.load(Ordering::Relaxed) {
            return Before::Refuse(Fault::new(FaultKind::Unreachable, "the line is cut"));
        }
        let memory::HookedCall::Commit(commit) = call else { return Before::Go };
        if self.full.load(Ordering::Relaxed) {
            return Before::Refuse(Fault::new(FaultKind::Full, "no room"));
        }
        if self.sticks(commit) {
            self.stuck.lock().unwrap().push(commit.clone());
            return Before::Lose(Fault::new(FaultKind::Unreachable, "no answer"));
        }
        Before::Go
    }
}

struct Clock(PausedEnv);

impl SessionClock for Clock {
    fn now(&self) -> Duration {
        self.0.monotonic()
    }
}

/// A cluster and its environment.
pub(super) struct World {
    pub(super) env: PausedEnv,
    pub(super) rows: Arc<Rows>,
    pub(super) config: ClusterConfig,
    pub(super) network: Arc<LocalNetwork>,
    store: MemoryStore,
    layout: Layout,
    /// Observes the cluster without joining it.
    pub(super) watcher: Cluster,
}

/// A node and its connection to the store.
pub(super) struct Process {
    pub(super) node: Node,
    pub(super) line: Arc<Line>,
}

pub(super) const TTL: Duration = Duration::from_secs(10);

impl World {
    pub(super) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    /// The same, stored in the text format.
    pub(super) async fn of_text() -> Self {
        Self::of_text_with(|_| {}).await
    }

    pub(super) async fn of_text_with(change: impl FnOnce(&mut ClusterConfig)) -> Self {
        Self::stored(Layout::Seed { prefix: "/goverse".to_owned() }, change).await
    }

    pub(super) async fn with(change: impl FnOnce(&mut ClusterConfig)) -> Self {
        Self::stored(Layout::Native, change).await
    }

    /// A cluster of 64 shards, whose nodes check once a minute without a notification.
    async fn stored(layout: Layout, change: impl FnOnce(&mut ClusterConfig)) -> Self {
        let env = PausedEnv::new();
        let store = MemoryStore::new(Arc::new(Clock(env.clone())));
        let reaped = store.client(Arc::new(memory::NoHooks));
        env.spawn(Box::pin(async move { reaped.reap(tokio::time::sleep).await }));
        let mut config = ClusterConfig::with_num_shards(ShardCount::try_new(64).unwrap());
        config.cluster_state_stability_duration_ms = 100;
        config.shard_mapping_check_interval_ms = 60_000;
        config.move_cooldown_ms = 0;
        change(&mut config);
        let network = Arc::new(LocalNetwork::new(env.clone()));
        let line = Arc::new(Line::default());
        let watcher = open(&store, &env, &config, &layout, line).await;
        Self { env, rows: Arc::default(), config, layout, network, store, watcher }
    }

    pub(super) async fn cluster(&self, line: Arc<Line>) -> Cluster {
        open(&self.store, &self.env, &self.config, &self.layout, line).await
    }

    /// Deletes the cluster.
    pub(super) async fn delete(&self) -> Result<(), ClusterDeleteError> {
        let store = self.store.client(Arc::new(memory::NoHooks));
        Cluster::delete(store, &options(&self.config, &self.layout)).await
    }

    /// Makes the first commit of a deletion.
    pub(super) async fn mark_deletion(&self) {
        let keys = options(&self.config, &self.layout).cluster_keys().unwrap();
        let key = keys.key(&ClusterKey::Deletion);
        let mark = ClusterDeletionRecord { floor: FenceEpoch::INITIAL, unfinished: true };
        let commit = Commit::builder().expect(key.clone(), Expect::Absent);
        let commit = commit.put(key, mark.encode()).build().unwrap();
        self.store.commit(commit).await.unwrap();
    }

    /// Time until a session expires, if there is one.
    pub(super) fn next_expiry(&self) -> Option<Duration> {
        self.store.until_next_expiry()
    }

    pub(super) async fn node(&self, name: &str) -> Process {
        self.node_with(name, NodeOptions::default(), Arc::clone(&self.network) as _).await
    }

    pub(super) async fn node_with(
        &self,
        name: &str,
        options: NodeOptions,
        transport: Arc<dyn Transport>,
    ) -> Process {
        let line = Arc::new(Line::default());
        let cluster = self.cluster(Arc::clone(&line)).await;
        let types = ObjectTypes::new()
            .with("Counter", Counter { rows: Arc::clone(&self.rows), env: self.env.clone() });
        let node = Node::start(cluster, address(name), types, transport, options).await.unwrap();
        self.network.connect(address(name), node.service());
        Process { node, line }
    }

    pub(super) async fn nodes(&self, names: &[&str]) -> Vec<Process> {
        let mut nodes = Vec::new();
        for name in names {
            nodes.push(self.node(name).await);
        }
        self.settle(names.len()).await;
        nodes
    }

    pub(super) async fn gate(&self) -> Gate {
        self.gate_with(GateOptions::default(), Arc::clone(&self.network) as _).await
    }

    pub(super) async fn gate_with(
        &self,
        options: GateOptions,
        transport: Arc<dyn Transport>,
    ) -> Gate {
        let cluster = self.cluster(Arc::default()).await;
        Gate::open(cluster, address("gate"), transport, options).await.unwrap()
    }

    /// Waits until this many nodes hold all shards, each its share.
    pub(super) async fn settle(&self, nodes: usize) {
        self.until(|view| {
            let ready = view.members.len() == nodes && view.readiness().is_ready();
            let shares = view.members.iter().map(|member| view.held_by(&member.holder).count());
            let shares: Vec<_> = shares.collect();
            let (least, most) = (shares.iter().min(), shares.iter().max());
            ready && most.zip(least).is_some_and(|(most, least)| most - least <= 1)
        })
        .await;
    }

    /// Waits until every shard is at its target.
    pub(super) async fn ready(&self) {
        self.watcher.wait_until_ready(Duration::from_secs(300)).await.unwrap();
    }

    /// Waits until the cluster is in a state.
    pub(super) async fn until(&self, mut is: impl FnMut(&ClusterView) -> bool) {
        let mut changes = self.watcher.changes();
        let reached = changes.wait_for(|view| is(view));
        let limit = Duration::from_secs(300);
        let reached = tokio::time::timeout(limit, reached).await;
        assert!(reached.is_ok(), "{:?}", self.watcher.status());
    }

    /// The holder of a shard.
    pub(super) fn holder_of(&self, shard: ShardId) -> NodeAddress {
        let view = self.watcher.view();
        view.map.info(shard).unwrap().current.unwrap().address.clone()
    }

    /// An object id in a shard.
    pub(super) fn id_in(&self, shard: ShardId) -> String {
        object_id_for_shard(self.config.sharding, shard, "counter").unwrap()
    }

    /// Delivers the stuck commits of a connection. Returns how many are applied.
    pub(super) async fn deliver(&self, line: &Line) -> usize {
        let stuck = std::mem::take(&mut *line.stuck.lock().unwrap());
        let mut applied = 0;
        for commit in stuck {
            applied += usize::from(self.store.commit(commit).await.is_ok());
        }
        applied
    }

    pub(super) async fn sleep_ms(&self, millis: u64) {
        self.env.sleep(Duration::from_millis(millis)).await;
    }
}

async fn open(
    store: &MemoryStore,
    env: &PausedEnv,
    config: &ClusterConfig,
    layout: &Layout,
    line: Arc<Line>,
) -> Cluster {
    Cluster::open(store.client(line), env.clone(), options(config, layout)).await.unwrap()
}

fn options(config: &ClusterConfig, layout: &Layout) -> ClusterOptions {
    let name = ClusterName::parse("test").unwrap();
    let layout = layout.clone();
    ClusterOptions { session_ttl: TTL, layout, ..ClusterOptions::new(name, config.clone()) }
}

pub(super) fn address(name: &str) -> NodeAddress {
    NodeAddress::parse(name).unwrap()
}

pub(super) fn call(id: &str, method: &str) -> Call {
    let key = ObjectKey::new("Counter", ObjectId::parse(id).unwrap());
    Call::new(key, method, Bytes::new(), Duration::from_secs(2))
}

pub(super) fn with_payload(id: &str, method: &str, payload: impl Into<Bytes>) -> Call {
    Call { payload: payload.into(), ..call(id, method) }
}

pub(super) fn auto_load(name: &str) -> AutoLoad {
    AutoLoad { object_type: "Counter".into(), name: name.into() }
}

pub(super) type Answer = Result<Bytes, CallError>;
