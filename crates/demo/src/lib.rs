//! Counters that live in the shards of a cluster.
//!
//! It is the smallest service that loses nothing. [`Counters`] is the type of objects: what a
//! counter is while it is on a node, and how it answers `add` and `get`. [`Record`] is what is
//! stored of it. [`Load`] is many clients at once that record every answer, and [`Verdict`]
//! compares their records with what is stored.
//!
//! **The fence goes to the store.** A node that is stopped for a while, and replaced, does not know
//! that. What it was about to write when it was stopped it may still write when it goes on. So each
//! counter is stored together with the fence of the node that wrote it last, the first thing that a
//! node does about a counter is to write its own fence there, and every write names the revision
//! that it follows. From then on no write of an earlier holder is accepted: what it writes follows
//! a revision that has gone.
#![forbid(unsafe_code)]

mod counter;
mod load;
mod record;
mod verdict;

pub use counter::{Counter, Counters, TYPE};
pub use load::{Failure, Load, LoadOptions, Tally};
pub use record::{Record, RecordError};
pub use verdict::{Recorded, Trouble, Verdict};
