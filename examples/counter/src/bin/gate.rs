//! A gate: accepts the calls of clients over gRPC and HTTP. Start any number of them.
//!
//! `curl -d 5 http://ADDRESS/call/Counter/visits/add` adds 5 to the counter `visits`.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a program reports to its terminal")]

use std::sync::Arc;

use clap::Parser as _;
use shardwright_counter::{ServerArguments, follow_notices};
use shardwright_node::limits::ListenLimits;
use shardwright_node::world::{GrpcTransport, Ingress, serve_gate, serve_http, terminated};
use shardwright_node::{Gate, GateOptions};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// A gate of a sharded counter service.
#[derive(clap::Parser)]
struct Arguments {
    #[command(flatten)]
    server: ServerArguments,
    /// Listen for HTTP calls on HOST:PORT. Port 0 selects a free port.
    #[arg(long, default_value = "127.0.0.1:0")]
    http: String,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let store = arguments.server.connect().await?;
    let (grpc, address) = arguments.server.listen().await?;
    let http = TcpListener::bind(&arguments.http).await?;
    let cluster = arguments.server.open_existing(store).await?;
    let transport = Arc::new(GrpcTransport::default());
    let gate = Gate::open(cluster, address.clone(), transport, GateOptions::default()).await?;
    println!("gate {address} takes calls, over HTTP at {}", http.local_addr()?);
    drop(tokio::spawn(follow_notices(gate.notices(), move |notice| {
        println!("gate {address} {notice}")
    })));

    let (stop, stopped) = watch::channel(());
    let until = |mut stopped: watch::Receiver<()>| async move { drop(stopped.changed().await) };
    // Both listeners share the limits.
    let ingress = Ingress::new(ListenLimits::GATE);
    let (hosts, service, shared) = (Vec::new(), gate.service(), Arc::clone(&ingress));
    let http = tokio::spawn(serve_http(http, service, hosts, shared, until(stopped.clone())));
    let grpc = tokio::spawn(serve_gate(grpc, gate.service(), ingress, until(stopped)));
    terminated().await?;
    gate.close();
    // Calls in flight are answered before the servers end.
    drop(stop);
    http.await?;
    Ok(grpc.await?)
}
