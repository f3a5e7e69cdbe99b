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
use crate::cluster::{AnyCluster, counters, open};
use crate::store::{AnyStore, OpenMode, OpenStore as _, StoreAddress};

/// How long the cluster may take to come to rest.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long whoever does something to the store is given for it.
const OUTSIDE: Duration = Duration::from_secs(5);
/// How long a write takes at most where nobody stands in its way.
const A_WRITE: Duration = Duration::from_millis(500);
/// How often a node may be met in the middle of a write.
const MEETINGS: u32 = 20;

/// What is started.
pub(crate) struct Setup {
    pub(crate) store: StoreAddress,
    pub(crate) name: String,
    pub(crate) nodes: usize,
    pub(crate) gates: usize,
    pub(crate) shards: u32,
    pub(crate) session: Duration,
}

/// How the cluster is described on a command line, to us as well as to the others.
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
        arguments.extend(["--json".to_owned(), what.to_owned()]);
        arguments.extend(self.cluster());
        Process::start(&arguments).await.with_context(|| format!("a {what} does not come up"))
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
    /// Starts everything, and waits until every shard is where it should be.
    pub(crate) async fn start(setup: Setup) -> anyhow::Result<Self> {
        let (mut nodes, mut gates) = (Vec::new(), Vec::new());
        for _ in 0..setup.nodes {
            nodes.push(setup.start("node").await?);
        }
        for _ in 0..setup.gates {
            gates.push(setup.start("gate").await?);
        }
        let chosen = Chosen::try_parse_from(setup.cluster())?;
        let cluster = open(&setup.store, &chosen.cluster, OpenMode::Read).await?;
        let counters = counters(&cluster);
        let fleet = Self { setup, nodes, gates, cluster, counters };
        fleet.at_rest().await?;
        Ok(fleet)
    }

    pub(crate) const fn cluster(&self) -> &AnyCluster {
        &self.cluster
    }

    pub(crate) const fn counters(&self) -> &Counters<AnyStore> {
        &self.counters
    }

    /// Where clients call.
    pub(crate) fn gates(&self) -> Vec<String> {
        self.gates.iter().map(|gate| gate.address.clone()).collect()
    }

    /// Does something to the cluster and waits until it is at rest again. `begun` is called when
    /// the very thing is done.
    pub(crate) async fn live_through(
        &mut self,
        event: Event,
        begun: impl FnOnce(),
    ) -> anyhow::Result<()> {
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
                let status = self.in_time("a node that was told to end", node.ended()).await??;
                anyhow::ensure!(status.success(), "a node that was told to end failed: {status}");
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
                tokio::time::sleep(OUTSIDE).await;
            }
        }
        self.at_rest().await
    }

    /// Ends every process, and waits until it has.
    pub(crate) async fn end(self) -> anyhow::Result<()> {
        for mut process in self.nodes.into_iter().chain(self.gates) {
            process.signal(Signal::KILL)?;
            process.ended().await?;
        }
        Ok(())
    }

    /// Has a node emptied by an operator, and lets it have shards again.
    async fn drain(&self) -> anyhow::Result<()> {
        let node = self.nodes.first().context("there is no node")?;
        let address = NodeAddress::parse(&node.address)?;
        self.cluster.set_drained(&address, true).await?;
        let empty =
            |view: &ClusterView| DrainProgress::of(&view.map, &address, &view.members).is_done();
        self.until("a node that is to be emptied", empty).await?;
        self.cluster.set_drained(&address, false).await?;
        Ok(())
    }

    /// Lets a node stand still until the others have replaced it.
    async fn pause(&self, begun: impl FnOnce()) -> anyhow::Result<()> {
        let node = self.nodes.get(self.leader()).context("there is no node")?;
        begun();
        self.stop(node).await?;
        let replaced = |view: &ClusterView| {
            view.members.get(&node.address).is_none() && view.readiness().is_ready()
        };
        let waited = self.until("a node that stands still", replaced).await;
        node.signal(Signal::CONT)?;
        waited
    }

    /// Lets a node stand still outside of a write: in the middle of one it has the lock of all who
    /// write to a file store, and nobody could replace it.
    async fn stop(&self, node: &Process) -> anyhow::Result<()> {
        for _ in 0..MEETINGS {
            node.signal(Signal::STOP)?;
            let can_write = self.can_write().await;
            if matches!(can_write, Ok(true)) {
                return Ok(());
            }
            node.signal(Signal::CONT)?;
            can_write?;
        }
        anyhow::bail!("nobody can write to {}", self.setup.store)
    }

    async fn can_write(&self) -> anyhow::Result<bool> {
        let (store, key) = (self.cluster.store(), Key::from(format!("demo/{}", self.setup.name)));
        let found = store.load(std::slice::from_ref(&key)).await?.values.into_iter().flatten();
        let there = found.last().map_or(Expect::Absent, |found| Expect::At(found.revision));
        let commit = Commit::builder().expect(key.clone(), there).put(key, "").build()?;
        let written = tokio::time::timeout(A_WRITE, store.commit(commit)).await;
        Ok(matches!(written, Ok(Ok(_))))
    }

    /// Which of the nodes leads; the first if nobody does.
    fn leader(&self) -> usize {
        let view = self.cluster.view();
        let leader = view.live_leader().map(|leader| leader.address.as_str());
        self.nodes.iter().position(|node| Some(node.address.as_str()) == leader).unwrap_or(0)
    }

    /// Waits until every node is a member and has its share.
    async fn at_rest(&self) -> anyhow::Result<()> {
        let nodes = self.nodes.len();
        let share = self.setup.shards as usize / nodes.max(1);
        let at_rest = |view: &ClusterView| {
            let has_share = |member: &shardwright_placement::Member| {
                view.held_by(&member.holder).count() >= share
            };
            view.members.len() == nodes
                && view.readiness().is_ready()
                && view.members.iter().all(has_share)
        };
        self.until("the cluster", at_rest).await
    }

    async fn until(&self, what: &str, holds: impl Fn(&ClusterView) -> bool) -> anyhow::Result<()> {
        let mut changes = self.cluster.changes();
        let waiting = changes.wait_for(|view| holds(view));
        match self.in_time(what, waiting).await {
            Ok(found) => found.map(|_| ()).context("the cluster cannot be followed any more"),
            Err(late) => Err(late.context(self.cluster.view().readiness().to_string())),
        }
    }

    async fn in_time<T>(&self, what: &str, waiting: impl Future<Output = T>) -> anyhow::Result<T> {
        let done = tokio::time::timeout(PATIENCE, waiting).await;
        done.with_context(|| format!("{what} did not come to rest in {} s", PATIENCE.as_secs()))
    }
}
