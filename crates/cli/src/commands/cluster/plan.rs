use shardwright_placement::{Move, MoveReason, NodeAddress};

use crate::cluster::AnyCluster;
use crate::commands::print_json;
use crate::exit::Exit;
use crate::say::say;

/// Nodes say what their shards bear to the leader, and to nobody else.
const WITHOUT_LOADS: &str =
    "what shards bear is not known here: where nodes balance by load, the leader decides by that";

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
        say!("{one}");
    }
    for note in &plan.notes {
        say!("{note}");
    }
    if plan.moves.is_empty() {
        say!("nothing is to be moved");
    } else {
        let can_wait =
            |one: &&Move| one.reason.is_voluntary() || one.reason == MoveReason::FirstPlacement;
        let waiting = plan.moves.iter().filter(can_wait).count();
        let at_once = plan.moves.len() - waiting;
        if at_once > 0 {
            say!("{at_once} shards are to be moved at once");
        }
        if waiting > 0 {
            say!("{waiting} shards are to be moved once the nodes have been the same for a while");
        }
    }
    say!("{WITHOUT_LOADS}");
    Ok(Exit::Done)
}
