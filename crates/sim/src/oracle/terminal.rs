use shardwright_coordination::ShardStatus;

use super::{Observation, Oracle, Verdict, ensure};
use crate::model::Model;
use crate::request::Request;

pub(super) const ORACLE: Oracle = Oracle::before(
    "terminal stays terminal",
    "a finished or replaced shard never changes again, a parked one only by unparking, an ended \
     run's status never",
    judge,
);

fn judge(seen: &Observation<'_>, _: &Model) -> Verdict {
    let (Some(before), Some(after)) = (seen.before, seen.after) else { return Ok(()) };
    let (was, is) = (before.record.status, after.record.status);
    ensure(!was.is_terminal() || was == is, || format!("a run went from {was:?} to {is:?}"))?;
    if seen.executed().is_none() {
        return Ok(());
    }
    for was in before.shards.iter().filter(|shard| shard.status.is_terminal()) {
        let unparked = was.status == ShardStatus::Parked
            && matches!(seen.request, Request::Unpark { key, .. } if key.shard == was.shard);
        if unparked {
            continue;
        }
        let is = after.shards.iter().find(|shard| shard.shard == was.shard);
        ensure(is == Some(was), || format!("a settled shard changed: {was:?}, then {is:?}"))?;
    }
    Ok(())
}
