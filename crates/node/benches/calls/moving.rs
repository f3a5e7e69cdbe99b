//! The cost of a planned move for a caller, and the time that a node with many shards takes to
//! leave: two nodes, a gate and a real etcd on this machine.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use shardwright_cluster::{Cluster, ClusterName, ClusterOptions};
use shardwright_contracts::ShardId;
use shardwright_engine::TokioEnv;
use shardwright_node::limits::ListenLimits;
use shardwright_node::world::{GrpcTransport, Ingress, serve_node};
use shardwright_node::{Call, Gate, GateOptions, Node, NodeOptions, ObjectKey, ObjectTypes};
use shardwright_placement::testing::object_id_for_shard;
use shardwright_placement::{ClusterConfig, NodeAddress, ObjectId, ShardCount};
use shardwright_store::etcd::EtcdStore;
use shardwright_store::testing::{EtcdCluster, EtcdSetup};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::ours::Echo;

type Site = Cluster;

/// A thousand are left after the moves.
const SHARDS: u32 = 1_000 + MOVES as u32;
const MOVES: usize = 100;

struct World {
    store: EtcdStore,
    options: ClusterOptions,
}

impl World {
    async fn cluster(&self) -> Site {
        let env = TokioEnv::current().unwrap();
        Cluster::open(self.store.clone(), env, self.options.clone()).await.unwrap()
    }

    async fn node(&self) -> Node {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = NodeAddress::parse(&listener.local_addr().unwrap().to_string()).unwrap();
        let types = ObjectTypes::new().with("Echo", Echo);
        let transport = Arc::new(GrpcTransport::default());
        let (cluster, options) = (self.cluster().await, NodeOptions::default());
        let node = Node::start(cluster, address, types, transport, options).await.unwrap();
        let ingress = Ingress::new(ListenLimits::NODE);
        tokio::spawn(serve_node(listener, node.service(), ingress, pending()));
        node
    }
}

/// Prints how long calls were held by moves, and how long a drain took.
pub(crate) async fn print() {
    let etcd = EtcdSetup::members(1).synced().start().await.unwrap();
    let store = EtcdStore::connect(etcd.options()).await.unwrap();
    let mut config = ClusterConfig::with_num_shards(ShardCount::try_new(SHARDS).unwrap());
    config.cluster_state_stability_duration_ms = 0;
    config.in_flight_per_node_max = SHARDS;
    let options = ClusterOptions::new(ClusterName::parse("bench").unwrap(), config);
    let world = World { store, options };
    let first = world.node().await;
    let operator = world.cluster().await;
    ready(&operator, 1).await;
    operator.set_frozen(true).await.unwrap();
    let second = world.node().await;
    let name = NodeAddress::parse("gate").unwrap();
    let (cluster, transport) = (world.cluster().await, Arc::new(GrpcTransport::default()));
    let gate = Gate::open(cluster, name, transport, GateOptions::default()).await.unwrap();
    let gate = Arc::new(gate);
    let mut held = Vec::new();
    for raw in 0..MOVES {
        held.push(held_by_move(&gate, &operator, raw as u64, second.address()).await);
    }
    held.sort_unstable();
    let millis = |part: usize| held.get(held.len() * part / 100).map_or(0, Duration::as_millis);
    println!("slowest call of a planned move, {MOVES} moves on etcd, another every 2 ms");
    println!("  p50 {} ms, p99 {} ms; the aim is below 100 ms", millis(50), millis(99));

    let (before, asked_before) = (operator.view().revision, requests(&etcd).await);
    let holds = first.shards().len();
    let began = Instant::now();
    first.drain().await;
    ready(&operator, 1).await;
    let took = began.elapsed();
    let commits = operator.view().revision.get() - before.get();
    let asked = requests(&etcd).await - asked_before;
    println!(
        "draining a node with {holds} shards: {:.2} s, {asked} requests to etcd, {commits} \
         revisions",
        took.as_secs_f64()
    );
}

/// The number of messages that etcd has received from its clients, by its own count: from both
/// nodes, the gate and the operator, including watches and keep-alives.
async fn requests(etcd: &EtcdCluster) -> u64 {
    let mut stream = TcpStream::connect(etcd.address(0).unwrap().to_string()).await.unwrap();
    let question = "GET /metrics HTTP/1.0\r\nhost: etcd\r\n\r\n";
    stream.write_all(question.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let counters =
        answer.lines().filter(|line| line.starts_with("grpc_server_msg_received_total{"));
    let counts = counters.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    counts.sum::<f64>() as u64
}

async fn ready(operator: &Site, nodes: usize) {
    let mut changes = operator.changes();
    let is_ready =
        changes.wait_for(|view| view.members.len() == nodes && view.readiness().is_ready());
    drop(is_ready.await.unwrap());
}

/// Moves a shard during calls to one of its objects, and returns the longest time of a call.
async fn held_by_move(gate: &Arc<Gate>, operator: &Site, raw: u64, to: &NodeAddress) -> Duration {
    let shard = ShardId::from_raw(raw);
    let id = object_id_for_shard(operator.config().sharding, shard, "object").unwrap();
    let key = ObjectKey::new("Echo", ObjectId::parse(&id).unwrap());
    let stop = Arc::new(AtomicBool::new(false));
    let (caller, stopped) = (Arc::clone(gate), Arc::clone(&stop));
    let calls = tokio::spawn(async move {
        let mut under_way = Vec::new();
        while !stopped.load(Ordering::Relaxed) {
            let (caller, key) = (Arc::clone(&caller), key.clone());
            under_way.push(tokio::spawn(async move {
                let began = Instant::now();
                let call = Call::new(key, "echo", "x", Duration::from_secs(10));
                caller.call(call).await.unwrap();
                began.elapsed()
            }));
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let mut slowest = Duration::ZERO;
        for call in under_way {
            slowest = slowest.max(call.await.unwrap());
        }
        slowest
    });
    tokio::time::sleep(Duration::from_millis(10)).await;
    operator.move_shard(shard, to).await.unwrap();
    let mut changes = gate.cluster().changes();
    let moved = changes.wait_for(|view| {
        let current = view.map.info(shard).ok().and_then(|info| info.current);
        current.is_some_and(|holder| holder.address == to)
    });
    drop(moved.await.unwrap());
    stop.store(true, Ordering::Relaxed);
    calls.await.unwrap()
}
