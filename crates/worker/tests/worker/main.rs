//! The worker loop: claims, items, commits, failures and stops.
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
    clippy::string_slice,
    reason = "a test that panics is a test that fails"
)]

mod blame;
#[path = "../checks/mod.rs"]
mod checks;
mod hints;
mod late_answers;
mod lost_answers;
mod processing;
mod retries;
mod slow_disk;
mod source_failures;
mod split_requests;
mod stops;
#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "each test binary uses its own part")]
mod support;
mod tokens;
mod worker_failures;
