//! `shardwright gate`: the door for clients.

use std::sync::Arc;

use shardwright_node::world::{GrpcTransport, serve_gate, serve_http};
use shardwright_node::{Gate, GateOptions};
use tokio::sync::watch;

use crate::arguments::cluster::GateArguments;
use crate::cluster::open;
use crate::exit::Exit;
use crate::serve::{Signals, bind, end_with_parent, follow_notices, listen, tell};
use crate::store::{OpenMode, StoreAddress};

pub(crate) async fn run(
    store: &StoreAddress,
    json: bool,
    arguments: &GateArguments,
) -> anyhow::Result<Exit> {
    if arguments.attached {
        end_with_parent();
    }
    let cluster = open(store, &arguments.cluster, OpenMode::Write).await?;
    let name = arguments.cluster.name.as_str();
    let (grpc, address) = listen(&arguments.listen, arguments.address.as_ref()).await?;
    let http = bind(&arguments.http).await?;
    let web = http.local_addr()?.to_string();
    let mut signals = Signals::new()?;
    let transport = Arc::new(GrpcTransport::default());
    let gate = Gate::open(cluster, address.clone(), transport, GateOptions::default()).await?;
    drop(tokio::spawn(follow_notices(gate.notices(), json, format!("gate {address}"))));
    let (stop, told) = watch::channel(());
    let until = |mut told: watch::Receiver<()>| async move { drop(told.changed().await) };
    let mut http = tokio::spawn(serve_http(http, gate.service(), until(told.clone())));
    let mut grpc = tokio::spawn(serve_gate(grpc, gate.service(), until(told)));
    let line = format!("gate {address} takes calls for {name}, and over HTTP at {web}");
    let fields = [("address", address.as_str()), ("http", web.as_str()), ("cluster", name)];
    tell(json, "open", &line, &fields)?;

    tokio::select! {
        biased;
        () = signals.next() => {}
        ended = &mut http => return Ok(ended?.map(|()| Exit::Done)?),
        ended = &mut grpc => return Ok(ended?.map(|()| Exit::Done)?),
    }
    gate.close();
    // Whoever is being answered gets the answer.
    drop(stop);
    let ended = signals.end(async {
        http.await??;
        Ok(grpc.await??)
    });
    ended.await
}
