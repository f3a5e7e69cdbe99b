//! The sentences that must be true of a cluster.

pub(super) mod balance;
pub(super) mod calls;
pub(super) mod ownership;

use crate::oracle::{ASSERTIONS, Finding, Oracle};

/// Every oracle of a cluster.
pub const ALL: &[&Oracle] = &[
    ownership::CLAIMS,
    ownership::LEADING,
    ownership::EFFECTS,
    ownership::SERVING,
    ownership::EVICTION,
    calls::READS,
    calls::INCREMENTS,
    calls::PLANNED,
    calls::TIMELY,
    balance::BUDGETS,
    balance::ROUND_TRIPS,
    balance::REST,
    ownership::TAKING_OVER,
    ASSERTIONS,
];

pub(super) fn broken(oracle: &Oracle, text: String) -> Finding {
    Finding { oracle: oracle.name, text }
}

/// Content if `holds`; else tells why not.
fn ensure(oracle: &Oracle, holds: bool, text: impl FnOnce() -> String) -> Result<(), Finding> {
    if holds { Ok(()) } else { Err(broken(oracle, text())) }
}
