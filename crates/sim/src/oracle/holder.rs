use super::{Observation, Oracle, Verdict, ensure};
use crate::model::Model;
use crate::system::Answer;

pub(super) const ORACLE: Oracle = Oracle::before(
    "only the holder writes",
    "a write is accepted only from the worker that holds the shard, under its fence, in its time, \
     and a renewal lasts from now on and never shortens a lease",
    judge,
);

fn judge(seen: &Observation<'_>, model: &Model) -> Verdict {
    let Some((lease, _)) = seen.write() else { return Ok(()) };
    let Some(shard) = seen.shard(model) else {
        return Err("a write to a shard that nobody made".into());
    };
    let Some((owner, deadline)) = shard.lease else {
        return Err("a write to a shard that nobody holds".into());
    };
    let fence = lease.fence().as_raw();
    ensure(fence == shard.fence, || format!("fence {fence} wrote, {} was granted", shard.fence))?;
    ensure(fence >= model.floor, || format!("fence {fence} wrote below {}", model.floor))?;
    ensure(owner == lease.owner(), || format!("{} wrote, {owner} holds", lease.owner()))?;
    ensure(seen.now < deadline, || {
        format!("written at {}, the lease ended at {deadline}", seen.now)
    })?;
    let (Ok(Answer::Renewed(renewed)), Some(run)) = (seen.outcome, seen.run(model)) else {
        return Ok(());
    };
    let until = deadline.max(seen.now.saturating_add(run.config.lease_duration_ms.get()));
    ensure(renewed.new_deadline == until, || {
        format!("renewed until {}, not {until}", renewed.new_deadline)
    })
}
