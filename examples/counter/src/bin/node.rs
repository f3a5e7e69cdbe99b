//! A node: serves the counters of the shards that it has. Start as many as you like.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a program that tells what it does")]

use std::sync::Arc;

use clap::Parser as _;
use shardwright_counter::{LINGER, ServerArguments, StoreChoice, follow_notices, serve_until};
use shardwright_demo::Counters;
use shardwright_node::world::{GrpcTransport, serve_node, terminated};
use shardwright_node::{Node, NodeOptions, NodeState};
use shardwright_store::Store;
use shardwright_store::etcd::{EtcdOptions, EtcdStore};
use shardwright_store::file::{FileOptions, FileStore};
use tokio::sync::oneshot;

/// A node of a sharded counter service.
#[derive(clap::Parser)]
struct Arguments {
    #[command(flatten)]
    server: ServerArguments,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Arguments { server } = Arguments::parse();
    match &server.store {
        StoreChoice::File(folder) => {
            serve(FileStore::open(folder, FileOptions::default())?, &server).await
        }
        StoreChoice::Etcd(members) => {
            serve(EtcdStore::connect(EtcdOptions::new(members)).await?, &server).await
        }
    }
}

async fn serve<S: Store>(store: S, arguments: &ServerArguments) -> anyhow::Result<()> {
    // The counters are in the same store as the cluster. They need not be.
    let store = Arc::new(store);
    let counters = Counters::new(Arc::clone(&store), &arguments.cluster);
    let cluster = arguments.open(store).await?;
    let (listener, address) = arguments.listen().await?;
    let transport = Arc::new(GrpcTransport::default());
    let options = NodeOptions::default();
    let node = Node::start(cluster, address.clone(), counters.types(), transport, options).await?;
    let (stop, told) = oneshot::channel::<()>();
    let service = node.service();
    let server = tokio::spawn(serve_node(listener, service, async { drop(told.await) }));
    println!("node {address} serves counters");
    let who = address.clone();
    drop(tokio::spawn(follow_notices(node.notices(), move |told| println!("node {who} {told}"))));

    serve_until(terminated(), node.state()).await?;
    // Every shard is handed over before the node goes. Nobody's call fails of that.
    let ended = node.drain().await;
    anyhow::ensure!(ended == NodeState::Left, "node {address} has not handed everything over");
    println!("node {address} has handed everything over");
    tokio::time::sleep(LINGER).await;
    drop(stop);
    Ok(server.await??)
}
