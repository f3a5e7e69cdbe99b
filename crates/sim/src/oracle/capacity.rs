use shardwright_contracts::LogicalTime;
use shardwright_coordination::{CapacityHint, CoordError, RunStatus};

use super::{Observation, Oracle, Verdict, ensure};
use crate::model::{Model, RunModel, ShardModel};
use crate::request::Request;
use crate::system::Answer;

/// A caller's clock may be set back behind what the system has seen; then a hint may be as late
/// as the latest clock, and no later.
pub(super) const ORACLE: Oracle = Oracle::after(
    "capacity hints",
    "what workers are told is free, waiting or about to end is what a recount finds, and nobody \
     is told that there is nothing while there is something",
    judge,
);

fn judge(seen: &Observation<'_>, model: &Model) -> Verdict {
    let (Some(run), Some(tenant)) = (seen.run(model), model.tenants.get(&seen.tenant)) else {
        return Ok(());
    };
    match seen.outcome {
        Ok(Answer::Granted(granted)) => hint(run, tenant.workers, seen.now, &granted.capacity),
        Ok(Answer::Renewed(renewed)) => hint(run, tenant.workers, seen.now, &renewed.capacity),
        Ok(Answer::Candidates { shards, outlook }) => {
            let Request::Candidates { limit, .. } = seen.request else { return Ok(()) };
            let good = shards.iter().all(|shard| {
                run.shards.get(shard).is_some_and(|shard| shard.is_available(run.latest))
            });
            ensure(good, || format!("{shards:?} are not all to be had"))?;
            if run.paused || run.status != RunStatus::Active {
                let silent = shards.is_empty() && outlook.earliest_deadline.is_none();
                return ensure(silent, || format!("{shards:?}, {outlook:?} told of a closed run"));
            }
            ends_first(run, seen.now, outlook.earliest_deadline)?;
            let least = (run.available(seen.now) as usize).min(*limit);
            ensure(shards.len() >= least, || format!("{} of {least} offered", shards.len()))
        }
        Err(CoordError::NoneAvailable(told)) => {
            ends_first(run, seen.now, told.earliest_deadline)?;
            // A shard whose fence cannot rise is free and of no use to anybody.
            let is_to_be_had =
                |shard: &&ShardModel| shard.is_available(seen.now) && shard.fence < u64::MAX;
            let free = run.shards.values().filter(is_to_be_had).count();
            ensure(free == 0, || format!("nothing to claim, though {free} shards are free"))
        }
        _ => Ok(()),
    }
}

fn hint(run: &RunModel, workers: u32, now: LogicalTime, told: &CapacityHint) -> Verdict {
    let free = run.available(now)..=run.available(run.latest);
    ensure(free.contains(&told.available_count), || {
        format!("{} told to be free, a recount finds {free:?}", told.available_count)
    })?;
    let waiting = |time| run.waiting.values().filter(|until| time < **until).count() as u32;
    let counted = waiting(run.latest)..=waiting(now);
    ensure(told.waiting_workers <= workers && counted.contains(&told.waiting_workers), || {
        format!("{} told to wait, a recount finds {counted:?}", told.waiting_workers)
    })?;
    ends_first(run, now, told.earliest_deadline)
}

/// Whether what was told is the end of the first lease to end.
fn ends_first(run: &RunModel, now: LogicalTime, told: Option<LogicalTime>) -> Verdict {
    let deadlines = || run.shards.values().filter_map(|shard| shard.lease).map(|(_, end)| end);
    let expected = deadlines().filter(|end| now < *end).min();
    let fits = match told {
        told if now >= run.latest => told == expected,
        Some(told) => deadlines().any(|end| end == told),
        None => true,
    };
    ensure(fits, || format!("{told:?} told to end first, not {expected:?}"))
}
