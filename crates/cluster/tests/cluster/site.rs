//! A store in memory with a simulated environment, clusters over it, and shorthand for tests.

use std::future::Future;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use shardwright_cluster::{
    Cluster, ClusterName, ClusterOptions, InfraError, Layout, NodeMembership, ShardClaimError,
    ShardRelease, ShardReleaseError,
};
use shardwright_contracts::{Env, FenceEpoch, ShardId};
use shardwright_placement::ops::ReleaseReason;
use shardwright_placement::{ClusterConfig, NodeAddress, NodeInstance, ShardCount, ShardDuties};
use shardwright_store::memory::{Before, HookedCall, Hooks, MemoryStore};
use shardwright_store::{
    Commit, Expect, Fault, FaultKind, Key, Revision, ScanFrom, Store, StoreRange,
};

use crate::flaky::FlakyStore;
use crate::support::world::{self, World};

pub(crate) const SHARDS: u32 = 16;
pub(crate) const TTL: Duration = Duration::from_secs(10);
pub(crate) const MARGIN: Duration = Duration::from_secs(2);
pub(crate) const GUARD_MS: u64 = 10_000;

pub(crate) type InMemory = Cluster;
pub(crate) type Node = NodeMembership;

/// A store and its simulated environment.
pub(crate) struct Site {
    pub(crate) world: World,
    pub(crate) store: MemoryStore,
    pub(crate) layout: Layout,
    /// Whether shards are placed and moved without waiting.
    pub(crate) hasty: bool,
}

impl Site {
    pub(crate) fn new() -> Self {
        Self::with(Layout::Native)
    }

    pub(crate) fn text() -> Self {
        Self::with(Layout::Seed { prefix: "/goverse".to_owned() })
    }

    fn with(layout: Layout) -> Self {
        let world = World::new(0);
        world.advance(1_000_000);
        let store = MemoryStore::new(Arc::new(world.clock().clone()));
        Self { world, store, layout, hasty: false }
    }

    pub(crate) fn options(&self) -> ClusterOptions {
        let mut config = ClusterConfig::with_num_shards(ShardCount::try_new(SHARDS).unwrap());
        if self.hasty {
            config.cluster_state_stability_duration_ms = 0;
            config.move_cooldown_ms = 0;
            config.rebalance_shards_batch_size = Some(SHARDS);
        }
        let options = ClusterOptions::new(ClusterName::parse("test").unwrap(), config);
        let (session_ttl, session_margin) = (TTL, MARGIN);
        ClusterOptions { layout: self.layout.clone(), session_ttl, session_margin, ..options }
    }

    /// A process without faults.
    pub(crate) fn cluster(&self) -> InMemory {
        self.cluster_over(self.store.clone())
    }

    /// A process over a store with scripted faults.
    pub(crate) fn flaky(&self) -> (Cluster, FlakyStore<MemoryStore>) {
        let store = FlakyStore::new(self.store.clone());
        (self.cluster_over(store.clone()), store)
    }

    /// A process whose connection to the store can be cut.
    pub(crate) fn cuttable(&self) -> (Cluster, Arc<Cut>) {
        let cut = Arc::new(Cut::default());
        (self.cluster_over(self.store.client(Arc::clone(&cut))), cut)
    }

    pub(crate) fn cluster_over<S: Store>(&self, store: S) -> Cluster {
        self.run(Cluster::open(store, self.world.clone(), self.options())).unwrap()
    }

    /// A process that is a node.
    pub(crate) fn node(&self, address: &str) -> Node {
        self.join(&self.cluster(), address)
    }

    pub(crate) fn join(&self, cluster: &Cluster, address: &str) -> Node {
        self.run(cluster.join(node(address), NonZeroU32::MIN)).unwrap()
    }

    pub(crate) fn run<T>(&self, future: impl Future<Output = T>) -> T {
        let result = self.world.block_on(future);
        self.world.run_tasks();
        result
    }

    /// Advances time in small steps and runs all tasks.
    pub(crate) fn pass(&self, duration: Duration) {
        let mut left = u64::try_from(duration.as_millis()).unwrap();
        while left > 0 {
            let step = left.min(500);
            self.world.advance(step);
            self.world.run_tasks();
            self.store.expire_sessions();
            self.world.run_tasks();
            left -= step;
        }
    }

    pub(crate) fn claim(&self, node: &Node, shard: u64) -> Result<FenceEpoch, ShardClaimError> {
        self.run(node.claim(&[ShardId::from_raw(shard)])).remove(0).1
    }

    pub(crate) fn release(
        &self,
        node: &Node,
        shard: u64,
        fence: FenceEpoch,
    ) -> Result<(), ShardReleaseError> {
        let release = ShardRelease {
            shard: ShardId::from_raw(shard),
            fence,
            objects: 0,
            why: ReleaseReason::Leaving,
        };
        self.run(node.release(&[release])).remove(0).1
    }

    /// Lets each node perform its duties once. The leader plans first.
    pub(crate) fn round(&self, nodes: &[&Node]) {
        for node in nodes {
            if self.run(node.try_lead()).is_ok() {
                self.run(node.lead_step(None)).unwrap();
            }
        }
        for node in nodes {
            let (cluster, holder) = (node.cluster(), node.holder());
            let view = cluster.view();
            let leaving = view.members.get(holder.address.as_str()).is_some_and(|one| one.draining);
            let duties =
                ShardDuties::of(&view.map, holder, &view.members, cluster.fence_floor(), leaving);
            self.run(node.claim(&duties.claim));
            let fences: std::collections::BTreeMap<_, _> = view.held_by(holder).collect();
            let why = ReleaseReason::Moved;
            let releases = duties
                .give_up
                .iter()
                .filter(|shard| view.map.info(**shard).unwrap().target != Some(&holder.address));
            let releases = releases.map(|shard| ShardRelease {
                shard: *shard,
                fence: fences[shard],
                objects: 0,
                why,
            });
            self.run(node.release(&releases.collect::<Vec<_>>()));
        }
    }

