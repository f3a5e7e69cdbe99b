//! `shardwright node`: a node that serves counter objects.

use std::sync::Arc;
use std::time::Duration;

use shardwright_cluster::ClusterView;
use shardwright_engine::watch;
use shardwright_node::limits::{HeldLimits, ListenLimits};
use shardwright_node::world::{GrpcTransport, serve_node};
use shardwright_node::{HostOptions, Node, NodeOptions, NodeState, StartingService};
use shardwright_placement::{Member, NodeAddress, ShardInfo};
use tokio::sync::oneshot;

use crate::arguments::cluster::NodeArguments;
use crate::cluster::{AnyCluster, Missing, counters, open};
use crate::exit::Exit;
use crate::serve::{Signals, end_with_parent, follow_notices, ingress, listen, write_event};
use crate::store::StoreAddress;

/// How long a node that has handed over its shards still redirects callers.
const LINGER: Duration = Duration::from_secs(1);

const FAILED: &str = "the node has failed; other nodes get its shards when its session expires";
const DELETED: &str = "the cluster was deleted, so the node has ended";
const GONE: &str = "the node lost its membership before it handed over all shards; other nodes get \
                    them when its session expires";

pub(crate) async fn run(
    store: &StoreAddress,
    json: bool,
    arguments: &NodeArguments,
) -> anyhow::Result<Exit> {
    if arguments.attached {
        end_with_parent();
    }
    let name = arguments.cluster.name.as_str();
    let network = &arguments.network;
    // A node that cannot listen must not create a cluster.
    let own = arguments.address.as_ref();
    let (listener, address) = listen(&arguments.listen, own, network).await?;
    // The start may wait. Until then a gate gets a refusal, and retries.
    let service = StartingService::of_node();
    let (stop, stopped) = oneshot::channel::<()>();
    let ingress = ingress(network, ListenLimits::NODE);
    let stopped = async { drop(stopped.await) };
    let mut server = tokio::spawn(serve_node(listener, service.clone(), ingress, stopped));
    let cluster = open(store, &arguments.cluster, Missing::Create).await?;
    let counters = counters(&cluster);
    let mut signals = Signals::new()?;
    let idle_max = Some(Duration::from_millis(arguments.idle_ms)).filter(|max| !max.is_zero());
    let objects_max = arguments.objects_max;
    let options = NodeOptions {
        host: HostOptions { idle_max, objects_max, ..HostOptions::default() },
        weight: arguments.weight,
        balance_load: arguments.balance_load,
        held: network.held(HeldLimits::NODE),
        ..NodeOptions::default()
    };
    let transport = Arc::new(GrpcTransport::default());
    let followed = cluster.clone();
    let starting = Node::start(cluster, address.clone(), counters.types(), transport, options);
    let node = tokio::select! {
        biased;
        // The start may wait for the session of an earlier process with this address to expire.
        () = signals.next() => return Ok(Exit::Interrupted),
        started = starting => started?,
    };
    service.joined(node.service());
    let line = format!("node {address} has joined cluster {name} and serves counters");
    write_event(json, "serving", &line, &[("address", address.as_str()), ("cluster", name)])?;
    let following = tokio::spawn(follow(node.state(), followed, json, address.clone()));
    drop(tokio::spawn(follow_notices(node.notices(), json, format!("node {address}"))));
    let mut state = node.state();

    tokio::select! {
        biased;
        () = signals.next() => {}
        ended = &mut server => return Ok(ended.map(|()| Exit::Done)?),
        ended = state.wait_for(|state| failure(*state).is_some()) => {
            anyhow::bail!(ended.map_or(FAILED, |state| failure(*state).unwrap_or(FAILED)));
        }
    }
    let ended = signals.end(async {
        let state = node.drain().await;
        if let Some(failure) = failure(state) {
            anyhow::bail!(failure);
        }
        tokio::time::sleep(LINGER).await;
        drop(stop);
        server.await?;
        anyhow::ensure!(state == NodeState::Left, GONE);
        Ok(())
    });
    let exit = ended.await?;
    following.abort();
    Ok(exit)
}

/// The error of a node that ended by itself.
const fn failure(state: NodeState) -> Option<&'static str> {
    match state {
        NodeState::Failed => Some(FAILED),
        NodeState::Deleted => Some(DELETED),
        NodeState::Serving
        | NodeState::Draining
        | NodeState::Rejoining
        | NodeState::Left
        | NodeState::Gone => None,
    }
}

/// Writes an event for each change of the node's state.
async fn follow(
    mut state: watch::Receiver<NodeState>,
    cluster: AnyCluster,
    json: bool,
    address: NodeAddress,
) {
    while state.changed().await.is_ok() {
        let mut released = None;
        let (event, what) = match *state.borrow_and_update() {
            NodeState::Serving => ("serving", "has joined again"),
            NodeState::Draining => {
                ("draining", "hands over its shards; interrupt again to exit at once")
            }
            NodeState::Rejoining => ("rejoining", "has lost its membership and is joining again"),
            NodeState::Left => {
                released = unserved(&cluster.view(), &address).map(|count| count.to_string());
                ("left", "has handed over all shards")
            }
            NodeState::Gone => ("gone", "has lost its membership before it handed over all shards"),
            NodeState::Failed => ("failed", "has failed and no longer serves"),
            NodeState::Deleted => ("deleted", "has ended: its cluster was deleted"),
        };
        let mut fields = vec![("address", address.as_str())];
        let line = match &released {
            Some(count) => {
                fields.push(("released", count));
                format!("node {address} has released {count} shards; no other node can serve them")
            }
            None => format!("node {address} {what}"),
        };
        if write_event(json, event, &line, &fields).is_err() {
            return;
        }
    }
}

/// The number of unserved shards after a node has left, if no member can serve them.
fn unserved(view: &ClusterView, left: &NodeAddress) -> Option<usize> {
    let can_take = |member: &Member| !member.draining && member.address() != left;
    if view.members.iter().any(can_take) {
        return None;
    }
    let is_served =
        |info: &ShardInfo<'_>| info.owner(&view.members).is_some_and(|owner| owner.address != left);
    Some(view.map.iter().filter(|info| !is_served(info)).count()).filter(|count| *count > 0)
}
