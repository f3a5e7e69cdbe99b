//! The run protocol on every store: conformance, differential, crashes and damage.
#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests may use the real world"
)]
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used,
    reason = "a test that panics is a test that fails"
)]

mod conformance_etcd;
mod conformance_file;
mod conformance_memory;
mod deaths;
mod differential;
mod file_damage;
mod file_standstill;
#[path = "../../../engine/tests/support/flaky.rs"]
#[allow(dead_code, reason = "each test binary uses its own part")]
mod flaky;
#[path = "../support/mod.rs"]
mod support;
