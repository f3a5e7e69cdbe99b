//! The oracle of refusals.

use shardwright_contracts::limits::{MAX_KEY_SIZE, MAX_PARK_DETAIL_SIZE, MAX_TOKEN_SIZE};
use shardwright_coordination::error::reason::SplitInvalid;
use shardwright_coordination::{CoordError, RunStatus, ShardStatus};

use super::effects::remembered;
use super::limits::{divides, is_manifest, was_full};
use super::{Observation, Oracle, Verdict, ensure};
use crate::model::{Model, RunModel, ShardModel};
use crate::request::operation::{
    Checkpoint, Claim, Complete, CreateRun, CreateRunWithShards, ParkShard, RequestSplit,
    SplitReplace, SplitResidual,
};
use crate::request::{Cursor, Request, RequestExt, last_key};

/// Complements the oracles of what may be accepted: an acceptable request is not refused.
pub(super) const ORACLE: Oracle = Oracle::before(
    "refusals are true",
    "the reason of every refusal is true, with all its details",
    judge,
)
.of_answers();

fn judge(seen: &Observation<'_>, model: &Model) -> Verdict {
    let Err(refusal) = seen.outcome else { return Ok(()) };
    let run = seen.run(model);
    let holds = match refusal {
        CoordError::RunNotFound(_) => run.is_none(),
        CoordError::RunAlreadyExists(_) => run.is_some_and(|run| has_config(seen, run)),
        CoordError::ConfigMismatch(_) => run.is_some_and(|run| !has_config(seen, run)),
        CoordError::ShardNotFound(_) => seen.shard(model).is_none(),
        CoordError::TenantMismatch(_) => {
            seen.request.lease().is_some_and(|lease| lease.tenant() != seen.tenant)
        }
        CoordError::OpIdConflict(_) => {
            remembered(seen, model).is_some_and(|earlier| earlier.meaning != seen.request.meaning())
        }
        CoordError::ManifestInvalid(_) => {
            seen.request.manifest().is_some_and(|shards| !is_manifest(shards))
        }
        CoordError::ShardLimitExceeded(_) => over_limit(seen, model),
        CoordError::SplitInvalid(SplitInvalid::ShardLimitExceeded(_)) => over_limit(seen, model),
        CoordError::Throttled(reason) => match seen.request {
            Request::Claim(Claim { worker, .. }) => {
                model.tenants.get(&seen.tenant).is_some_and(|tenant| {
                    seen.now < reason.retry_after
                        && tenant.cooldowns.get(worker) == Some(&reason.retry_after)
                })
            }
            _ => false,
        },
        CoordError::ResourceExhausted(reason) => was_full(seen, model, reason),
        // The oracle of capacity hints judges whether a shard was free.
        CoordError::NoneAvailable(_) => true,
        CoordError::BackendError(_) => false,
        _ => match (run, seen.shard(model)) {
            (Some(run), shard) => of_run(seen, run, model.skew_ms, refusal, shard),
            (None, _) => false,
        },
    };
    ensure(holds, || format!("a {} was refused: {refusal:?}", seen.request.label()))
}

fn has_config(seen: &Observation<'_>, run: &RunModel) -> bool {
    match seen.request {
        Request::CreateRun(CreateRun { config, .. })
        | Request::CreateRunWithShards(CreateRunWithShards { config, .. }) => *config == run.config,
        _ => false,
    }
}

fn over_limit(seen: &Observation<'_>, model: &Model) -> bool {
    let additional = match seen.request {
        Request::SplitReplace(SplitReplace { parts, .. }) => parts.len(),
        Request::SplitResidual(_) => 1,
        request => request.manifest().map_or(0, <[_]>::len),
    };
    model.shards_of(seen.tenant) + additional > model.limits.per_tenant
        || model.shards_in_all() + additional > model.limits.total
}

