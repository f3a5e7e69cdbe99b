//! The programs of a counter service, meant to be copied.
//!
//! `src/bin/node.rs` is the program that serves counters, and `src/bin/gate.rs` the one through
//! which clients call them. What a counter is, and how it is stored so that a replaced node can
//! write nothing, is in the crate `shardwright-demo`.
#![forbid(unsafe_code)]

mod server;

pub use server::{LINGER, ServerArguments, StoreChoice, follow_notices, serve_until};
