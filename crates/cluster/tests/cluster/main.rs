//! The cluster driver under store failures, crashes and concurrent processes.
#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests may use the real world"
)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that panics is a test that fails"
)]

mod admin;
mod claims;
mod deletion;
mod existence;
#[path = "../../../engine/tests/support/flaky.rs"]
#[allow(dead_code, reason = "each test uses its own part")]
mod flaky;
mod leading;
mod membership;
mod opening;
mod quarantine;
mod random_faults;
mod real;
mod site;
#[path = "../../../engine/tests/support/mod.rs"]
mod support;
mod text;
mod views;
