//! Every stored record as bytes, and back.
//!
//! A record begins with a byte that names its [`Kind`] and a version byte, so that a value under
//! the wrong key, or one from the future, is told from what belongs there. The fields follow in
//! the canonical framing: integers little-endian, byte strings and lists behind a `u32`, options
//! behind a presence byte, enums one byte.
//!
//! There is exactly one encoding of each record, and decoding accepts no other: whatever decodes
//! encodes to the same bytes. Decoding is total. It refuses what is cut short, what has bytes to
//! spare, bytes that name nothing and records that no operation can have produced, and it reserves
//! no memory that the input does not pay for. Encoding checks nothing: a record is checked before
//! it is stored by whoever changed it.
//!
//! A shard is two records, because every checkpoint writes one of them: its [`Definition`] (what
//! it is, up to 41 kB) and its [`Progress`] (where it stands). A run is two as well: [`Run`] and
//! its [`Manifest`], which never changes. [`split_shard`], [`join_shard`], [`split_run`] and
//! [`join_run`] go between those and the records that the operations know.
//!
//! A cluster is a [`ClusterPlan`], its members ([`NodeMember`], [`ClusterGate`]), a
//! [`ClusterLeader`], targets under one version ([`TargetHead`] and some [`TargetChunk`]s) and a
//! [`ShardClaim`] per shard.

mod cluster_records;
mod error;
mod field;
mod kind;
mod reader;
mod record;
mod run;
mod run_records;
mod shard;
mod store_records;
mod target_chunk;

pub use cluster_records::{
    ClusterFormat, ClusterGate, ClusterLeader, ClusterPlan, ClusterProtocol, DrainMark, Leaving,
    NodeMember, ShardClaim, TargetHead,
};
pub use error::{DecodeError, Problem};
pub use field::Field;
pub use kind::Kind;
pub use reader::{List, ReadFields, Reader};
pub use record::{Record, VERSION, encode_as};
pub use run::{Manifest, Run, join_run, split_run};
pub use run_records::{
    Asker, Binding, Count, Estimate, Gate, Named, OpenShard, Purpose, Quota, RunProtocol, SplitAsk,
    Stage, Waiting, Watermark,
};
pub use shard::{Definition, Progress, join_shard, split_shard};
pub use store_records::{ClockMark, Format, Incarnation};
pub use target_chunk::TargetChunk;
// `record!` refers to these here, so that its callers need not depend on `contracts`.
pub use shardwright_contracts::{CanonicalBytes, CanonicalSink};
