//! Oracles of holding a shard and writing to it.

use std::num::NonZeroU32;

use shardwright_coordination::{EventKind, ParkReason, RunStatus};

use super::{Observation, Oracle, Verdict, ensure};
use crate::model::{Model, RunModel, ShardModel};
use crate::request::{Reply, Request, RequestExt};
use crate::visible;

/// Judged by the writes that were accepted, not by the owner in the record.
pub(super) const WRITER: Oracle = Oracle::before(
    "one writer per fence",
    "under one fence of a shard, only one worker's writes are accepted, and fences never fall",
    judge_writer,
);

pub(super) const FENCE: Oracle = Oracle::before(
    "fences rise",
    "every grant and every unpark of a shard gives it a fence above all earlier ones and not below \
     the floor",
    judge_fence,
);

pub(super) const HOLDER: Oracle = Oracle::before(
    "only the holder writes",
    "a write is accepted only from the holder, under its fence and before its deadline; a renewal \
     lasts from now on and never shortens a lease",
    judge_holder,
);

pub(super) const GRANTS: Oracle = Oracle::before(
    "grants",
    "a shard is granted only if it is free and has not failed too often, for the run's lease \
     duration, and to no worker within its cooldown",
    judge_grants,
);

pub(super) const PARKING: Oracle = Oracle::before(
    "parking",
    "an acquire or a claim parks a shard only after as many attempts without progress as its run \
     allows, for that reason, and only in a run that grants shards",
    judge_parking,
);

/// Separate from [`PARKING`], because it needs the time at which the shard was parked. Where only
/// the latest possible time is known, that time counts.
pub(super) const UNHELD: Oracle = Oracle::before(
    "parking and leases",
    "an acquire or a claim never parks a shard that has a holder",
    judge_unheld,
);

pub(super) const RUN_GATE: Oracle = Oracle::before(
    "run gate",
    "nothing changes in an ended run, and a paused run grants nothing",
    judge_run_gate,
);

fn judge_writer(seen: &Observation<'_>, model: &Model) -> Verdict {
    let Some(lease) = seen.write() else { return Ok(()) };
    let Some((fence, worker)) = seen.shard(model).and_then(|shard| shard.last_write) else {
        return Ok(());
    };
    let shown = lease.fence().as_raw();
    ensure(shown >= fence, || format!("a write under fence {shown} came after one under {fence}"))?;
    ensure(shown > fence || lease.owner() == worker, || {
        format!("workers {} and {worker} both wrote under fence {fence}", lease.owner())
    })
}

fn judge_fence(seen: &Observation<'_>, model: &Model) -> Verdict {
    let Some(run) = seen.run(model) else { return Ok(()) };
    if let Ok(Reply::Granted(granted)) = seen.outcome
        && let Some(shard) = run.shards.get(&granted.lease.key().shard)
    {
        let fence = granted.lease.fence().as_raw();
        ensure(fence > shard.fence, || format!("fence {fence} granted after {}", shard.fence))?;
        above_floor(fence, model)?;
    }
    for event in seen.events {
        if let EventKind::ShardUnparked { shard, new_fence_epoch } = event.kind
            && let Some(shard) = run.shards.get(&shard)
        {
            let fence = new_fence_epoch.as_raw();
            ensure(fence > shard.fence, || format!("unparked at {fence} after {}", shard.fence))?;
            above_floor(fence, model)?;
        }
    }
    Ok(())
}

fn above_floor(fence: u64, model: &Model) -> Verdict {
    ensure(fence >= model.floor, || format!("fence {fence} granted, the floor is {}", model.floor))
}

fn judge_holder(seen: &Observation<'_>, model: &Model) -> Verdict {
    let Some(lease) = seen.write() else { return Ok(()) };
    let Some(shard) = seen.shard(model) else {
        return Err("a write to an unknown shard".into());
    };
    let Some((owner, deadline)) = shard.lease else {
        return Err("a write to a shard without a holder".into());
    };
    let fence = lease.fence().as_raw();
    ensure(fence == shard.fence, || format!("fence {fence} wrote, {} was granted", shard.fence))?;
    ensure(fence >= model.floor, || format!("fence {fence} wrote below {}", model.floor))?;
    ensure(owner == lease.owner(), || format!("{} wrote, {owner} holds", lease.owner()))?;
    ensure(seen.now < deadline, || {
        format!("written at {}, the lease ended at {deadline}", seen.now)
    })?;
    ensure(!shard.unbound, || "a write after the holder's session had ended".into())?;
    let (Ok(Reply::Renewed(renewed)), Some(run)) = (seen.outcome, seen.run(model)) else {
        return Ok(());
    };
    let until = deadline.max(seen.now.saturating_add(run.config.lease_duration_ms.get()));
    ensure(renewed.new_deadline == until, || {
        format!("renewed until {}, not {until}", renewed.new_deadline)
    })
}

