//! A node: serves the counters in its shards. Start any number of them.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a program reports to its terminal")]

use std::sync::Arc;

use clap::Parser as _;
use shardwright_counter::{LINGER, ServerArguments, follow_notices, serve_until};
use shardwright_demo::Counters;
use shardwright_node::limits::ListenLimits;
use shardwright_node::world::{GrpcTransport, Ingress, serve_node, terminated};
use shardwright_node::{Node, NodeOptions, NodeState};
use tokio::sync::oneshot;

/// A node of a sharded counter service.
#[derive(clap::Parser)]
struct Arguments {
    #[command(flatten)]
    server: ServerArguments,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Arguments { server: arguments } = Arguments::parse();
    // Counters and cluster share a store here. They could use two.
    let store = arguments.connect().await?;
    let counters = Counters::new(Arc::new(store.clone()), &arguments.cluster);
    let (listener, address) = arguments.listen().await?;
    let cluster = arguments.open(store).await?;
    let transport = Arc::new(GrpcTransport::default());
    let options = NodeOptions::default();
    let node = Node::start(cluster, address.clone(), counters.types(), transport, options).await?;
    let (stop, stopped) = oneshot::channel::<()>();
    let service = node.service();
    let (ingress, stopped) = (Ingress::new(ListenLimits::NODE), async { drop(stopped.await) });
    let server = tokio::spawn(serve_node(listener, service, ingress, stopped));
    println!("node {address} serves counters");
    let name = address.clone();
    let report = move |notice: String| println!("node {name} {notice}");
    drop(tokio::spawn(follow_notices(node.notices(), report)));

    serve_until(terminated(), node.state()).await?;
    // The node hands over every shard before it leaves, so no call fails.
    let ended = node.drain().await;
    anyhow::ensure!(ended == NodeState::Left, "node {address} has not handed over all shards");
    println!("node {address} has handed over all shards");
    tokio::time::sleep(LINGER).await;
    drop(stop);
    Ok(server.await?)
}
