//! Allocations of the in-memory coordinator. A separate binary, because the counter is its
//! allocator.
#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests may use the real world"
)]
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod hot_path;
mod requests;
mod size;
