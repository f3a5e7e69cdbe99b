//! Counters as objects in the shards of a cluster: the smallest service that loses no increment.
//!
//! [`Counters`] is the object type: it activates a counter on a node, and handles `add` and `get`.
//! [`Record`] is the stored form of a counter. [`Load`] makes many calls at once and records every
//! answer. [`Verdict`] compares these records with the store.
//!
//! **The store checks the fence.** A node that was stopped and replaced does not know it, and may
//! still send a write when it continues. Three rules make the store reject such a write:
//!
//! - Each counter is stored with the fence of the node that wrote it last.
//! - On activation, a node first writes its own fence.
//! - Every write names the revision that it replaces. A write of an earlier holder names an old
//!   revision.
#![forbid(unsafe_code)]

mod counter;
mod load;
mod record;
mod verdict;

pub use counter::{Counter, Counters, TYPE};
pub use load::{Failure, Load, LoadOptions, Tally};
pub use record::{Record, RecordError};
pub use verdict::{Fault, Recorded, Verdict};
