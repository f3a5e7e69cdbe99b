//! The store on a real etcd: what only etcd can do wrong.
#![cfg(feature = "test-support")]
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
mod full;
mod history;
mod lost_replies;
mod silence;
mod support;
