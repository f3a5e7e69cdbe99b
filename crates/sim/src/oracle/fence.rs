use shardwright_coordination::EventKind;

use super::{Observation, Oracle, Verdict, ensure};
use crate::model::Model;
use crate::system::Answer;

pub(super) const ORACLE: Oracle = Oracle::before(
    "fences rise",
    "a shard's every new owner gets a fence above all earlier ones and not below the floor, \
     and so does unparking",
    judge,
);

fn judge(seen: &Observation<'_>, model: &Model) -> Verdict {
    let Some(run) = seen.run(model) else { return Ok(()) };
    if let Ok(Answer::Granted(granted)) = seen.outcome
        && let Some(shard) = run.shards.get(&granted.lease.key().shard)
    {
        let fence = granted.lease.fence().as_raw();
        ensure(fence > shard.fence, || format!("fence {fence} granted after {}", shard.fence))?;
        above_floor(fence, model)?;
    }
    for event in seen.events {
        if let EventKind::ShardUnparked { shard, new_fence_epoch } = event.kind
            && let Some(shard) = run.shards.get(&shard)
        {
            let fence = new_fence_epoch.as_raw();
            ensure(fence > shard.fence, || format!("unparked at {fence} after {}", shard.fence))?;
            above_floor(fence, model)?;
        }
    }
    Ok(())
}

fn above_floor(fence: u64, model: &Model) -> Verdict {
    ensure(fence >= model.floor, || format!("fence {fence} granted, the floor is {}", model.floor))
}
