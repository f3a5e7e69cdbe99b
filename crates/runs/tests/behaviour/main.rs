//! The stored coordinator under store failures, crashes and concurrent processes.
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

mod blocking;
mod cancelling;
mod claiming;
mod clock;
mod collection;
mod damage;
mod directory;
mod events;
#[path = "../../../engine/tests/support/flaky.rs"]
mod flaky;
mod full;
mod holders;
mod opening;
mod quarantine;
mod quotas;
mod reading;
mod registration;
mod retention;
mod sessions;
mod sharing;
mod silence;
mod site;
mod stale;
mod steps;
#[path = "../support/mod.rs"]
mod support;
mod unknown;