    /// Repeats rounds until every shard is where it should be and the nodes are balanced.
    pub(crate) fn settle(&self, nodes: &[&Node]) {
        for _ in 0..200 {
            self.pass(Duration::from_secs(5));
            self.round(nodes);
            let view = nodes[0].cluster().view();
            let held = nodes.iter().map(|node| view.held_by(node.holder()).count());
            let (least, most) = (held.clone().min().unwrap(), held.max().unwrap());
            if view.readiness().is_ready() && most - least <= 1 {
                return;
            }
        }
        panic!("the cluster does not settle: {}", nodes[0].cluster().view().readiness());
    }

    /// Places all shards for the first time.
    pub(crate) fn place(&self, leader: &Node) {
        self.pass(Duration::from_millis(GUARD_MS));
        self.run(leader.try_lead()).unwrap();
        let step = self.run(leader.lead_step(None)).unwrap();
        assert_eq!(step.moved, SHARDS as usize);
    }

    /// Every key and value below a prefix.
    pub(crate) fn stored(&self, prefix: &str) -> Vec<(String, Vec<u8>)> {
        let range = StoreRange::prefix(prefix.to_owned());
        let page = self.run(self.store.scan(&range, ScanFrom::first(100_000))).unwrap();
        let entries = page.entries.into_iter();
        entries.map(|(key, found)| (key.to_string(), found.value.to_vec())).collect()
    }

    /// Writes bytes under a key, whatever its current value.
    pub(crate) fn put(&self, key: &str, value: impl Into<Vec<u8>>) {
        let key = Key::from(key.to_owned());
        let commit = Commit::builder().expect(key.clone(), self.expect(&key));
        self.run(self.store.commit(commit.put(key, value.into()).build().unwrap())).unwrap();
        self.world.run_tasks();
    }

    /// Deletes a key.
    pub(crate) fn delete(&self, key: &str) {
        let key = Key::from(key.to_owned());
        let commit = Commit::builder().expect(key.clone(), self.expect(&key));
        self.run(self.store.commit(commit.delete(key).build().unwrap())).unwrap();
        self.world.run_tasks();
    }

    fn expect(&self, key: &Key) -> Expect {
        let found = self.run(self.store.load(std::slice::from_ref(key))).unwrap();
        found.values[0].as_ref().map_or(Expect::Absent, |found| Expect::At(found.revision))
    }

    /// Ends the session of a node in the store.
    pub(crate) fn end_session_of(&self, address: &str) {
        let key = match &self.layout {
            Layout::Native => format!("shardwright/cluster/test/member/{address}"),
            Layout::Seed { prefix } => format!("{prefix}/nodes/{address}"),
        };
        let found = self.run(self.store.load(&[Key::from(key)])).unwrap();
        let session = found.values[0].as_ref().unwrap().session.unwrap();
        assert!(self.store.end_session(session));
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

    pub(crate) fn monotonic(&self) -> Duration {
        self.world.monotonic()
    }
}

/// A connection to the store that can be cut.
#[derive(Default)]
pub(crate) struct Cut(AtomicBool);

impl Cut {
    pub(crate) fn set(&self, cut: bool) {
        self.0.store(cut, Ordering::SeqCst);
    }
}

impl Hooks for Cut {
    async fn before(&self, _call: HookedCall<'_>) -> Before {
        if self.0.load(Ordering::SeqCst) {
            Before::Refuse(Fault::new(FaultKind::Unreachable, "the connection is cut"))
        } else {
            Before::Go
        }
    }
}

/// A store whose reads return an earlier revision.
#[derive(Default)]
pub(crate) struct Outdated(AtomicU64);

impl Outdated {
    /// Sets the revision of reads. Zero is the current one.
    pub(crate) fn set(&self, revision: u64) {
        self.0.store(revision, Ordering::SeqCst);
    }
}

impl Hooks for Outdated {
    async fn before(&self, call: HookedCall<'_>) -> Before {
        match (call, self.0.load(Ordering::SeqCst)) {
            (HookedCall::Load(_) | HookedCall::Scan(..), at @ 1..) => {
                Before::AsOf(Revision::new(at))
            }
            _ => Before::Go,
        }
    }
}

pub(crate) fn node(text: &str) -> NodeAddress {
    NodeAddress::parse(text).unwrap()
}

pub(crate) fn shard(raw: u64) -> ShardId {
    ShardId::from_raw(raw)
}

/// Holder of a shard in the newest view.
pub(crate) fn holder_of(cluster: &Cluster, raw: u64) -> Option<NodeInstance> {
    let view = cluster.view();
    view.map.info(shard(raw)).unwrap().current.map(|holder| holder.to_holder())
}

pub(crate) fn target_of(cluster: &Cluster, raw: u64) -> Option<String> {
    let view = cluster.view();
    view.map.info(shard(raw)).unwrap().target.map(ToString::to_string)
}

pub(crate) fn is_unknown(error: &InfraError) -> bool {
    matches!(error, InfraError::Unknown { .. })
}
