//! The commands that start, operate and demonstrate clusters.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that panics is a test that fails"
)]

mod attacks;
mod demo;
mod hostile;
mod operating;
mod server;
mod starting;
mod storm;
#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "each test binary uses its own part")]
mod support;
