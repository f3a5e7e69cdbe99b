use std::time::Duration;

use anyhow::Context as _;
use shardwright_cluster::ClusterView;
use shardwright_placement::{DrainProgress, NodeAddress};

use crate::cluster::AnyCluster;
use crate::commands::print_json;
use crate::exit::Exit;
use crate::say::say;

/// How long to wait until a node has nothing left.
pub(crate) enum Patience {
    None,
    AtMost(Duration),
    Endless,
}

/// Exits with [`Exit::Findings`] if the node was waited for, and still has something.
pub(crate) async fn run(
    cluster: &AnyCluster,
    json: bool,
    node: &NodeAddress,
    drained: bool,
    patience: Patience,
) -> anyhow::Result<Exit> {
    let is_member = cluster.view().members.get(node.as_str()).is_some();
    let is_new = cluster.set_drained(node, drained).await?;
    if !json {
        tell(node, drained, is_new);
    }
    let waited = matches!(patience, Patience::AtMost(_) | Patience::Endless);
    if waited && !json && !progress(node, &cluster.view()).is_done() {
        // It may take for ever, so whoever waits learns first what it waits for.
        tell_progress(node, &cluster.view());
    }
    match patience {
        Patience::None => {}
        Patience::Endless => until_done(cluster, node).await?,
        Patience::AtMost(time) => {
            // Whether it is done by then is looked at below.
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
        say!("it is no member now; it gets no shards when it comes");
    } else if drained && waited && !left.is_done() {
        say!("the time is over, and it still has {} shards", left.held);
    } else if drained {
        tell_progress(node, &view);
    }
    Ok(if waited && !left.is_done() { Exit::Findings } else { Exit::Done })
}

fn tell(node: &NodeAddress, drained: bool, is_new: bool) {
    match (drained, is_new) {
        (true, true) => say!("{node} is to be emptied; `cluster drain --undo` takes that back"),
        (true, false) => say!("{node} is to be emptied already"),
        (false, true) => say!("{node} may have shards again"),
        (false, false) => say!("{node} was not to be emptied"),
    }
}

fn progress(node: &NodeAddress, view: &ClusterView) -> DrainProgress {
    DrainProgress::of(&view.map, node, &view.members)
}

/// Says what a node still has, and what keeps it there.
fn tell_progress(node: &NodeAddress, view: &ClusterView) {
    let left = progress(node, view);
    let DrainProgress { held, targeted, pinned } = left;
    if left.is_done() {
        say!("it has nothing left");
        return;
    }
    say!("it still has {held} shards, and {targeted} are meant for it");
    if pinned > 0 {
        say!("{pinned} are pinned to it: where nodes have `--pin-policy wait`, they stay");
    }
    let can_take = |other: &NodeAddress| other != node && !view.drained.contains(other);
    if !view.members.iter().any(|other| !other.draining && can_take(other.address())) {
        say!("nobody can take them: there is no other node that is not to be emptied");
    }
}

async fn until_done(cluster: &AnyCluster, node: &NodeAddress) -> anyhow::Result<()> {
    let mut changes = cluster.changes();
    let done = changes.wait_for(|view| progress(node, view).is_done());
    done.await.map(|_| ()).context("the cluster cannot be followed any more")
}
