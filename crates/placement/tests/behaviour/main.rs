//! Plans, handovers and routes of simulated clusters.
#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests may use the real world"
)]
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test that panics is a test that fails"
)]

#[path = "../checks/mod.rs"]
mod checks;
mod clocks;
mod properties;
mod script_runner;
mod scripts;
#[path = "../support/mod.rs"]
mod support;
mod texts;
