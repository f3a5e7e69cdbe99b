use super::ensure;
use crate::oracle::{Finding, Oracle};
use crate::workers::script::Call;
use crate::workers::truth::Truth;

pub(in crate::workers) const ORACLE: &Oracle = &Oracle::of_the_world(
    "one holder works on an item",
    "while a lease is valid, no other handler call works on an item that is being worked on under \
     it; clocks beyond the allowance and ended sessions excepted",
);

/// Judges a call that begins beside one whose process runs.
pub(in crate::workers) fn judge(
    truth: &Truth,
    begun: &Call,
    other: &Call,
    is_skewed: bool,
) -> Result<(), Finding> {
    let shared = begun.items.iter().find(|item| other.items.contains(item));
    let is_same = (begun.shard, begun.fence) == (other.shard, other.fence);
    let is_over =
        |call: &Call| truth.grant(call.shard, call.fence).is_none_or(|grant| grant.session_ended);
    let may_overlap = !is_same && (is_skewed || is_over(begun) || is_over(other));
    ensure(ORACLE, shared.is_none() || may_overlap, || {
        format!("{begun:?} begins while {other:?} goes on")
    })
}
