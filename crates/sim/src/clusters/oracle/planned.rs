use super::broken;
use crate::oracle::{Finding, Oracle};

pub(in crate::clusters) const ORACLE: &Oracle = &Oracle::of_the_world(
    "planned moves fail no call",
    "while nodes join, drain and leave and shards are moved, and nothing else goes wrong, every \
     call is answered",
);

/// A call that failed though nothing went wrong.
pub(in crate::clusters) fn failed(call: u64, why: &str) -> Finding {
    broken(ORACLE, format!("call {call} failed: {why}"))
}