fn judge_grants(seen: &Observation<'_>, model: &Model) -> Verdict {
    let Ok(Reply::Granted(granted)) = seen.outcome else { return Ok(()) };
    let lease = &granted.lease;
    let (Some(run), Some(tenant)) = (seen.run(model), model.tenants.get(&seen.tenant)) else {
        return Err("granted a shard of an unknown run".into());
    };
    let Some(shard) = run.shards.get(&lease.key().shard) else {
        return Err("granted an unknown shard".into());
    };
    ensure(shard.is_available_after(seen.now, model.skew_ms), || {
        format!("granted while {:?} and held until {:?}", shard.status, shard.lease)
    })?;
    let max = run.config.max_shard_retries.map_or(u32::MAX, NonZeroU32::get);
    ensure(shard.without_progress < max, || {
        format!("granted after {} attempts", shard.without_progress)
    })?;
    let until = seen.now.saturating_add(run.config.lease_duration_ms.get());
    ensure(lease.deadline() == until, || format!("until {}, not {until}", lease.deadline()))?;
    let worker = lease.owner();
    if matches!(seen.request, Request::Claim(_))
        && let Some(&after) = tenant.cooldowns.get(&worker)
    {
        // A caller's clock that was set back may be before a cooldown that the system dropped.
        let fits = seen.now >= after || seen.now < run.latest;
        ensure(fits, || format!("{worker} claimed at {}, throttled until {after}", seen.now))?;
    }
    Ok(())
}

/// The shards that an acquire or a claim parked on the way, and why.
fn parked<'m>(
    seen: &Observation<'_>,
    model: &'m Model,
) -> Vec<(&'m RunModel, &'m ShardModel, ParkReason)> {
    let (Request::Acquire(_) | Request::Claim(_), Some(run)) = (seen.request, seen.run(model))
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

fn judge_parking(seen: &Observation<'_>, model: &Model) -> Verdict {
    for (run, shard, reason) in parked(seen, model) {
        let max = run.config.max_shard_retries;
        ensure(max.is_some_and(|max| shard.without_progress >= max.get()), || {
            format!("parked after {} attempts, {max:?} are allowed", shard.without_progress)
        })?;
        ensure(reason == ParkReason::TooManyErrors, || format!("parked for {reason:?}"))?;
        ensure(run.status == RunStatus::Active && !run.paused, || {
            format!("parked in a run that is {:?}, paused: {}", run.status, run.paused)
        })?;
    }
    Ok(())
}

fn judge_unheld(seen: &Observation<'_>, model: &Model) -> Verdict {
    for (_, shard, _) in parked(seen, model) {
        ensure(shard.is_available_after(seen.now, model.skew_ms), || {
            format!("parked while {:?} and held until {:?}", shard.status, shard.lease)
        })?;
    }
    Ok(())
}

fn judge_run_gate(seen: &Observation<'_>, model: &Model) -> Verdict {
    let Some(run) = seen.run(model) else { return Ok(()) };
    if run.status.is_terminal() {
        ensure(visible::same(seen.before, seen.after), || {
            format!("{} changed a run that is {:?}", seen.request.label(), run.status)
        })?;
    }
    if matches!(seen.outcome, Ok(Reply::Granted(_))) {
        ensure(!run.paused, || "a paused run granted a shard".into())?;
    }
    let of_shards = matches!(seen.request, Request::Claim(_)) || seen.request.shard().is_some();
    ensure(!of_shards || seen.executed().is_none() || run.status == RunStatus::Active, || {
        format!("{} was accepted in a run that is {:?}", seen.request.label(), run.status)
    })
}
