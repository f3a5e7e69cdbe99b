use shardwright_coordination::CoordError;

use super::{Observation, Oracle, Verdict, ensure};
use crate::model::{Model, Remembered};
use crate::request::{HolderAct, Request};
use crate::system::Answer;
use crate::visible;

pub(super) const ORACLE: Oracle = Oracle::before(
    "one effect per op id",
    "a remembered operation gets its answer again and changes nothing, its id is refused for \
     anything else, and nothing else is taken for a replay",
    judge,
);

fn judge(seen: &Observation<'_>, model: &Model) -> Verdict {
    let replayed = seen.outcome.as_ref().is_ok_and(Answer::is_replay);
    if replayed {
        let inert = visible::same(seen.before, seen.after) && seen.events.is_empty();
        ensure(inert, || format!("the replay of a {} changed something", seen.request.name()))?;
    }
    if let Request::Holder { lease, .. } = seen.request
        && lease.tenant() != seen.tenant
    {
        return Ok(());
    }
    // Whether a run can be made is looked at before what was done to it.
    if let (Request::CreateWithShards { .. }, Err(CoordError::ConfigMismatch(_))) =
        (seen.request, seen.outcome)
    {
        return Ok(());
    }
    match remembered(seen, model) {
        None => ensure(!replayed, || format!("a new {} was called a replay", seen.request.name())),
        Some(earlier) if earlier.meaning == seen.request.meaning() => {
            ensure(replayed, || format!("a retry of a {} was not one", seen.request.name()))?;
            match seen.outcome {
                Ok(Answer::Spawned { shards, .. }) => ensure(*shards == earlier.spawned, || {
                    format!("{:?} at first, then {shards:?}", earlier.spawned)
                }),
                _ => Ok(()),
            }
        }
        Some(_) => {
            let told = matches!(seen.outcome, Err(CoordError::OpIdConflict(_)));
            ensure(told, || format!("an op id was used twice for a {}", seen.request.name()))
        }
    }
}

/// What the record that remembers the request's operation id knows of it.
pub(super) fn remembered<'m>(seen: &Observation<'_>, model: &'m Model) -> Option<&'m Remembered> {
    let op = seen.request.op()?;
    match seen.request {
        Request::Holder { act: HolderAct::SplitResidual { .. }, .. } => {
            let shard = seen.shard(model)?;
            shard.ops.get(op).or_else(|| shard.residuals.get(&op))
        }
        Request::Holder { .. } | Request::Unpark { .. } => seen.shard(model)?.ops.get(op),
        _ => seen.run(model)?.ops.get(op),
    }
}
