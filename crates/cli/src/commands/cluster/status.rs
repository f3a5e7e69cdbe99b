use shardwright_cluster::{ClusterStatus, ClusterView, NodeStatus};
use shardwright_placement::{NodeAddress, NodeInstance, ShardInfo};

use crate::cluster::AnyCluster;
use crate::commands::print_json;
use crate::console::outln;
use crate::exit::Exit;

/// The number of unsettled shards in the text output. JSON lists all.
const LISTED: usize = 20;

pub(crate) fn run(cluster: &AnyCluster, json: bool) -> anyhow::Result<Exit> {
    let (status, view) = (cluster.status(), cluster.view());
    if json {
        print_json(&as_json(cluster, &status, &view))?;
        return Ok(Exit::Done);
    }
    let header = status.header;
    let frozen = if header.frozen { ", frozen" } else { "" };
    let spreading = if header.spreading { ", rebalancing" } else { "" };
    outln!(
        "cluster  {}: {} shards by {}, target version {}{frozen}{spreading}",
        cluster.options().name.as_str(),
        status.sharding.num_shards,
        status.sharding.hash.name(),
        header.version.as_raw()
    );
    match &status.leader {
        Some(leader) => outln!("leader   {}", leader.address),
        None => outln!("leader   none"),
    }
    for node in &status.nodes {
        let NodeStatus { member, shards } = node;
        let draining = if member.draining { ", draining" } else { "" };
        outln!(
            "node     {}: holds {} shards, target of {} ({} pinned), weight {}{draining}",
            member.address(),
            shards.held,
            shards.targeted,
            shards.pinned,
            member.weight
        );
    }
    for gate in &status.gates {
        outln!("gate     {gate}");
    }
    for node in status.drained.iter().filter(|node| view.members.get(node.as_str()).is_none()) {
        outln!("drained  {node} (not a member)");
    }
    outln!("shards   {}", status.readiness);
    let unsettled_shards = view.map.iter().filter(|info| !info.is_settled(&view.members));
    for info in unsettled_shards.take(LISTED) {
        outln!("         shard {}: {}", info.shard.as_raw(), unsettled(&info, &view));
    }
    for quarantined in &status.quarantine {
        outln!("unreadable  {quarantined}");
    }
    Ok(Exit::Done)
}

fn unsettled(info: &ShardInfo<'_>, view: &ClusterView) -> String {
    let target = info.target.map_or("no node", NodeAddress::as_str);
    match info.current {
        Some(current) if !view.members.is_live(current) => {
            format!("unclaimed, its node {} is gone; target {target}", current.address)
        }
        Some(current) => format!("moving from {} to {target}", current.address),
        None => format!("unclaimed; target {target}"),
    }
}

fn as_json(cluster: &AnyCluster, status: &ClusterStatus, view: &ClusterView) -> serde_json::Value {
    let node = |node: &NodeStatus| {
        let NodeStatus { member, shards } = node;
        serde_json::json!({
            "address": member.address().as_str(), "weight": member.weight.get(),
            "draining": member.draining, "held": shards.held, "targeted": shards.targeted,
            "pinned": shards.pinned,
        })
    };
    let shard = |info: ShardInfo<'_>| {
        serde_json::json!({
            "shard": info.shard.as_raw(), "target": info.target.map(NodeAddress::as_str),
            "current": info.current.map(|current| current.address.as_str()),
            "current_is_member": info.owner(&view.members).is_some(),
        })
    };
    let strings = |all: &[NodeAddress]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
    let unsettled = view.map.iter().filter(|info| !info.is_settled(&view.members));
    serde_json::json!({
        "cluster": cluster.options().name.as_str(),
        "shards": status.sharding.num_shards.get(), "hash": status.sharding.hash.name(),
        "version": status.header.version.as_raw(), "frozen": status.header.frozen,
        "rebalancing": status.header.spreading, "revision": status.revision.get(),
        "leader": status.leader.as_ref().map(|NodeInstance { address, .. }| address.as_str()),
        "nodes": status.nodes.iter().map(node).collect::<Vec<_>>(),
        "gates": strings(&status.gates), "drained": strings(&status.drained),
        "ready": status.readiness.is_ready(), "without_target": status.readiness.without_target,
        "unclaimed": status.readiness.unclaimed, "elsewhere": status.readiness.elsewhere,
        "unsettled": unsettled.map(shard).collect::<Vec<_>>(),
        "quarantine": status.quarantine.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}
