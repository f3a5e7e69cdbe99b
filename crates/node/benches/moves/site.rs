use std::sync::Arc;
use std::time::Duration;

use shardwright_engine::TokioEnv;
use shardwright_engine::cluster::{Cluster, ClusterName, ClusterOptions};
use shardwright_node::world::{GrpcTransport, serve_node};
use shardwright_node::{Gate, GateOptions, Node, NodeOptions, ObjectTypes};
use shardwright_placement::{ClusterConfig, NodeAddress, ShardCount};
use shardwright_store::Store;
use tokio::net::TcpListener;

use crate::fence::{Fence, TYPE};

pub(crate) type OurCluster<S> = Cluster<S, TokioEnv>;

/// A cluster of so many shards, as one more process sees it.
pub(crate) async fn cluster<S: Store>(store: S, shards: u32) -> OurCluster<S> {
    let mut config = ClusterConfig::with_num_shards(ShardCount::try_new(shards).unwrap());
    config.cluster_state_stability_duration_ms = 300;
    // What the bench asks for is not to be moved back.
    config.imbalance_threshold = 1.0;
    let options = ClusterOptions::new(ClusterName::parse("bench").unwrap(), config);
    Cluster::open(store, TokioEnv::current().unwrap(), options).await.unwrap()
}

/// A node, and its server on a socket.
pub(crate) async fn node<S: Store>(cluster: OurCluster<S>) -> Node<S, TokioEnv> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = NodeAddress::parse(&listener.local_addr().unwrap().to_string()).unwrap();
    let types = ObjectTypes::new().with(TYPE, Fence);
    let transport = Arc::new(GrpcTransport::default());
    let options = NodeOptions::default();
    let node = Node::start(cluster, address, types, transport, options).await.unwrap();
    drop(tokio::spawn(serve_node(listener, node.service(), std::future::pending())));
    node
}

/// A gate.
pub(crate) async fn gate<S: Store>(cluster: OurCluster<S>) -> Gate<S, TokioEnv> {
    let transport = Arc::new(GrpcTransport::default());
    let address = NodeAddress::parse("gate").unwrap();
    Gate::open(cluster, address, transport, GateOptions::default()).await.unwrap()
}

/// Waits until so many nodes hold everything, each its share.
pub(crate) async fn ready<S: Store>(cluster: &OurCluster<S>, nodes: usize, shards: usize) {
    let mut changes = cluster.changes();
    let ready = changes.wait_for(|view| {
        let even = |holds: usize| holds >= shards / nodes;
        view.members.len() == nodes
            && view.readiness().is_ready()
            && view.members.iter().all(|one| even(view.held_by(&one.holder).count()))
    });
    tokio::time::timeout(Duration::from_secs(120), ready).await.unwrap().unwrap();
}
