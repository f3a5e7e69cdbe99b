use std::collections::BTreeSet;

use shardwright_contracts::ShardId;
use shardwright_coordination::{EventKind, ShardStatus};

use super::{Observation, Oracle, Verdict, ensure};
use crate::model::Model;
use crate::request::{HolderAct, Request, RunAct};
use crate::system::Answer;

pub(super) const ORACLE: Oracle = Oracle::before(
    "events",
    "whatever takes effect tells its event once, with what was answered, and nothing else does",
    judge,
);

fn judge(seen: &Observation<'_>, model: &Model) -> Verdict {
    parks_once(seen, model)?;
    let told: Vec<&EventKind> = seen
        .events
        .iter()
        .map(|event| &event.kind)
        .filter(|kind| parked_on_the_way(seen.request, kind).is_none())
        .collect();
    let expected = seen.executed().is_some() && changes_something(seen, model);
    let name = seen.request.name();
    // A run that is made with its shards is made first.
    let told = match (seen.request, told.as_slice(), seen.run(model)) {
        (Request::CreateWithShards { .. }, [EventKind::RunCreated, rest @ ..], None) => rest,
        (Request::CreateWithShards { .. }, _, None) if expected => {
            return Err(format!("a {name} told {told:?}"));
        }
        (_, told, _) => told,
    };
    ensure(told.len() == usize::from(expected), || format!("a {name} told {told:?}"))?;
    let Some(kind) = told.first() else { return Ok(()) };
    let at = seen.events.iter().all(|event| event.at == seen.now);
    let fits = at && seen.executed().is_some_and(|answer| fits(seen, model, answer, kind));
    ensure(fits, || format!("a {name} told {kind:?}"))
}

/// The shard that an attempt to have one parks before it comes to its end.
const fn parked_on_the_way(request: &Request, kind: &EventKind) -> Option<ShardId> {
    match (request, kind) {
        (Request::Acquire { .. } | Request::Claim { .. }, EventKind::ShardParked { shard, .. }) => {
            Some(*shard)
        }
        _ => None,
    }
}

/// A shard is parked once, if it was active; by who asks for a shard, only that one.
fn parks_once(seen: &Observation<'_>, model: &Model) -> Verdict {
    let parked = seen.events.iter();
    let parked = parked.filter_map(|event| parked_on_the_way(seen.request, &event.kind));
    let mut known = BTreeSet::new();
    for shard in parked {
        let was_active = seen
            .run(model)
            .and_then(|run| run.shards.get(&shard))
            .is_some_and(|shard| shard.status == ShardStatus::Active);
        let is_meant = seen.request.shard().is_none_or(|asked| asked == shard);
        ensure(was_active && is_meant && known.insert(shard), || {
            format!("a {} told that {shard} was parked", seen.request.name())
        })?;
    }
    Ok(())
}

/// To pause what is paused, or to resume what is not, is no event.
fn changes_something(seen: &Observation<'_>, model: &Model) -> bool {
    let paused = seen.run(model).is_some_and(|run| run.paused);
    match seen.request {
        Request::Run { act: RunAct::Pause, .. } => !paused,
        Request::Run { act: RunAct::Resume, .. } => paused,
        _ => true,
    }
}

fn fits(seen: &Observation<'_>, model: &Model, answer: &Answer, kind: &EventKind) -> bool {
    match (seen.request, answer, kind) {
        (
            Request::Acquire { worker: asked, .. } | Request::Claim { worker: asked, .. },
            Answer::Granted(granted),
            EventKind::ShardAcquired { shard, worker, fence_epoch },
        ) => {
            let lease = &granted.lease;
            *shard == lease.key().shard && *fence_epoch == lease.fence() && worker == asked
        }
        (Request::Holder { lease, act }, answer, kind) => {
            holder_fits(lease.key().shard, act, answer, kind)
        }
        (Request::CreateRun { .. }, _, EventKind::RunCreated) => true,
        (
            Request::Register { shards, .. } | Request::CreateWithShards { shards, .. },
            _,
            EventKind::RunActivated { shard_count },
        ) => shards.len() == *shard_count as usize,
        (Request::Run { act, .. }, _, kind) => matches!(
            (act, kind),
            (RunAct::Complete, EventKind::RunCompleted)
                | (RunAct::Fail, EventKind::RunFailed)
                | (RunAct::Cancel, EventKind::RunCancelled)
                | (RunAct::Pause, EventKind::RunPaused)
                | (RunAct::Resume, EventKind::RunResumed)
        ),
        (
            Request::RequestSplit { key, asker: asked, .. },
            _,
            EventKind::SplitRequested { shard, requester: asker },
        ) => *shard == key.shard && asker == asked,
        (Request::Unpark { key, .. }, _, EventKind::ShardUnparked { shard, new_fence_epoch }) => {
            let fence = seen.shard(model).map(|shard| shard.next_fence(model.floor));
            *shard == key.shard && fence == Some(new_fence_epoch.as_raw())
        }
        _ => false,
    }
}

fn holder_fits(own: ShardId, act: &HolderAct, answer: &Answer, kind: &EventKind) -> bool {
    match (act, answer, kind) {
        (
            HolderAct::Renew,
            Answer::Renewed(renewed),
            EventKind::ShardLeaseRenewed { shard, new_deadline },
        ) => *shard == own && *new_deadline == renewed.new_deadline,
        (
            HolderAct::Checkpoint { cursor, .. },
            _,
            EventKind::ShardCheckpointed { shard, last_key },
        ) => *shard == own && last_key.0.as_deref() == cursor.last_key.as_deref(),
        (
            HolderAct::Decline { not_before: asked },
            _,
            EventKind::SplitDeclined { shard, not_before },
        ) => *shard == own && not_before == asked,
        (HolderAct::Complete { .. }, _, EventKind::ShardCompleted { shard })
        | (HolderAct::Release { .. }, _, EventKind::ShardReleased { shard }) => *shard == own,
        (HolderAct::Park { reason: asked, .. }, _, EventKind::ShardParked { shard, reason }) => {
            *shard == own && reason == asked
        }
        (
            HolderAct::SplitReplace { .. },
            Answer::Spawned { shards, .. },
            EventKind::ShardSplit { parent, children },
        ) => *parent == own && children == shards,
        (
            HolderAct::SplitResidual { .. },
            Answer::Spawned { shards, .. },
            EventKind::ShardResidualCreated { parent, residual },
        ) => *parent == own && shards == &[*residual],
        _ => false,
    }
}
