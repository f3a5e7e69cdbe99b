//! The run protocol over any store.
//!
//! [`coordination`](shardwright_coordination) knows rules and no bytes; a store knows bytes and no
//! rules. This crate loads what an operation needs, applies the rules, and stores the result in one
//! commit. The commit compares everything that the decision was based on.
//!
//! | module | what it holds |
//! |---|---|
//! | [`records`] | every record of the run protocol as bytes, and back |
//! | [`keys`] | under which key each record is stored |
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

pub mod keys;
pub mod records;

mod attempts;
mod backend;
mod claiming;
mod collection;
mod config;
mod coordinator;
mod directory;
mod effects;
mod estimates;
mod operate;
mod ownership;
mod publish;
mod quota;
mod reading;
mod registration;
mod requests;
mod runs;
mod shard;
mod view;
mod watermark;
mod world;

pub use collection::{Retention, RunAddress};
pub use config::{CoordinatorOpenError, EngineConfig, EngineConfigError, LeaseBinding};
pub use coordinator::StoredCoordinator;
pub use publish::{Delivery, EventStream};
pub use shardwright_engine::setup::StoreOpenError;
#[cfg(feature = "etcd")]
pub use world::{AsyncEtcdCoordinator, EtcdCoordinator, EtcdError};
pub use world::{Blocking, BlockingError, FileCoordinator, FileCoordinatorError};
