use std::time::Duration;

use anyhow::Context as _;
use shardwright_cluster::ClusterView;
use shardwright_placement::{DrainProgress, NodeAddress};

use crate::cluster::AnyCluster;
use crate::commands::print_json;
use crate::console::outln;
use crate::exit::Exit;

/// How long to wait until a node has no shards left.
pub(crate) enum Wait {
    None,
    AtMost(Duration),
    UntilDone,
}

/// Exits with [`Exit::Findings`] if the wait ended before the node was empty.
pub(crate) async fn run(
    cluster: &AnyCluster,
    json: bool,
    node: &NodeAddress,
    drained: bool,
    wait: Wait,
) -> anyhow::Result<Exit> {
    let is_member = cluster.view().members.get(node.as_str()).is_some();
    let is_new = cluster.set_drained(node, drained).await?;
    if !json {
        print_change(node, drained, is_new);
    }
    let waited = matches!(wait, Wait::AtMost(_) | Wait::UntilDone);
    if waited && !json && !progress(node, &cluster.view()).is_done() {
        // The wait may be endless, so the reason for it comes first.
        print_progress(node, &cluster.view());
    }
    match wait {
        Wait::None => {}
        Wait::UntilDone => until_done(cluster, node).await?,
        Wait::AtMost(time) => {
            // The result is checked below.
            let in_time = tokio::time::timeout(time, until_done(cluster, node)).await;
            in_time.unwrap_or(Ok(()))?;
        }
    }
    let view = cluster.view();
    let left = progress(node, &view);
    if json {
        print_json(&serde_json::json!({
            "node": node.as_str(), "drained": drained, "new": is_new, "member": is_member,
            "held": left.held, "targeted": left.targeted, "pinned": left.pinned,
        }))?;
    } else if drained && !is_member {
        outln!("the node is not a member now; it gets no shards when it joins");
    } else if drained && waited && !left.is_done() {
        outln!("timed out: the node still holds {} shards", left.held);
    } else if drained {
        print_progress(node, &view);
    }
    Ok(if waited && !left.is_done() { Exit::Findings } else { Exit::Done })
}

fn print_change(node: &NodeAddress, drained: bool, is_new: bool) {
    match (drained, is_new) {
        (true, true) => outln!("draining {node}; `cluster drain {node} --undo` ends the drain"),
        (true, false) => outln!("{node} is already being drained"),
        (false, true) => outln!("{node} may get shards again"),
        (false, false) => outln!("{node} is not being drained"),
    }
}

fn progress(node: &NodeAddress, view: &ClusterView) -> DrainProgress {
    DrainProgress::of(&view.map, node, &view.members)
}

/// Prints the shards that a node still has, and why they stay.
fn print_progress(node: &NodeAddress, view: &ClusterView) {
    let left = progress(node, view);
    let DrainProgress { held, targeted, pinned } = left;
    if left.is_done() {
        outln!("the node has no shards left");
        return;
    }
    outln!("the node holds {held} shards and is the target of {targeted}");
    if pinned > 0 {
        outln!("{pinned} of them are pinned to it; with `--pin-policy wait` they stay");
    }
    let can_serve = |other: &NodeAddress| other != node && !view.drained.contains(other);
    if !view.members.iter().any(|other| !other.draining && can_serve(other.address())) {
        outln!("no other node can serve them; start a node, or end the drain of another");
    }
}

async fn until_done(cluster: &AnyCluster, node: &NodeAddress) -> anyhow::Result<()> {
    let mut changes = cluster.changes();
    let done = changes.wait_for(|view| progress(node, view).is_done());
    done.await.map(|_| ()).context("lost the watch on the cluster")
}
