//! The sentences that must be true of a cluster, one file each.

pub(super) mod budgets;
pub(super) mod claims;
pub(super) mod effects;
pub(super) mod eviction;
pub(super) mod increments;
pub(super) mod leading;
pub(super) mod planned;
pub(super) mod reads;
pub(super) mod rest;
pub(super) mod round_trips;
pub(super) mod serving;
pub(super) mod taking_over;
pub(super) mod timely;

use crate::oracle::{ASSERTIONS, Finding, Oracle};

/// Every oracle of a cluster.
pub const ALL: &[&Oracle] = &[
    claims::ORACLE,
    leading::ORACLE,
    effects::ORACLE,
    serving::ORACLE,
    eviction::ORACLE,
    reads::ORACLE,
    increments::ORACLE,
    planned::ORACLE,
    timely::ORACLE,
    budgets::ORACLE,
    round_trips::ORACLE,
    rest::ORACLE,
    taking_over::ORACLE,
    ASSERTIONS,
];

pub(super) fn broken(oracle: &Oracle, text: String) -> Finding {
    Finding { oracle: oracle.name, text }
}

/// Content if `holds`; else tells why not.
fn ensure(oracle: &Oracle, holds: bool, text: impl FnOnce() -> String) -> Result<(), Finding> {
    if holds { Ok(()) } else { Err(broken(oracle, text())) }
}
