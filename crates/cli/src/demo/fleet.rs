//! The processes of the demo's cluster, and the events that happen to them.

use std::time::Duration;

use anyhow::Context as _;
use clap::Parser as _;
use rustix::process::Signal;
use shardwright_cluster::ClusterView;
use shardwright_demo::Counters;
use shardwright_placement::{DrainProgress, NodeAddress};
use shardwright_store::{Commit, Expect, Key, Store as _};

use super::events::Event;
use super::process::Process;
use crate::arguments::cluster::ClusterChoice;
use crate::cluster::{AnyCluster, Missing, counters, open};
use crate::store::{AnyStore, OpenStore as _, StoreAddress, TrustedFolders};

/// The timeout for the cluster to settle after an event.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(60);
/// The time that the user has to disturb the store.
const STORE_EVENT: Duration = Duration::from_secs(5);
/// The timeout of a test write. A slower write means that another process holds the write lock.
const WRITE_TIMEOUT: Duration = Duration::from_millis(500);
/// The number of attempts to stop a node outside of a write.
const STOP_ATTEMPTS: u32 = 20;

/// The cluster to start.
pub(crate) struct Setup {
    pub(crate) store: StoreAddress,
    pub(crate) trusted: TrustedFolders,
    pub(crate) name: String,
    pub(crate) nodes: usize,
    pub(crate) gates: usize,
    pub(crate) shards: u32,
    pub(crate) session: Duration,
}

/// The cluster flags, which this process parses as its child processes do.
#[derive(clap::Parser)]
#[command(no_binary_name = true)]
struct Chosen {
    #[command(flatten)]
    cluster: ClusterChoice,
}

impl Setup {
    fn cluster(&self) -> Vec<String> {
        let pairs = [
            ("--cluster", self.name.clone()),
            ("--shards", self.shards.to_string()),
            ("--session-ms", self.session.as_millis().to_string()),
            ("--stability-ms", "500".to_owned()),
            ("--check-interval-ms", "1000".to_owned()),
            ("--cooldown-ms", "1000".to_owned()),
            ("--batch-size", (self.shards / 8).max(1).to_string()),
        ];
        pairs.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
    }

    async fn start(&self, what: &str) -> anyhow::Result<Process> {
        let mut arguments = self.store.flags();
        for folder in self.trusted.folders() {
            arguments.extend(["--trust-folder".to_owned(), folder.display().to_string()]);
        }
        arguments.extend(["--json".to_owned(), what.to_owned()]);
        arguments.extend(self.cluster());
        Process::start(&arguments).await.with_context(|| format!("cannot start a {what}"))
    }
}

/// The processes of a cluster.
pub(crate) struct Fleet {
    setup: Setup,
    nodes: Vec<Process>,
    gates: Vec<Process>,
    cluster: AnyCluster,
    counters: Counters<AnyStore>,
}

impl Fleet {
    /// Starts all processes, and waits until every shard is on its target node.
    pub(crate) async fn start(setup: Setup) -> anyhow::Result<Self> {
        let (mut nodes, mut gates) = (Vec::new(), Vec::new());
        for _ in 0..setup.nodes {
            nodes.push(setup.start("node").await?);
        }
        for _ in 0..setup.gates {
            gates.push(setup.start("gate").await?);
        }
        let chosen = Chosen::try_parse_from(setup.cluster())?;
        let cluster = open(&setup.store, &chosen.cluster, Missing::Fail).await?;
        let counters = counters(&cluster);
        let fleet = Self { setup, nodes, gates, cluster, counters };
        fleet.settle().await?;
        Ok(fleet)
    }

    pub(crate) const fn cluster(&self) -> &AnyCluster {
        &self.cluster
    }

    pub(crate) const fn counters(&self) -> &Counters<AnyStore> {
        &self.counters
    }

    /// The addresses that clients call.
    pub(crate) fn gates(&self) -> Vec<String> {
        self.gates.iter().map(|gate| gate.address.clone()).collect()
    }

    /// Applies an event, and waits until the cluster has settled. It calls `begun` at the moment of
    /// the event.
    pub(crate) async fn apply(&mut self, event: Event, begun: impl FnOnce()) -> anyhow::Result<()> {
        match event {
            Event::Calm => begun(),
            Event::Join => {
                begun();
                self.nodes.push(self.setup.start("node").await?);
            }
            Event::Drain => {
                begun();
                self.drain().await?;
            }
            Event::Terminate => {
                let mut node = self.nodes.remove(0);
                begun();
                node.signal(Signal::TERM)?;
                let status = self.in_time("the terminated node", node.ended()).await??;
                anyhow::ensure!(status.success(), "the terminated node failed: {status}");
            }
            Event::Kill => {
                let mut node = self.nodes.remove(self.leader());
                begun();
                node.signal(Signal::KILL)?;
                node.ended().await?;
            }
            Event::Pause => self.pause(begun).await?,
            Event::Store => {
                begun();
                tokio::time::sleep(STORE_EVENT).await;
            }
        }
        self.settle().await
    }

