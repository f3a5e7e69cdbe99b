//! The run protocol as the in-memory coordinator executes it.
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
    clippy::unwrap_used,
    reason = "a test that panics is a test that fails"
)]

#[cfg(feature = "conformance")]
mod conformance;
mod redaction;
mod script_runner;
mod scripts;
