use shardwright_placement::NodeAddress;

use crate::cluster::AnyCluster;
use crate::commands::print_json;
use crate::exit::Exit;
use crate::say::say;

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
        print_json(&serde_json::json!({ "moves": moves, "notes": notes }))?;
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
        say!(
            "{} shards are to be moved, once the nodes have been the same for a while",
            plan.moves.len()
        );
    }
    Ok(Exit::Done)
}
