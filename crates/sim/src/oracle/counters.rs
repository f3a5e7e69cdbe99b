use shardwright_contracts::LogicalTime;
use shardwright_coordination::{RunProgress, ShardFilter, ShardStatus, ShardSummary};

use super::{Observation, Oracle, Verdict, ensure};
use crate::model::Model;
use crate::request::Request;
use crate::system::Answer;
use crate::visible::RunView;

pub(super) const ORACLE: Oracle = Oracle::before(
    "counters equal a recount",
    "progress counts, and filtered lists contain, just what a count of all shards finds",
    judge,
);

fn judge(seen: &Observation<'_>, _: &Model) -> Verdict {
    let Some(view) = seen.after else { return Ok(()) };
    agree(view, &view.progress, view.at)?;
    match (seen.request, seen.outcome) {
        (_, Ok(Answer::Progress(progress))) => agree(view, progress, seen.now),
        (Request::List { filter, .. }, Ok(Answer::Shards(shards))) => {
            let passing: Vec<_> =
                view.shards.iter().filter(|shard| passes(filter, shard, seen.now)).collect();
            let same = passing.len() == shards.len()
                && passing.iter().zip(shards).all(|(one, other)| one.shard == other.shard);
            ensure(same, || format!("{filter:?} listed {} of {}", shards.len(), passing.len()))
        }
        _ => Ok(()),
    }
}

fn agree(view: &RunView, told: &RunProgress, now: LogicalTime) -> Verdict {
    let count = |status| view.shards.iter().filter(|shard| shard.status == status).count() as u32;
    let leased = view.shards.iter().filter(|shard| is_leased(shard, now)).count() as u32;
    let counted = [
        count(ShardStatus::Active),
        count(ShardStatus::Done),
        count(ShardStatus::Split),
        count(ShardStatus::Parked),
        leased,
    ];
    let told = [told.active, told.done, told.split, told.parked, told.leased];
    ensure(told == counted, || format!("progress told {told:?}, a recount finds {counted:?}"))
}

fn is_leased(shard: &ShardSummary, now: LogicalTime) -> bool {
    shard.lease_deadline.is_some_and(|deadline| now < deadline)
}

fn passes(filter: &ShardFilter, shard: &ShardSummary, now: LogicalTime) -> bool {
    filter.status.is_none_or(|status| status == shard.status)
        && filter.is_leased.is_none_or(|leased| leased == is_leased(shard, now))
        && !(filter.root_only && shard.shard.is_derived())
}
