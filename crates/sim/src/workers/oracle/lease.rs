use super::ensure;
use crate::oracle::{Finding, Oracle};
use crate::workers::script::Call;
use crate::workers::truth::Truth;

pub(in crate::workers) const ORACLE: &Oracle = &Oracle::of_the_world(
    "no work beyond the lease",
    "a handler call runs only under a granted lease, and is dropped before nine tenths of the \
     lease are over since the store last extended it",
);

/// Judges a handler call whose process runs.
pub(in crate::workers) fn judge(truth: &Truth, call: &Call, now_us: u64) -> Result<(), Finding> {
    let until_us = truth.grant(call.shard, call.fence).map(|grant| grant.usable_until_us);
    ensure(ORACLE, until_us.is_some_and(|until_us| now_us <= until_us), || {
        let (number, shard) = (call.number, call.shard);
        format!("call {number} works on shard {shard} at {now_us}, allowed until {until_us:?}")
    })
}
