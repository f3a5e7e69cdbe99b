//! Keys, ranges and metadata as bytes.
#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests may use the real world"
)]
#![allow(clippy::indexing_slicing, reason = "a test that panics is a test that fails")]

#[path = "../checks/mod.rs"]
mod checks;
mod oversized_prefix;
mod properties;
