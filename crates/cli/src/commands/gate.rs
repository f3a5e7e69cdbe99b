//! `shardwright gate`: the entry point for clients.

use std::sync::Arc;

use anyhow::Context as _;
use shardwright_engine::TokioEnv;
use shardwright_node::limits::{HeldLimits, ListenLimits};
use shardwright_node::world::{GrpcTransport, serve_gate, serve_http};
use shardwright_node::{Gate, GateOptions, StartingService};
use tokio::sync::watch;

use crate::arguments::cluster::GateArguments;
use crate::cluster::{Missing, open};
use crate::exit::Exit;
use crate::serve::{Signals, bind, end_with_parent, follow_notices, ingress, listen, write_event};
use crate::store::StoreAddress;

pub(crate) async fn run(
    store: &StoreAddress,
    json: bool,
    arguments: &GateArguments,
) -> anyhow::Result<Exit> {
    if arguments.attached {
        end_with_parent();
    }
    let name = arguments.cluster.name.as_str();
    let network = &arguments.network;
    let (grpc, address) = listen(&arguments.listen, arguments.address.as_ref(), network).await?;
    let http = bind(&arguments.http, network).await?;
    let web = http.local_addr()?.to_string();
    let mut signals = Signals::new()?;
    // The gate may wait for its cluster. Meanwhile it is not ready and holds calls.
    let env = TokioEnv::current().context("no tokio runtime")?;
    let service = StartingService::of_gate(Arc::new(env), network.held(HeldLimits::GATE));
    let (stop, stopped) = watch::channel(());
    let until = |mut stopped: watch::Receiver<()>| async move { drop(stopped.changed().await) };
    let ingress = ingress(network, ListenLimits::GATE);
    let (hosts, shared) = (arguments.host.clone(), Arc::clone(&ingress));
    let http = serve_http(http, service.clone(), hosts, shared, until(stopped.clone()));
    let mut http = tokio::spawn(http);
    let mut grpc = tokio::spawn(serve_gate(grpc, service.clone(), ingress, until(stopped)));
    let cluster = tokio::select! {
        biased;
        () = signals.next() => return Ok(Exit::Interrupted),
        cluster = open(store, &arguments.cluster, Missing::Wait { json }) => cluster?,
    };
    let transport = Arc::new(GrpcTransport::default());
    let options = GateOptions { held: network.held(HeldLimits::GATE) };
    let gate = Gate::open(cluster, address.clone(), transport, options).await?;
    drop(tokio::spawn(follow_notices(gate.notices(), json, format!("gate {address}"))));
    service.joined(gate.service());
    let line = format!("gate {address} accepts calls for cluster {name}; HTTP: {web}");
    let fields = [("address", address.as_str()), ("http", web.as_str()), ("cluster", name)];
    write_event(json, "open", &line, &fields)?;

    tokio::select! {
        biased;
        () = signals.next() => {}
        ended = &mut http => return Ok(ended.map(|()| Exit::Done)?),
        ended = &mut grpc => return Ok(ended.map(|()| Exit::Done)?),
        () = gate.deleted() => anyhow::bail!("the cluster was deleted, so the gate has ended"),
    }
    gate.close();
    // Calls in progress are still answered.
    drop(stop);
    let ended = signals.end(async {
        http.await?;
        Ok(grpc.await?)
    });
    ended.await
}
