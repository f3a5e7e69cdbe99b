use shardwright_coordination::RunStatus;

use super::{Observation, Oracle, Verdict, ensure};
use crate::model::Model;
use crate::request::Request;
use crate::system::Answer;
use crate::visible;

pub(super) const ORACLE: Oracle = Oracle::before(
    "run gate",
    "nothing changes in a run that has ended, and a paused one hands out nothing",
    judge,
);

fn judge(seen: &Observation<'_>, model: &Model) -> Verdict {
    let Some(run) = seen.run(model) else { return Ok(()) };
    if run.status.is_terminal() {
        ensure(visible::same(seen.before, seen.after), || {
            format!("{} changed a run that is {:?}", seen.request.name(), run.status)
        })?;
    }
    if matches!(seen.outcome, Ok(Answer::Granted(_))) {
        ensure(!run.paused, || "a paused run handed out a shard".into())?;
    }
    let of_shards = matches!(
        seen.request,
        Request::Acquire { .. }
            | Request::Claim { .. }
            | Request::Holder { .. }
            | Request::RequestSplit { .. }
            | Request::Unpark { .. }
    );
    ensure(!of_shards || seen.executed().is_none() || run.status == RunStatus::Active, || {
        format!("{} was accepted in a run that is {:?}", seen.request.name(), run.status)
    })
}
