use shardwright_placement::{Move, MoveReason, NodeAddress};

use crate::cluster::AnyCluster;
use crate::commands::print_json;
use crate::console::outln;
use crate::exit::Exit;

/// Nodes report the load of their shards to the leader only.
const WITHOUT_LOADS: &str =
    "this plan ignores load: with --balance-load, only the leader knows the load of shards";

pub(crate) fn run(cluster: &AnyCluster, json: bool) -> anyhow::Result<Exit> {
    let plan = cluster.preview(None);
    if json {
        let moves: Vec<_> = plan
            .moves
            .iter()
            .map(|one| {
                serde_json::json!({
                    "shard": one.shard.as_raw(),
                    "from": one.from.as_ref().map(NodeAddress::as_str), "to": one.to.as_str(),
                    "voluntary": one.reason.is_voluntary(), "sentence": one.to_string(),
                })
            })
            .collect();
        let notes: Vec<String> = plan.notes.iter().map(ToString::to_string).collect();
        print_json(&serde_json::json!({ "moves": moves, "notes": notes, "loads_known": false }))?;
        return Ok(Exit::Done);
    }
    for one in &plan.moves {
        outln!("{one}");
    }
    for note in &plan.notes {
        outln!("{note}");
    }
    if plan.moves.is_empty() {
        outln!("no shards to move");
    } else {
        let can_wait =
            |one: &&Move| one.reason.is_voluntary() || one.reason == MoveReason::FirstPlacement;
        let waiting = plan.moves.iter().filter(can_wait).count();
        let at_once = plan.moves.len() - waiting;
        if at_once > 0 {
            outln!("{at_once} shards move at once");
        }
        if waiting > 0 {
            outln!("{waiting} shards move once the set of nodes is stable (--stability-ms)");
        }
    }
    outln!("{WITHOUT_LOADS}");
    Ok(Exit::Done)
}
