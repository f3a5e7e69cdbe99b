//! The store on a real etcd.
#![cfg(feature = "test-support")]

mod basics;
mod support;
