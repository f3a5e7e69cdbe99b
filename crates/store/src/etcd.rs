//! A store on an etcd cluster, of version 3.4 or later.
//!
//! - Transactions decide everything. Waiting commits share one request.
//! - Revisions are etcd's. Commits of one request share a revision.
//! - Sessions are leases, kept alive over one stream.
//! - A write with unknown outcome is reported as such and never resent. `failure.rs` has the table
//!   of errors and outcomes.
//!
//! The client is small: `proto/etcd.proto` has the few methods that it uses.

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
