use shardwright_coordination::{ShardStatus, ShardSummary};

use super::{Observation, Oracle, Verdict, ensure};
use crate::model::Model;
use crate::system::Answer;

/// Recomputed from the listing: a leaf is a shard that its children have not replaced.
pub(super) const ORACLE: Oracle = Oracle::after(
    "tiling",
    "after every registration and split the leaves tile the manifest, with no gap and no overlap",
    judge,
);

fn judge(seen: &Observation<'_>, model: &Model) -> Verdict {
    let made_shards = match seen.executed() {
        Some(Answer::Spawned { .. }) => true,
        Some(Answer::Applied { .. }) => seen.request.manifest().is_some(),
        _ => false,
    };
    let (Some(run), Some(view), true) = (seen.run(model), seen.after, made_shards) else {
        return Ok(());
    };
    let mut leaves = view.shards.iter().filter(|shard| shard.status != ShardStatus::Split);
    for (start, end) in &run.manifest {
        tile(start, end, &mut leaves)?;
    }
    ensure(leaves.next().is_none(), || "a leaf lies outside the manifest".into())
}

/// Takes leaves in key order until they have covered one range of the manifest.
fn tile<'v>(
    start: &[u8],
    end: &[u8],
    leaves: &mut impl Iterator<Item = &'v ShardSummary>,
) -> Verdict {
    let mut reached = start;
    while reached < end {
        let Some(leaf) = leaves.next() else { return Err(format!("nothing covers {reached:?}")) };
        ensure(*leaf.start == *reached && *leaf.end > *reached, || {
            format!("{:?}..{:?} follows what ends at {reached:?}", leaf.start, leaf.end)
        })?;
        reached = &leaf.end;
    }
    ensure(reached == end, || format!("a leaf ends at {reached:?}, the manifest at {end:?}"))
}
