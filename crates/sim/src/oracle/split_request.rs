use super::{Observation, Oracle, Verdict, ensure};
use crate::model::Model;
use crate::request::Request;
use crate::system::Answer;

pub(super) const ORACLE: Oracle = Oracle::both(
    "split requests",
    "of a shard one split is asked for at a time, and by an asker one; not before the time that a \
     holder named; and holders are told what was asked and whether the run is paused, but with \
     a replay nothing",
    asked,
    told,
);

fn asked(seen: &Observation<'_>, model: &Model) -> Verdict {
    let (Request::RequestSplit { key, asker, expires_at }, Ok(_)) = (seen.request, seen.outcome)
    else {
        return Ok(());
    };
    ensure(seen.now < *expires_at, || format!("asked until {expires_at}, which is over"))?;
    let (Some(run), Some(shard)) = (seen.run(model), seen.shard(model)) else { return Ok(()) };
    ensure(shard.holder(seen.now).is_some(), || "nobody was asked".into())?;
    let open = shard.open_request(seen.now);
    ensure(open.is_none_or(|open| open.requester == *asker), || "a holder was asked twice".into())?;
    ensure(shard.declined_until.is_none_or(|time| time <= seen.now), || {
        format!("asked before {:?}", shard.declined_until)
    })?;
    ensure(!run.has_asked(*asker, seen.now, key.shard), || format!("{asker} asked two holders"))
}

fn told(seen: &Observation<'_>, model: &Model) -> Verdict {
    let notice = match seen.outcome {
        Ok(Answer::Renewed(renewed)) => renewed.notice,
        Ok(Answer::Noticed { replayed: true, notice }) => {
            return ensure(notice.is_none(), || "a replay was told more".into());
        }
        Ok(Answer::Noticed { notice, .. }) => *notice,
        _ => return Ok(()),
    };
    let Some(notice) = notice else { return Err("a holder was told nothing".into()) };
    let (Some(run), Some(shard)) = (seen.run(model), seen.shard(model)) else { return Ok(()) };
    ensure(notice.paused == run.paused, || format!("paused: {}, told otherwise", run.paused))?;
    let open = shard.open_request(seen.now);
    ensure(notice.split_request == open, || {
        format!("{:?} was told, {open:?} was asked", notice.split_request)
    })
}
