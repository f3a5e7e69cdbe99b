use std::collections::BTreeSet;

use shardwright_coordination::{RunStatus, ShardStatus};

use super::ensure;
use crate::oracle::{Finding, Oracle};
use crate::workers::source::left;
use crate::workers::truth::Truth;

pub(in crate::workers) const ORACLE: &Oracle = &Oracle::of_the_world(
    "everything is done once faults stop",
    "once faults stop and operators unpark what did not deserve it, the run completes, or nothing \
     but poisoned items is parked",
);

/// What keeps the run from its end; none if it has ended as it should.
pub(in crate::workers) fn missing(truth: &Truth, bad: &BTreeSet<u64>) -> Option<String> {
    let status = truth.status();
    if matches!(status, Some(RunStatus::Done | RunStatus::Cancelled)) {
        return None;
    }
    let with = |wanted| truth.shards().filter(move |shard| shard.head.status == wanted);
    let active = with(ShardStatus::Active).count();
    let parked: BTreeSet<u64> = with(ShardStatus::Parked).flat_map(left).collect();
    let spared: Vec<&u64> = parked.difference(bad).collect();
    let is_settled = status == Some(RunStatus::Active) && active == 0 && spared.is_empty();
    (!is_settled || parked.is_empty())
        .then(|| format!("the run is {status:?}, {active} shards active, {spared:?} parked"))
}

/// The finding that the run does not end.
pub(in crate::workers) fn judge(missing: Option<String>) -> Result<(), Finding> {
    ensure(ORACLE, missing.is_none(), || missing.unwrap_or_default())
}
