use anyhow::Context as _;
use shardwright_placement::{DrainProgress, NodeAddress};

use crate::cluster::AnyCluster;
use crate::commands::print_json;
use crate::exit::Exit;
use crate::say::say;

pub(crate) async fn run(
    cluster: &AnyCluster,
    json: bool,
    node: &NodeAddress,
    drained: bool,
    wait: bool,
) -> anyhow::Result<Exit> {
    let is_member = cluster.view().members.get(node.as_str()).is_some();
    let is_new = cluster.set_drained(node, drained).await?;
    let mut changes = cluster.changes();
    let progress = loop {
        let view = changes.borrow_and_update().clone();
        let progress = DrainProgress::of(&view.map, node, &view.members);
        if !wait || progress.is_done() {
            break progress;
        }
        changes.changed().await.context("the cluster cannot be followed any more")?;
    };
    if json {
        print_json(&serde_json::json!({
            "node": node.as_str(), "drained": drained, "new": is_new, "member": is_member,
            "held": progress.held, "targeted": progress.targeted, "pinned": progress.pinned,
        }))?;
        return Ok(Exit::Done);
    }
    match (drained, is_new) {
        (true, true) => say!("{node} is to be emptied; `cluster drain --undo` takes that back"),
        (true, false) => say!("{node} is to be emptied already"),
        (false, true) => say!("{node} may have shards again"),
        (false, false) => say!("{node} was not to be emptied"),
    }
    if !is_member {
        say!("it is no member now; it gets no shards when it comes");
    } else if drained && progress.is_done() {
        say!("it has nothing left");
    } else if drained {
        say!("it still has {} shards", progress.held);
    }
    Ok(Exit::Done)
}
