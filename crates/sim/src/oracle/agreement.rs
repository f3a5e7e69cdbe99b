use shardwright_coordination::ShardSummary;

use super::{Observation, Oracle, Verdict, ensure};
use crate::model::{Model, RunModel, ShardModel};
use crate::system::{Answer, Granted};

/// What is refused is inert, so it is enough to compare after something took effect.
pub(super) const ORACLE: Oracle = Oracle::after(
    "agreement",
    "what is visible is what the accepted operations make of it, worked out a second time",
    judge,
);

fn judge(seen: &Observation<'_>, model: &Model) -> Verdict {
    if seen.executed().is_none() && seen.events.is_empty() {
        return Ok(());
    }
    let (run, view) = match (seen.run(model), seen.after) {
        (Some(run), Some(view)) => (run, view),
        (None, None) => return Ok(()),
        (run, view) => {
            return Err(format!("expected a run: {}, saw one: {}", run.is_some(), view.is_some()));
        }
    };
    let record = &view.record;
    ensure(
        (record.status, record.paused, record.config) == (run.status, run.paused, run.config),
        || format!("the run is {record:?}, expected {:?}, paused {}", run.status, run.paused),
    )?;
    let times = (record.created_at, record.completed_at);
    ensure(times == (run.created_at, run.completed_at), || {
        format!("the run was made and ended at {times:?}, expected {:?}", run.completed_at)
    })?;
    if let Ok(Answer::Granted(granted)) = seen.outcome {
        restored(run, granted)?;
    }
    ensure(view.shards.len() == run.shards.len(), || {
        format!("{} shards are visible, expected {}", view.shards.len(), run.shards.len())
    })?;
    for summary in &view.shards {
        let Some(shard) = run.shards.get(&summary.shard) else {
            return Err(format!("nobody made {summary:?}"));
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
        && summary.last_key.as_deref() == shard.cursor.last_key.as_deref()
        && *summary.start == *shard.spec.start
        && *summary.end == *shard.spec.end
        && summary.parent == shard.parent
        && summary.spawned_count as usize == shard.spawned.len()
}

/// What a new holder is shown: the last accepted cursor with its token, and nothing lost.
fn restored(run: &RunModel, granted: &Granted) -> Verdict {
    let Some(shard) = run.shards.get(&granted.lease.key().shard) else { return Ok(()) };
    let same = granted.spec == shard.spec
        && granted.cursor == shard.cursor
        && granted.spawned == shard.spawned
        && granted.parent == shard.parent
        && granted.fruitless == shard.fruitless
        && granted.cursor_semantics == run.config.cursor_semantics;
    ensure(same, || format!("{granted:?} was restored, expected {shard:?}"))
}
