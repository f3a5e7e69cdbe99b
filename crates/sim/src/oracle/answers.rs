//! What an answer shows to a worker or a tenant.

use shardwright_contracts::LogicalTime;
use shardwright_coordination::{CapacityHint, CoordError, IdempotentOutcome, RunStatus};

use super::{Observation, Oracle, Verdict, ensure};
use crate::model::{Model, RunModel, ShardModel};
use crate::request::operation::{CollectClaimCandidates, RequestSplit};
use crate::request::{Reply, Request, RequestExt};

/// All bytes of a tenant begin with its tag, so a byte of another tenant is recognised.
pub(super) const TENANTS: Oracle = Oracle::before(
    "tenants",
    "nobody is shown a byte of another tenant, and another tenant's lease opens nothing",
    judge_tenants,
);

/// A caller's clock may be set back behind what the system has seen. Then a hint may be as late as
/// the latest clock, and no later.
pub(super) const CAPACITY: Oracle = Oracle::after(
    "capacity hints",
    "what workers are told is free, waiting or about to end is what a recount finds, and nobody \
     is told that there is nothing while there is something",
    judge_capacity,
);

pub(super) const SPLIT_REQUESTS: Oracle = Oracle::both(
    "split requests",
    "of a shard one split is asked for at a time, and by a requester one; not before the time \
     that a holder named; and holders are told what was asked and whether the run is paused, but \
     with a replay nothing",
    requested,
    noticed,
);

fn judge_tenants(seen: &Observation<'_>, model: &Model) -> Verdict {
    let Some(tenant) = model.tenants.get(&seen.tenant) else { return Ok(()) };
    if let Some(lease) = seen.request.lease() {
        ensure(lease.tenant() == seen.tenant || seen.outcome.is_err(), || {
            format!("another tenant's lease was accepted for a {}", seen.request.label())
        })?;
    }
    for event in seen.events {
        ensure(event.tenant == seen.tenant, || "emitted another tenant's event".into())?;
    }
    let own = |bytes: &[u8]| bytes.first().is_none_or(|first| *first == tenant.tag);
    if let Some(view) = seen.after {
        let shards_own = view.shards.iter().all(|shard| own(&shard.start) && own(&shard.end));
        let told = view.record.tenant == seen.tenant && shards_own;
        ensure(told, || "another tenant's run was shown".into())?;
    }
    match seen.outcome {
        Ok(Reply::Granted(granted)) => {
            let (spec, cursor) = (granted.spec.as_spec_ref(), granted.cursor.as_update());
            let parts = [spec.start(), spec.end(), spec.metadata()];
            let cursor = [cursor.last_key(), cursor.token()];
            let all = parts.into_iter().chain(cursor.into_iter().flatten()).all(own);
            ensure(all && granted.lease.tenant() == seen.tenant, || {
                "another tenant's shard was handed out".into()
            })
        }
        Ok(Reply::Run(record)) => {
            ensure(record.tenant == seen.tenant, || "another tenant's run was shown".into())
        }
        Ok(Reply::Shards(shards)) => {
            let all = shards.iter().all(|shard| own(&shard.start) && own(&shard.end));
            ensure(all, || "another tenant's shards were listed".into())
        }
        _ => Ok(()),
    }
}