    /// Kills all processes, and waits until they have ended.
    pub(crate) async fn end(self) -> anyhow::Result<()> {
        for mut process in self.nodes.into_iter().chain(self.gates) {
            process.signal(Signal::KILL)?;
            process.ended().await?;
        }
        Ok(())
    }

    /// Drains a node, and ends the drain.
    async fn drain(&self) -> anyhow::Result<()> {
        let node = self.nodes.first().context("no node is running")?;
        let address = NodeAddress::parse(&node.address)?;
        self.cluster.set_drained(&address, true).await?;
        let empty =
            |view: &ClusterView| DrainProgress::of(&view.map, &address, &view.members).is_done();
        self.until("the drained node", empty).await?;
        self.cluster.set_drained(&address, false).await?;
        Ok(())
    }

    /// Stops the leader until other nodes have replaced it.
    async fn pause(&self, begun: impl FnOnce()) -> anyhow::Result<()> {
        let node = self.nodes.get(self.leader()).context("no node is running")?;
        begun();
        self.stop(node).await?;
        let replaced = |view: &ClusterView| {
            view.members.get(&node.address).is_none() && view.readiness().is_ready()
        };
        let waited = self.until("the stopped node", replaced).await;
        node.signal(Signal::CONT)?;
        waited
    }

    /// Stops a node outside of a write. During a write it holds the write lock of a file store, and
    /// no other node could replace it.
    async fn stop(&self, node: &Process) -> anyhow::Result<()> {
        for _ in 0..STOP_ATTEMPTS {
            node.signal(Signal::STOP)?;
            let can_write = self.can_write().await;
            if matches!(can_write, Ok(true)) {
                return Ok(());
            }
            node.signal(Signal::CONT)?;
            can_write?;
        }
        anyhow::bail!("cannot write to {} while a node is stopped", self.setup.store)
    }

    async fn can_write(&self) -> anyhow::Result<bool> {
        let (store, key) = (self.cluster.store(), Key::from(format!("demo/{}", self.setup.name)));
        let found = store.load(std::slice::from_ref(&key)).await?.values.into_iter().flatten();
        let expect = found.last().map_or(Expect::Absent, |found| Expect::At(found.revision));
        let commit = Commit::builder().expect(key.clone(), expect).put(key, "").build()?;
        let written = tokio::time::timeout(WRITE_TIMEOUT, store.commit(commit)).await;
        Ok(matches!(written, Ok(Ok(_))))
    }

    /// The index of the leader, or of the first node if there is no leader.
    fn leader(&self) -> usize {
        let view = self.cluster.view();
        let leader = view.live_leader().map(|leader| leader.address.as_str());
        self.nodes.iter().position(|node| Some(node.address.as_str()) == leader).unwrap_or(0)
    }

    /// Waits until every node is a member and holds its share.
    async fn settle(&self) -> anyhow::Result<()> {
        let nodes = self.nodes.len();
        let share = self.setup.shards as usize / nodes.max(1);
        let is_settled = |view: &ClusterView| {
            let has_share = |member: &shardwright_placement::Member| {
                view.held_by(&member.holder).count() >= share
            };
            view.members.len() == nodes
                && view.readiness().is_ready()
                && view.members.iter().all(has_share)
        };
        self.until("the cluster", is_settled).await
    }

    async fn until(&self, what: &str, holds: impl Fn(&ClusterView) -> bool) -> anyhow::Result<()> {
        let mut changes = self.cluster.changes();
        let waiting = changes.wait_for(|view| holds(view));
        match self.in_time(what, waiting).await {
            Ok(found) => found.map(|_| ()).context("lost the watch on the cluster"),
            Err(late) => Err(late.context(self.cluster.view().readiness().to_string())),
        }
    }

    async fn in_time<T>(&self, what: &str, waiting: impl Future<Output = T>) -> anyhow::Result<T> {
        let done = tokio::time::timeout(SETTLE_TIMEOUT, waiting).await;
        done.with_context(|| format!("{what} did not settle in {} s", SETTLE_TIMEOUT.as_secs()))
    }
}
