//! The oracle of events.

use std::collections::BTreeSet;

use shardwright_contracts::ShardId;
use shardwright_coordination::{EventKind, RunTransition, ShardStatus};

use super::{Observation, Oracle, Verdict, ensure};
use crate::model::Model;
use crate::request::operation::{
    Acquire, ChangeRun, Checkpoint, Claim, DeclineSplit, ParkShard, RequestSplit, UnparkShard,
};
use crate::request::{Reply, Request, RequestExt, last_key, spawned};

pub(super) const ORACLE: Oracle = Oracle::before(
    "events",
    "every effect publishes one event that agrees with the answer, and only effects publish events",
    judge,
)
.of_answers();

fn judge(seen: &Observation<'_>, model: &Model) -> Verdict {
    parks_once(seen, model)?;
    let published: Vec<&EventKind> = seen
        .events
        .iter()
        .map(|event| &event.kind)
        .filter(|kind| parked_on_the_way(seen.request, kind).is_none())
        .collect();
    let expected = seen.executed().is_some() && changes_something(seen, model);
    let name = seen.request.label();
    // A run that is created with its shards is created first.
    let published = match (seen.request, published.as_slice(), seen.run(model)) {
        (Request::CreateRunWithShards(_), [EventKind::RunCreated, rest @ ..], None) => rest,
        (Request::CreateRunWithShards(_), _, None) if expected => {
            return Err(format!("a {name} published {published:?}"));
        }
        (_, published, _) => published,
    };
    ensure(published.len() == usize::from(expected), || {
        format!("a {name} published {published:?}")
    })?;
    let Some(kind) = published.first() else { return Ok(()) };
    let at = seen.events.iter().all(|event| event.at == seen.now);
    let fits = at && seen.executed().is_some_and(|answer| fits(seen, model, answer, kind));
    ensure(fits, || format!("a {name} published {kind:?}"))
}

/// The shard that an acquire or a claim parks on the way.
const fn parked_on_the_way(request: &Request, kind: &EventKind) -> Option<ShardId> {
    match (request, kind) {
        (Request::Acquire(_) | Request::Claim(_), EventKind::ShardParked { shard, .. }) => {
            Some(*shard)
        }
        _ => None,
    }
}

/// Only an active shard is parked, and once. An acquire parks only its own shard.
fn parks_once(seen: &Observation<'_>, model: &Model) -> Verdict {
    let parked = seen.events.iter();
    let parked = parked.filter_map(|event| parked_on_the_way(seen.request, &event.kind));
    let mut known = BTreeSet::new();
    for shard in parked {
        let was_active = seen
            .run(model)
            .and_then(|run| run.shards.get(&shard))
            .is_some_and(|shard| shard.status == ShardStatus::Active);
        let is_meant = seen.request.shard_id().is_none_or(|asked| asked == shard);
        ensure(was_active && is_meant && known.insert(shard), || {
            format!("a {} published that {shard} was parked", seen.request.label())
        })?;
    }
    Ok(())
}

/// Pausing a paused run, or resuming a running one, publishes no event.
fn changes_something(seen: &Observation<'_>, model: &Model) -> bool {
    let paused = seen.run(model).is_some_and(|run| run.paused);
    match seen.request {
        Request::ChangeRun(ChangeRun { change: RunTransition::Pause, .. }) => !paused,
        Request::ChangeRun(ChangeRun { change: RunTransition::Resume, .. }) => paused,
        _ => true,
    }
}

fn fits(seen: &Observation<'_>, model: &Model, reply: &Reply, kind: &EventKind) -> bool {
    match (seen.request, reply, kind) {
        (
            Request::Acquire(Acquire { worker: asked, .. })
            | Request::Claim(Claim { worker: asked, .. }),
            Reply::Granted(granted),
            EventKind::ShardAcquired { shard, worker, fence_epoch },
        ) => {
            let lease = &granted.lease;
            *shard == lease.key().shard && *fence_epoch == lease.fence() && worker == asked
        }
        (Request::CreateRun(_), _, EventKind::RunCreated) => true,
        (request, _, EventKind::RunActivated { shard_count }) => {
            request.manifest().is_some_and(|shards| shards.len() == *shard_count as usize)
        }
        (Request::ChangeRun(ChangeRun { change, .. }), _, kind) => matches!(
            (change, kind),
            (RunTransition::Complete, EventKind::RunCompleted)
                | (RunTransition::Fail, EventKind::RunFailed)
                | (RunTransition::Cancel, EventKind::RunCancelled)
                | (RunTransition::Pause, EventKind::RunPaused)
                | (RunTransition::Resume, EventKind::RunResumed)
        ),
        (
            Request::RequestSplit(RequestSplit { key, requester: asked, .. }),
            _,
            EventKind::SplitRequested { shard, requester },
        ) => *shard == key.shard && requester == asked,
        (
            Request::UnparkShard(UnparkShard { key, .. }),
            _,
            EventKind::ShardUnparked { shard, new_fence_epoch },
        ) => {
            let fence = seen.shard(model).map(|shard| shard.next_fence(model.floor));
            *shard == key.shard && fence == Some(new_fence_epoch.as_raw())
        }
        _ => holder_fits(seen, reply, kind),
    }
}

fn holder_fits(seen: &Observation<'_>, reply: &Reply, kind: &EventKind) -> bool {
    let Some(own) = seen.request.lease().map(|lease| lease.key().shard) else { return false };
    match (seen.request, kind) {
        (Request::Renew(_), EventKind::ShardLeaseRenewed { shard, new_deadline }) => {
            let renewed = matches!(reply, Reply::Renewed(it) if it.new_deadline == *new_deadline);
            *shard == own && renewed
        }
        (
            Request::Checkpoint(Checkpoint { cursor, .. }),
            EventKind::ShardCheckpointed { shard, last_key: reached },
        ) => *shard == own && reached.0.as_deref() == last_key(cursor),
        (
            Request::DeclineSplit(DeclineSplit { pause_ms, .. }),
            EventKind::SplitDeclined { shard, not_before },
        ) => *shard == own && *not_before == seen.now.saturating_add(*pause_ms),
        (Request::Complete(_), EventKind::ShardCompleted { shard })
        | (Request::Release(_), EventKind::ShardReleased { shard }) => *shard == own,
        (
            Request::ParkShard(ParkShard { reason: asked, .. }),
            EventKind::ShardParked { shard, reason },
        ) => *shard == own && reason == asked,
        (Request::SplitReplace(_), EventKind::ShardSplit { parent, children }) => {
            *parent == own && spawned(reply).is_some_and(|shards| *children == shards)
        }
        (Request::SplitResidual(_), EventKind::ShardResidualCreated { parent, residual }) => {
            *parent == own && spawned(reply).is_some_and(|shards| shards == [*residual])
        }
        _ => false,
    }
}
