//! Oracles of effects.

use shardwright_coordination::{
    CoordError, EventKind, RestoredShardState, ShardStatus, ShardSummary, StateTransitionEvent,
};

use super::{Observation, Oracle, Verdict, ensure};
use crate::model::{LoggedOp, Model, RunModel, ShardModel};
use crate::request::operation::UnparkShard;
use crate::request::{Reply, Request, RequestExt, last_key, spawned};
use crate::visible;

pub(super) const REPLAY: Oracle = Oracle::before(
    "one effect per op id",
    "an operation in the op log is answered again and changes nothing, its id is refused for any \
     other operation, and no other operation is answered as a replay",
    judge_replay,
);

pub(super) const INERT: Oracle = Oracle::before(
    "refusals are inert",
    "refusals and queries change nothing visible and publish no event, except that an acquire or a \
     claim may park a shard that failed too often",
    judge_inert,
);

pub(super) const TERMINAL: Oracle = Oracle::before(
    "terminal stays terminal",
    "a done or split shard never changes, a parked one changes only by unparking, and the status \
     of an ended run never changes",
    judge_terminal,
);

/// Refusals are inert, so the states are compared only after an effect.
pub(super) const AGREEMENT: Oracle = Oracle::after(
    "agreement",
    "the visible state is the state that a second model computes from the accepted operations",
    judge_agreement,
);

fn judge_replay(seen: &Observation<'_>, model: &Model) -> Verdict {
    let name = seen.request.label();
    let replayed = seen.outcome.as_ref().is_ok_and(Reply::is_replay);
    if replayed {
        let inert = visible::same(seen.before, seen.after) && seen.events.is_empty();
        ensure(inert, || format!("the replay of a {name} changed something"))?;
    }
    if seen.request.lease().is_some_and(|lease| lease.tenant() != seen.tenant) {
        return Ok(());
    }
    // The configuration of a run is checked before its op log.
    if let (Request::CreateRunWithShards(_), Err(CoordError::ConfigMismatch(_))) =
        (seen.request, seen.outcome)
    {
        return Ok(());
    }
    match remembered(seen, model) {
        None => ensure(!replayed, || format!("a new {name} was answered as a replay")),
        Some(earlier) if earlier.meaning == seen.request.meaning() => {
            ensure(replayed, || format!("a retry of a {name} was not answered as one"))?;
            match seen.outcome.as_ref().ok().and_then(spawned) {
                Some(shards) => ensure(shards == earlier.spawned, || {
                    format!("{:?} at first, then {shards:?}", earlier.spawned)
                }),
                None => Ok(()),
            }
        }
        Some(_) => {
            let is_conflict = matches!(seen.outcome, Err(CoordError::OpIdConflict(_)));
            ensure(is_conflict, || format!("an op id was used twice for a {name}"))
        }
    }
}

/// The entry of the request's operation id in the op log of its record.
pub(super) fn remembered<'m>(seen: &Observation<'_>, model: &'m Model) -> Option<&'m LoggedOp> {
    let op = seen.request.op_id()?;
    match seen.request {
        Request::SplitResidual(_) => {
            let shard = seen.shard(model)?;
            shard.ops.get(op).or_else(|| shard.residuals.get(&op))
        }
        request if request.shard().is_some() => seen.shard(model)?.ops.get(op),
        _ => seen.run(model)?.ops.get(op),
    }
}

fn judge_inert(seen: &Observation<'_>, _: &Model) -> Verdict {
    if seen.outcome.is_ok() && !seen.request.is_query() {
        return Ok(());
    }
    let may_park = matches!(
        (seen.request, seen.outcome),
        (Request::Claim(_), _) | (Request::Acquire(_), Err(CoordError::RetriesExhausted(_)))
    );
    let parks = |event: &StateTransitionEvent| matches!(event.kind, EventKind::ShardParked { .. });
    if may_park && !seen.events.is_empty() && seen.events.iter().all(parks) {
        return Ok(());
    }
    let name = seen.request.label();
    ensure(seen.events.is_empty(), || format!("a refused {name} emitted {:?}", seen.events))?;
    ensure(visible::same(seen.before, seen.after), || format!("a refused {name} changed something"))
}

