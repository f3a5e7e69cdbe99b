//! The parts that protocols over a store share. The crate handles bytes and knows no protocol.
//!
//! A protocol crate declares its records and keys, and writes its operations as transactions. This
//! crate encodes, commits, retries, and keeps time and sessions.
//!
//! | module | what it holds |
//! |---|---|
//! | [`transact`] | the one commit path: load, decide, commit, finish |
//! | [`codec`] | encoding and decoding records |
//! | [`keyspace`] | keys of one system within a store |
//! | [`setup`] | opening a store: its format and its generation |
//! | [`clock`], [`floor`] | the clock that leases expire by, the lowest valid fence |
//! | [`follow`] | keeping state current with a range |
//! | [`keep_alive`] | keeping a session alive |
//! | [`listing`] | reading keys and records, and ranges at one revision |
//! | [`single_flight`] | one attempt for all callers that wait |
//! | [`watch`] | a value with change notifications |
//! | [`Operation`] | names of operations and their steps |
//! | [`TokioEnv`], [`random`] | the real environment, and its randomness |
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
pub mod follow;
pub mod keep_alive;
pub mod keyspace;
pub mod listing;
pub mod setup;
pub mod single_flight;
pub mod transact;
pub mod watch;

mod operation;
mod world;

pub use operation::Operation;
pub use world::{TokioEnv, random};
