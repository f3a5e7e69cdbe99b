//! Records and keys as bytes. A binary of its own: the counter is its allocator.
#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests may use the real world"
)]
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that panics is a test that fails"
)]

mod any;
#[path = "../checks/mod.rs"]
mod checks;
mod examples;
mod golden;
mod properties;
mod refusals;
