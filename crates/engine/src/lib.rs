//! Where bytes and protocol meet.
//!
//! The protocols know records and no bytes, a store knows bytes and no records. This crate knows
//! both.
//!
//! | module | what it holds |
//! |---|---|
//! | [`codec`] | every stored record as bytes, and back |
//! | [`keyspace`] | under which key each record is stored |
//! | [`cluster`] | the cluster protocol over any store |
//! | [`watch`] | a value that changes, and those who wait for it |
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

pub mod cluster;
pub mod codec;
pub mod keyspace;

mod backend;
mod call;
mod claiming;
mod clock;
mod collection;
mod config;
mod coordinator;
mod directory;
mod effects;
mod estimates;
mod fault;
mod floor;
mod listing;
mod operate;
mod ownership;
mod publish;
mod quota;
mod reading;
mod registration;
mod requests;
mod runs;
mod shard;
mod signs;
mod together;
mod transact;
mod view;
pub mod watch;
mod watermark;
mod world;

pub use collection::{Retention, RunAddress};
pub use config::{EngineConfig, Sessions};
pub use coordinator::{OpenError, StoredCoordinator};
pub use publish::{Heard, Listener};
#[cfg(feature = "etcd")]
pub use world::{AsyncEtcdCoordinator, EtcdCoordinator, EtcdError};
pub use world::{Blocking, BlockingError, FileCoordinator, FolderError, TokioEnv};
