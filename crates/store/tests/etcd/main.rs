//! The store on a real etcd, with failures that only etcd has.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that panics is a test that fails"
)]

mod access;
mod batches;
mod cluster;
#[cfg(feature = "conformance")]
mod conformance;
mod differential;
mod full;
#[cfg(feature = "conformance")]
#[path = "../harness/mod.rs"]
mod harness;
mod history;
mod lost_replies;
mod silence;
mod support;
