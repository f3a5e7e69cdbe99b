//! The oracles of a cluster.

pub(super) mod balance;
pub(super) mod calls;
pub(super) mod ownership;

use crate::oracle::{ASSERTIONS, Finding, Oracle};

/// Every oracle of a cluster.
pub const ALL: &[&Oracle] = &[
    ownership::CLAIMS,
    ownership::LEADERSHIP,
    ownership::EFFECTS,
    ownership::SERVING,
    ownership::EVICTION,
    calls::READS,
    calls::INCREMENTS,
    calls::PLANNED,
    calls::DEADLINES,
    balance::BUDGETS,
    balance::ROUND_TRIPS,
    balance::CONVERGENCE,
    ownership::TAKEOVER,
    ASSERTIONS,
];

pub(super) fn violation(oracle: &Oracle, text: String) -> Finding {
    Finding { oracle: oracle.name, text }
}

/// Ok if `holds`, else a violation of the oracle.
fn ensure(oracle: &Oracle, holds: bool, text: impl FnOnce() -> String) -> Result<(), Finding> {
    if holds { Ok(()) } else { Err(violation(oracle, text())) }
}
