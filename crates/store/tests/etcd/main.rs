//! The store on a real etcd.
#![cfg(feature = "test-support")]
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that panics is a test that fails"
)]

mod basics;
mod support;