fn judge_terminal(seen: &Observation<'_>, _: &Model) -> Verdict {
    let (Some(before), Some(after)) = (seen.before, seen.after) else { return Ok(()) };
    let (was, is) = (before.record.status, after.record.status);
    ensure(!was.is_terminal() || was == is, || format!("a run went from {was:?} to {is:?}"))?;
    if seen.executed().is_none() {
        return Ok(());
    }
    for was in before.shards.iter().filter(|shard| shard.status.is_terminal()) {
        let unparked = was.status == ShardStatus::Parked
            && matches!(
                seen.request,
                Request::UnparkShard(UnparkShard { key, .. }) if key.shard == was.shard
            );
        if unparked {
            continue;
        }
        let is = after.shards.iter().find(|shard| shard.shard == was.shard);
        ensure(is == Some(was), || format!("a terminal shard changed: {was:?}, then {is:?}"))?;
    }
    Ok(())
}

fn judge_agreement(seen: &Observation<'_>, model: &Model) -> Verdict {
    if seen.executed().is_none() && seen.events.is_empty() {
        return Ok(());
    }
    let (run, view) = match (seen.run(model), seen.after) {
        (Some(run), Some(view)) => (run, view),
        (None, None) => return Ok(()),
        (run, view) => {
            return Err(format!("run expected: {}, visible: {}", run.is_some(), view.is_some()));
        }
    };
    let record = &view.record;
    ensure(
        (record.status, record.paused, record.config) == (run.status, run.paused, run.config),
        || format!("the run is {record:?}, expected {:?}, paused {}", run.status, run.paused),
    )?;
    let times = (record.created_at, record.completed_at);
    ensure(times == (run.created_at, run.completed_at), || {
        format!("the run was created and ended at {times:?}, expected {:?}", run.completed_at)
    })?;
    if let Ok(Reply::Granted(granted)) = seen.outcome {
        restored(run, granted)?;
    }
    ensure(view.shards.len() == run.shards.len(), || {
        format!("{} shards are visible, expected {}", view.shards.len(), run.shards.len())
    })?;
    for summary in &view.shards {
        let Some(shard) = run.shards.get(&summary.shard) else {
            return Err(format!("no request made {summary:?}"));
        };
        ensure(agrees(summary, shard), || format!("saw {summary:?}, expected {shard:?}"))?;
    }
    Ok(())
}

fn agrees(summary: &ShardSummary, shard: &ShardModel) -> bool {
    summary.status == shard.status
        && summary.park_reason == shard.park_reason
        && summary.park_detail.as_deref() == shard.park_detail.as_deref()
        && summary.lease_deadline == shard.lease.map(|(_, deadline)| deadline)
        && summary.acquire_count == shard.acquires
        && summary.last_key.as_deref() == last_key(&shard.cursor)
        && *summary.start == *shard.spec.as_ref().start()
        && *summary.end == *shard.spec.as_ref().end()
        && summary.parent == shard.parent
        && summary.spawned_count as usize == shard.spawned.len()
}

/// A new holder gets the last accepted cursor with its token.
fn restored(run: &RunModel, granted: &RestoredShardState) -> Verdict {
    let Some(shard) = run.shards.get(&granted.lease.key().shard) else { return Ok(()) };
    let spawned = granted.spawned.iter().map(|spawned| spawned.shard);
    let same = granted.spec.as_spec_ref() == shard.spec.as_ref()
        && granted.cursor.as_update() == shard.cursor.as_ref()
        && spawned.eq(shard.spawned.iter().copied())
        && granted.parent == shard.parent
        && granted.acquires == shard.acquires
        && granted.acquires_without_progress == shard.without_progress
        && granted.cursor_semantics == run.config.cursor_semantics;
    ensure(same, || format!("{granted:?} was restored, expected {shard:?}"))
}
