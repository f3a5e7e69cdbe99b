//! Plans of leaders, handovers and routes.
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

mod clocks;
mod properties;
mod stories;
mod story_teller;
#[path = "../support/mod.rs"]
mod support;
