//! Every stored record as bytes, and back.
//!
//! A record starts with a [`Kind`] byte and a version byte, so that decoding rejects a value under
//! the wrong key or of a later version. The fields follow in the canonical framing: integers
//! little-endian, byte strings and lists behind a `u32`, options behind a presence byte, enums one
//! byte.
//!
//! Each record has exactly one encoding: bytes that decode encode to the same bytes. Decoding is
//! total. It rejects truncated records, trailing bytes, unknown bytes and records that no operation
//! can have written. It allocates no more than the input's length justifies. Encoding checks
//! nothing: an operation checks a record before storing it.
//!
//! | file | content |
//! |---|---|
//! | `kind` | the registry of kinds |
//! | `record`, `field` | [`Record`], [`Field`] and the macro [`record!`](crate::record) |
//! | `reader`, `error` | reading fields, and why a value cannot be read |
//! | `store_records` | clock mark, incarnation and format of the store |
//! | `run_records` | records of the run protocol |
//! | `shard`, `run` | a shard and a run, two records each |
//! | `cluster_records`, `target_chunk` | records of the cluster protocol |
//!
//! A shard is two records because every checkpoint writes one of them: [`Definition`] is up to
//! 41 kB long and rarely changes, [`Progress`] is short. A run is a [`Run`] and a [`Manifest`],
//! which never changes. [`split_shard`], [`join_shard`], [`split_run`] and [`join_run`] convert
//! between these and the records of the operations.
//!
//! A cluster is a [`ClusterPlan`], its members ([`NodeMember`], [`ClusterGate`]), a
//! [`ClusterLeader`], targets under one version ([`TargetHead`] and [`TargetChunk`]s) and a
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
