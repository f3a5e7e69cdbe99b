//! Linearizable key-value stores behind one trait.
//!
//! A [`Store`] holds bytes under keys. Only a [`Commit`] decides: a set of expectations about keys
//! and a set of writes, all or nothing. Reads, scans and watches only suggest what to expect.
//! Callers stay correct if they are out of date.
//!
//! This crate does not interpret the bytes.

mod address;
mod any;
#[cfg_attr(
    not(feature = "etcd"),
    allow(dead_code, reason = "only the etcd store decides a batch in parts")
)]
mod batch;
mod clock;
mod commit;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
#[cfg(feature = "etcd")]
pub mod etcd;
pub mod file;
mod folder;
mod key;
mod limits;
pub mod memory;
mod shared;
mod store;
#[cfg(feature = "test-support")]
pub mod testing;
mod watch;

pub use address::{ConnectError, StoreAddress};
pub use any::AnyStore;
pub use clock::{MachineClock, ManualClock, SessionClock};
pub use commit::{Commit, CommitBuilder, CommitShapeError, Expect, Expectation, Write};
pub use error::{
    CommitError, Conflict, Fault, FaultKind, ScanError, SessionError, StoreError, WatchError,
};
pub use file::lock_holders;
pub use folder::{FolderOwner, ForeignState, TrustedFolders, create_private_folder};
pub use key::{Key, StoreRange};
pub use limits::{LimitExceeded, StoreLimits};
pub use store::{
    Continuation, Revision, ScanFrom, ScanPage, Session, SessionId, Snapshot, Store, Versioned,
};
pub use watch::{Change, ChangeSender, ChangeSet, Changes};
