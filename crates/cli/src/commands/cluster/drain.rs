use std::time::Duration;

use anyhow::Context as _;
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
    let waited = matches!(patience, Patience::AtMost(_) | Patience::Endless);
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
    let progress = DrainProgress::of(&view.map, node, &view.members);
    let exit = if waited && !progress.is_done() { Exit::Findings } else { Exit::Done };
    if json {
        print_json(&serde_json::json!({
            "node": node.as_str(), "drained": drained, "new": is_new, "member": is_member,
            "held": progress.held, "targeted": progress.targeted, "pinned": progress.pinned,
        }))?;
        return Ok(exit);
    }
    match (drained, is_new) {
        (true, true) => say!("{node} is to be emptied; `cluster drain --undo` takes that back"),
        (true, false) => say!("{node} is to be emptied already"),
        (false, true) => say!("{node} may have shards again"),
        (false, false) => say!("{node} was not to be emptied"),
    }
    if drained && !is_member {
        say!("it is no member now; it gets no shards when it comes");
    } else if drained && progress.is_done() {
        say!("it has nothing left");
    } else if drained {
        say!("it still has {} shards", progress.held);
    }
    Ok(exit)
}

async fn until_done(cluster: &AnyCluster, node: &NodeAddress) -> anyhow::Result<()> {
    let mut changes = cluster.changes();
    let done = changes.wait_for(|view| DrainProgress::of(&view.map, node, &view.members).is_done());
    done.await.map(|_| ()).context("the cluster cannot be followed any more")
}
