//! Handlers that are programs: one per item, one per batch, or persistent.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test that panics is a test that fails"
)]

#[path = "../checks/mod.rs"]
mod checks;
mod limits;
mod lines;
mod missing_programs;
mod outliving;
mod persistent;
mod programs;
mod records;
#[path = "../../../worker/tests/support/mod.rs"]
#[allow(dead_code, reason = "each test binary uses its own part")]
mod support;
