//! Oracles of answers.

use shardwright_contracts::LogicalTime;
use shardwright_coordination::{CapacityHint, CoordError, IdempotentOutcome, RunStatus};

use super::{Observation, Oracle, Verdict, ensure};
use crate::model::{Model, RunModel, ShardModel};
use crate::request::operation::{CollectClaimCandidates, RequestSplit};
use crate::request::{Reply, Request, RequestExt};

/// All bytes of a tenant begin with its tag, so bytes of another tenant are recognisable.
pub(super) const TENANTS: Oracle = Oracle::before(
    "tenants",
    "no answer contains a byte of another tenant, and another tenant's lease is refused",
    judge_tenants,
);

/// A caller's clock may be behind the latest time that the system has seen. Then a hint may be as
/// late as that time, and no later.
pub(super) const CAPACITY: Oracle = Oracle::after(
    "capacity hints",
    "hints count free shards and waiting workers, and name the first deadline, as a recount does; \
     a claim finds nothing only if no shard is free",
    judge_capacity,
)
.of_answers();

pub(super) const SPLIT_REQUESTS: Oracle = Oracle::both(
    "split requests",
    "a shard has one open split request, and so has a requester; none comes before the time that \
     the holder named; holders are notified of requests and pauses, except by replays",
    requested,
    noticed,
)
.of_answers();

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
        let is_own = view.record.tenant == seen.tenant && shards_own;
        ensure(is_own, || "another tenant's run was shown".into())?;
    }
    match seen.outcome {
        Ok(Reply::Granted(granted)) => {
            let (spec, cursor) = (granted.spec.as_spec_ref(), granted.cursor.as_update());
            let parts = [spec.start(), spec.end(), spec.metadata()];
            let cursor = [cursor.last_key(), cursor.token()];
            let all = parts.into_iter().chain(cursor.into_iter().flatten()).all(own);
            ensure(all && granted.lease.tenant() == seen.tenant, || {
                "another tenant's shard was granted".into()
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
        Err(CoordError::NoneAvailable(shown)) => {
            ends_first(run, seen.now, shown.earliest_deadline)?;
            // A shard whose fence cannot rise is free, and cannot be claimed.
            let is_claimable =
                |shard: &&ShardModel| shard.is_available(seen.now) && shard.fence < u64::MAX;
            let free = run.shards.values().filter(is_claimable).count();
            ensure(free == 0, || format!("no shard was granted, {free} shards are free"))
        }
        _ => Ok(()),
    }
}

fn hint(run: &RunModel, workers: u32, now: LogicalTime, shown: &CapacityHint) -> Verdict {
    let free = run.available(now)..=run.available(run.latest);
    ensure(free.contains(&shown.available_count), || {
        format!("{} shown as free, a recount finds {free:?}", shown.available_count)
    })?;
    let waiting = |time| run.waiting.values().filter(|until| time < **until).count() as u32;
    let counted = waiting(run.latest)..=waiting(now);
    ensure(shown.waiting_workers <= workers && counted.contains(&shown.waiting_workers), || {
        format!("{} shown as waiting, a recount finds {counted:?}", shown.waiting_workers)
    })?;
    ends_first(run, now, shown.earliest_deadline)
}

/// Whether the time is the earliest deadline of the leases.
fn ends_first(run: &RunModel, now: LogicalTime, shown: Option<LogicalTime>) -> Verdict {
    let deadlines = || run.shards.values().filter_map(|shard| shard.lease).map(|(_, end)| end);
    let expected = deadlines().filter(|end| now < *end).min();
    let fits = match shown {
        shown if now >= run.latest => shown == expected,
        Some(shown) => deadlines().any(|end| end == shown),
        None => true,
    };
    ensure(fits, || format!("{shown:?} shown as the first end, not {expected:?}"))
}

fn requested(seen: &Observation<'_>, model: &Model) -> Verdict {
    let (Request::RequestSplit(RequestSplit { key, requester, patience_ms }), Ok(_)) =
        (seen.request, seen.outcome)
    else {
        return Ok(());
    };
    ensure(*patience_ms > 0, || "requested with a wait of zero".into())?;
    let (Some(run), Some(shard)) = (seen.run(model), seen.shard(model)) else { return Ok(()) };
    ensure(shard.holder(seen.now).is_some(), || "requested for a shard without a holder".into())?;
    let open = shard.open_request(seen.now);
    ensure(open.is_none_or(|open| open.requester == *requester), || {
        "a holder got two requests".into()
    })?;
    ensure(shard.declined_until.is_none_or(|time| time <= seen.now), || {
        format!("requested before {:?}", shard.declined_until)
    })?;
    ensure(!run.has_open_request(*requester, seen.now, key.shard), || {
        format!("{requester} has requests to two holders")
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
    ensure(notice.paused == run.paused, || format!("paused: {}, notified otherwise", run.paused))?;
    let open = shard.open_request(seen.now);
    ensure(notice.split_request == open, || {
        format!("notified of {:?}, {open:?} was requested", notice.split_request)
    })
}
