//! What protocols over a store share. It knows bytes and no protocol.
//!
//! A protocol crate declares its records and keys, and writes its operations as transactions. This
//! crate encodes, commits, retries, and keeps time and sessions.
//!
//! | module | what it holds |
//! |---|---|
//! | [`transact`] | the one commit path: load, decide, commit, finish |
//! | [`codec`] | records as bytes, and back |
//! | [`keyspace`] | keys of one system within a store |
//! | [`setup`] | opening a store: its format and its generation |
//! | [`clock`], [`floor`] | the time that leases are judged by, the lowest valid fence |
//! | [`keep_alive`] | keeping a session alive |
//! | [`listing`] | reading a range of keys at one revision |
//! | [`single_flight`] | one attempt for all callers that wait |
//! | [`watch`] | a value that changes, and those who wait for it |
//! | [`fault`] | failures of a store as [`InfraError`](shardwright_contracts::InfraError) |
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::disallowed_types,
        reason = "tests may use the real world"
    )
)]

pub mod clock;
pub mod codec;
pub mod fault;
pub mod floor;
pub mod keep_alive;
pub mod keyspace;
pub mod listing;
pub mod setup;
pub mod single_flight;
pub mod transact;
pub mod watch;
mod world;

pub use world::TokioEnv;