fn judge_capacity(seen: &Observation<'_>, model: &Model) -> Verdict {
    let (Some(run), Some(tenant)) = (seen.run(model), model.tenants.get(&seen.tenant)) else {
        return Ok(());
    };
    match seen.outcome {
        Ok(Reply::Granted(granted)) => hint(run, tenant.workers, seen.now, &granted.capacity),
        Ok(Reply::Renewed(renewed)) => hint(run, tenant.workers, seen.now, &renewed.capacity),
        Ok(Reply::Candidates(shards, outlook)) => {
            let Request::CollectClaimCandidates(CollectClaimCandidates { limit, .. }) =
                seen.request
            else {
                return Ok(());
            };
            let good = shards.iter().all(|shard| {
                run.shards.get(shard).is_some_and(|shard| shard.is_available(run.latest))
            });
            ensure(good, || format!("{shards:?} are not all available"))?;
            if run.paused || run.status != RunStatus::Active {
                let silent = shards.is_empty() && outlook.earliest_deadline.is_none();
                return ensure(silent, || format!("{shards:?}, {outlook:?} shown of a closed run"));
            }
            ends_first(run, seen.now, outlook.earliest_deadline)?;
            let least = (run.available(seen.now) as usize).min(*limit);
            ensure(shards.len() >= least, || format!("{} of {least} offered", shards.len()))
        }
        Err(CoordError::NoneAvailable(told)) => {
            ends_first(run, seen.now, told.earliest_deadline)?;
            // A shard whose fence cannot rise is free and useless.
            let is_claimable =
                |shard: &&ShardModel| shard.is_available(seen.now) && shard.fence < u64::MAX;
            let free = run.shards.values().filter(is_claimable).count();
            ensure(free == 0, || format!("nothing to claim, though {free} shards are free"))
        }
        _ => Ok(()),
    }
}

fn hint(run: &RunModel, workers: u32, now: LogicalTime, told: &CapacityHint) -> Verdict {
    let free = run.available(now)..=run.available(run.latest);
    ensure(free.contains(&told.available_count), || {
        format!("{} shown as free, a recount finds {free:?}", told.available_count)
    })?;
    let waiting = |time| run.waiting.values().filter(|until| time < **until).count() as u32;
    let counted = waiting(run.latest)..=waiting(now);
    ensure(told.waiting_workers <= workers && counted.contains(&told.waiting_workers), || {
        format!("{} shown as waiting, a recount finds {counted:?}", told.waiting_workers)
    })?;
    ends_first(run, now, told.earliest_deadline)
}

/// Whether the time is the end of the first lease to end.
fn ends_first(run: &RunModel, now: LogicalTime, told: Option<LogicalTime>) -> Verdict {
    let deadlines = || run.shards.values().filter_map(|shard| shard.lease).map(|(_, end)| end);
    let expected = deadlines().filter(|end| now < *end).min();
    let fits = match told {
        told if now >= run.latest => told == expected,
        Some(told) => deadlines().any(|end| end == told),
        None => true,
    };
    ensure(fits, || format!("{told:?} shown as the first end, not {expected:?}"))
}

fn requested(seen: &Observation<'_>, model: &Model) -> Verdict {
    let (Request::RequestSplit(RequestSplit { key, requester, patience_ms }), Ok(_)) =
        (seen.request, seen.outcome)
    else {
        return Ok(());
    };
    ensure(*patience_ms > 0, || "requested without patience".into())?;
    let (Some(run), Some(shard)) = (seen.run(model), seen.shard(model)) else { return Ok(()) };
    ensure(shard.holder(seen.now).is_some(), || "requested of no holder".into())?;
    let open = shard.open_request(seen.now);
    ensure(open.is_none_or(|open| open.requester == *requester), || {
        "a holder was asked twice".into()
    })?;
    ensure(shard.declined_until.is_none_or(|time| time <= seen.now), || {
        format!("requested before {:?}", shard.declined_until)
    })?;
    ensure(!run.has_asked(*requester, seen.now, key.shard), || {
        format!("{requester} asked two holders")
    })
}

fn noticed(seen: &Observation<'_>, model: &Model) -> Verdict {
    let notice = match seen.outcome {
        Ok(Reply::Renewed(renewed)) => renewed.notice,
        Ok(Reply::Noticed(IdempotentOutcome::Replayed(notice))) => {
            return ensure(notice.is_none(), || "a replay carries a notice".into());
        }
        Ok(Reply::Noticed(IdempotentOutcome::Executed(notice))) => *notice,
        _ => return Ok(()),
    };
    let Some(notice) = notice else { return Err("a holder got no notice".into()) };
    let (Some(run), Some(shard)) = (seen.run(model), seen.shard(model)) else { return Ok(()) };
    ensure(notice.paused == run.paused, || format!("paused: {}, noticed otherwise", run.paused))?;
    let open = shard.open_request(seen.now);
    ensure(notice.split_request == open, || {
        format!("{:?} was noticed, {open:?} was requested", notice.split_request)
    })
}