fn of_run(
    seen: &Observation<'_>,
    run: &RunModel,
    skew_ms: u64,
    refusal: &CoordError,
    shard: Option<&ShardModel>,
) -> bool {
    match refusal {
        CoordError::RunNotActive(reason) => {
            reason.status == run.status && run.status != RunStatus::Active
        }
        CoordError::RunTerminal(reason) => reason.status == run.status && run.status.is_terminal(),
        CoordError::WrongStatus(reason) => {
            let starts_from = match seen.request {
                request if request.manifest().is_some() => RunStatus::Initializing,
                _ => RunStatus::Active,
            };
            reason.status == run.status && run.status != starts_from
        }
        CoordError::RunUnfinished(reason) => {
            let active = run.count(ShardStatus::Active);
            let parked = run.count(ShardStatus::Parked);
            (reason.active, reason.parked) == (active, parked) && active + parked > 0
        }
        CoordError::RunPaused(_) => run.paused,
        CoordError::FenceExhausted(_) => match shard {
            Some(shard) => shard.fence == u64::MAX,
            None => run.shards.values().any(|shard| shard.fence == u64::MAX),
        },
        CoordError::SplitAlreadyRequested(_) => match (seen.request, shard) {
            (Request::RequestSplit(RequestSplit { key, requester, .. }), Some(shard)) => {
                let open = shard.open_request(seen.now);
                open.is_some_and(|open| open.requester != *requester)
                    || run.has_open_request(*requester, seen.now, key.shard)
            }
            _ => false,
        },
        CoordError::RetriesExhausted(reason) => shard.is_some_and(|shard| {
            reason.attempts == shard.without_progress
                && run
                    .config
                    .max_shard_retries
                    .is_some_and(|max| shard.without_progress >= max.get())
        }),
        _ => shard.is_some_and(|shard| of_shard(seen, shard, skew_ms, refusal)),
    }
}

fn of_shard(
    seen: &Observation<'_>,
    shard: &ShardModel,
    skew_ms: u64,
    refusal: &CoordError,
) -> bool {
    match (refusal, seen.request) {
        (CoordError::ShardTerminal(reason), _) => {
            reason.status == shard.status && shard.status.is_terminal()
        }
        (CoordError::NotParked(reason), _) => {
            reason.status == shard.status && shard.status != ShardStatus::Parked
        }
        (CoordError::StaleFence(reason), request) => request.lease().is_some_and(|lease| {
            let holds = shard.lease.is_some_and(|(owner, _)| owner == lease.owner());
            // In the model, a lease below the floor is not held.
            (reason.current.as_raw(), reason.presented) == (shard.fence, lease.fence())
                && (reason.presented != reason.current || !holds)
        }),
        (CoordError::LeaseExpired(reason), _) => shard.lease.is_some_and(|(_, deadline)| {
            reason.deadline <= reason.now
                && (reason.deadline == deadline || shard.unbound)
                && (seen.now..=seen.until).contains(&reason.now)
        }),
        (CoordError::AlreadyLeased(reason), _) => {
            shard.lease == Some((reason.current_owner, reason.deadline))
                && !shard.is_available_after(seen.now, skew_ms)
        }
        (
            CoordError::SplitRequestOver(reason),
            Request::RequestSplit(RequestSplit { patience_ms, .. }),
        ) => *patience_ms == 0 && reason.expires_at == seen.now,
        (CoordError::NotLeased(_), _) => shard.holder(seen.now).is_none(),
        (CoordError::SplitDeclined(reason), _) => {
            shard.declined_until == Some(reason.not_before) && seen.now < reason.not_before
        }
        (refusal, request) => of_holder(request, shard, refusal),
    }
}

fn of_holder(request: &Request, shard: &ShardModel, refusal: &CoordError) -> bool {
    match (request, refusal) {
        (Request::ParkShard(ParkShard { detail, .. }), CoordError::ParkDetailTooLarge(_)) => {
            detail.len() > MAX_PARK_DETAIL_SIZE
        }
        (
            Request::SplitReplace(SplitReplace { parts, .. }),
            CoordError::SplitInvalid(SplitInvalid::Plan(_)),
        ) => {
            let parts: Vec<_> = parts.iter().map(|part| (&part.spec, &part.cursor)).collect();
            !divides(&parts, shard, false)
        }
        (
            Request::SplitResidual(SplitResidual { narrowed, residual, .. }),
            CoordError::SplitInvalid(SplitInvalid::Plan(_)),
        ) => {
            let initial = Cursor::initial();
            !divides(&[(narrowed, &initial), (residual, &initial)], shard, true)
        }
        (
            Request::Checkpoint(Checkpoint { cursor, .. })
            | Request::Complete(Complete { cursor, .. }),
            refusal,
        ) => of_cursor(cursor, shard, refusal),
        _ => false,
    }
}

fn of_cursor(cursor: &Cursor, shard: &ShardModel, refusal: &CoordError) -> bool {
    let key = last_key(cursor);
    match refusal {
        CoordError::CheckpointMissingKey(_) => key.unwrap_or_default().is_empty(),
        CoordError::CursorKeyTooLarge(_) => key.is_some_and(|key| key.len() > MAX_KEY_SIZE),
        CoordError::CursorTokenTooLarge(_) => {
            cursor.as_ref().token().is_some_and(|token| token.len() > MAX_TOKEN_SIZE)
        }
        CoordError::CursorRegression(_) => key < last_key(&shard.cursor),
        CoordError::CursorOutOfBounds(_) => {
            let spec = shard.spec.as_ref();
            key.is_some_and(|key| key < spec.start() || spec.end() <= key)
        }
        _ => false,
    }
}
