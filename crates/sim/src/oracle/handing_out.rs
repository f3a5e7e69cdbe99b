use std::num::NonZeroU32;

use super::{Observation, Oracle, Verdict, ensure};
use crate::model::Model;
use crate::request::Request;
use crate::system::Answer;

pub(super) const ORACLE: Oracle = Oracle::before(
    "handing out",
    "a shard is handed out only if nobody holds it and it has not failed too often, for the run's \
     lease duration, and to no worker twice within its cooldown",
    judge,
);

fn judge(seen: &Observation<'_>, model: &Model) -> Verdict {
    let Ok(Answer::Granted(granted)) = seen.outcome else { return Ok(()) };
    let lease = &granted.lease;
    let (Some(run), Some(tenant)) = (seen.run(model), model.tenants.get(&seen.tenant)) else {
        return Err("handed out of a run that nobody made".into());
    };
    let Some(shard) = run.shards.get(&lease.key().shard) else {
        return Err("handed out a shard that nobody made".into());
    };
    ensure(shard.is_available_after(seen.now, model.skew_ms), || {
        format!("handed out while {:?} and held until {:?}", shard.status, shard.lease)
    })?;
    let max = run.config.max_shard_retries.map_or(u32::MAX, NonZeroU32::get);
    ensure(shard.fruitless < max, || format!("handed out after {} attempts", shard.fruitless))?;
    let until = seen.now.saturating_add(run.config.lease_duration_ms.get());
    ensure(lease.deadline() == until, || format!("until {}, not {until}", lease.deadline()))?;
    let worker = lease.owner();
    if matches!(seen.request, Request::Claim { .. })
        && let Some(&after) = tenant.cooldowns.get(&worker)
    {
        // A caller's clock that was set back may come before what the system has forgotten.
        let fits = seen.now >= after || seen.now < run.latest;
        ensure(fits, || format!("{worker} claimed at {}, throttled until {after}", seen.now))?;
    }
    Ok(())
}
