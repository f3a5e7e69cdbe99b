//! The programs of a counter service, meant to be copied.
//!
//! `src/bin/node.rs` serves counters, and `src/bin/gate.rs` accepts the calls of clients. The crate
//! `shardwright-demo` defines the counter and its storage, which rejects writes of a replaced node.
#![forbid(unsafe_code)]

mod server;

pub use server::{LINGER, ServerArguments, follow_notices, serve_until};
