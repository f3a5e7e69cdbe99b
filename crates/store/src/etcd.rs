//! A store on an etcd cluster, of version 3.4 or later.
//!
//! - Everything is decided by transactions; what waits together goes in one request.
//! - Revisions are etcd's. Commits that went in one request share theirs.
//! - Sessions are leases, kept alive over one stream.
//! - A write whose outcome is not known is reported as such and never sent again; the table of
//!   what is known after which error is in `failure.rs`.
//!
//! The client is our own and thin: the few methods we need, in `proto/etcd.proto`.

mod access;
mod answer;
pub(crate) mod client;
pub(crate) mod connection;
#[cfg(test)]
#[cfg(feature = "test-support")]
mod facts;
mod failure;
mod options;
mod read;
mod session;
mod store;
mod transaction;
mod watch;
pub(crate) mod wire;
mod write;

pub use access::{EtcdAccess, EtcdAccessError};
pub use options::{EtcdOptions, EtcdServerLimits, EtcdTimeouts, EtcdTls};
pub use store::EtcdStore;
