use shardwright_coordination::{CoordError, EventKind};

use super::{Observation, Oracle, Verdict, ensure};
use crate::model::Model;
use crate::request::Request;
use crate::visible;

pub(super) const ORACLE: Oracle = Oracle::before(
    "refusals are inert",
    "a refusal and a question change nothing that is seen and tell no event; only a shard that \
     failed too often is parked by the attempt to have it",
    judge,
);

fn judge(seen: &Observation<'_>, _: &Model) -> Verdict {
    if seen.outcome.is_ok() && !seen.request.is_query() {
        return Ok(());
    }
    let may_park = matches!(
        (seen.request, seen.outcome),
        (Request::Claim { .. }, _)
            | (Request::Acquire { .. }, Err(CoordError::RetriesExhausted(_)))
    );
    let parks = |event: &shardwright_coordination::StateTransitionEvent| {
        matches!(event.kind, EventKind::ShardParked { .. })
    };
    if may_park && !seen.events.is_empty() && seen.events.iter().all(parks) {
        return Ok(());
    }
    let name = seen.request.name();
    ensure(seen.events.is_empty(), || format!("a refused {name} told {:?}", seen.events))?;
    ensure(visible::same(seen.before, seen.after), || format!("a refused {name} left a mark"))
}
