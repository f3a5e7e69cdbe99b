use shardwright_coordination::{EventKind, ParkReason, RunStatus};

use super::{Observation, Oracle, Verdict, ensure};
use crate::model::{Model, RunModel, ShardModel};
use crate::request::Request;

pub(super) const ORACLE: Oracle = Oracle::before(
    "parking",
    "a shard that somebody tries to have parks itself only after as many attempts without progress \
     as its run allows, for that reason, and in a run that hands out shards",
    judge,
);

/// Apart from the other, because it takes the moment at which the shard was parked. Where only the
/// latest is known at which it may have been, that one counts.
pub(super) const UNHELD: Oracle = Oracle::before(
    "parking and leases",
    "a shard that somebody holds is not parked by another's attempt to have it",
    judge_holder,
);

/// The shards that an attempt to have one parked on its way, and why.
fn parked<'m>(
    seen: &Observation<'_>,
    model: &'m Model,
) -> Vec<(&'m RunModel, &'m ShardModel, ParkReason)> {
    let (Request::Acquire { .. } | Request::Claim { .. }, Some(run)) =
        (seen.request, seen.run(model))
    else {
        return Vec::new();
    };
    let parked = seen.events.iter().filter_map(|event| match event.kind {
        EventKind::ShardParked { shard, reason } => {
            run.shards.get(&shard).map(|shard| (run, shard, reason))
        }
        _ => None,
    });
    parked.collect()
}

fn judge(seen: &Observation<'_>, model: &Model) -> Verdict {
    for (run, shard, reason) in parked(seen, model) {
        let max = run.config.max_shard_retries;
        ensure(max.is_some_and(|max| shard.fruitless >= max.get()), || {
            format!("parked after {} attempts, {max:?} are allowed", shard.fruitless)
        })?;
        ensure(reason == ParkReason::TooManyErrors, || format!("parked for {reason:?}"))?;
        ensure(run.status == RunStatus::Active && !run.paused, || {
            format!("parked in a run that is {:?}, paused: {}", run.status, run.paused)
        })?;
    }
    Ok(())
}

fn judge_holder(seen: &Observation<'_>, model: &Model) -> Verdict {
    for (_, shard, _) in parked(seen, model) {
        ensure(shard.is_available_after(seen.now, model.skew_ms), || {
            format!("parked while {:?} and held until {:?}", shard.status, shard.lease)
        })?;
    }
    Ok(())
}
