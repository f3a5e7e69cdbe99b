//! The basic types of all crates.
//!
//! This crate is pure: it reads no clock, file, socket or random source, starts no thread and logs
//! nothing. Time, ids and randomness are arguments.
//!
//! | module | contents |
//! |---|---|
//! | `identity` | ids of tenants, runs, shards, workers and operations, fences, time |
//! | [`limits`] | all limits of sizes and counts |
//! | `canonical` | the byte framing of hashes, and the hash domains |
//! | `cursor` | the progress of a shard, which only moves forward |
//! | `env` | time, tasks and randomness for drivers of protocols |
//! | [`hash`] | the hashes that assign ids to shards |
//! | `spec` | a shard's key range and metadata, owned and borrowed |
//! | `arena` | bounded storage for many specs, with checked handles |
//! | `manifest` | the initial shards of a run, and their validation |
//! | `split` | plans that replace or shrink a shard, checked to tile its range |
//!
//! [`InfraError`] is a failure of the store, the network or a disk. [`InvariantViolation`] is a
//! record that breaks an invariant.
//!
//! Two rules apply everywhere. Inputs (`SpecInput`, `CursorInput` and their borrowed forms
//! `ShardSpecRef`, `CursorUpdate`) are unchecked, and each operation checks its own. Owned types
//! (`ShardSpec`, `Cursor`) can only be built from checked inputs. And errors and `Debug` output
//! contain no key bytes, only their lengths.
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

mod arena;
mod canonical;
mod cursor;
mod env;
pub mod hash;
mod identity;
mod infra;
pub mod limits;
mod manifest;
mod redacted;
mod spec;
mod split;

pub use arena::{ByteSlab, ByteSlot, ShardArena, ShardSpecHandle, SlabFull, SlabTooLarge};
pub use canonical::{CanonicalBytes, CanonicalSink, Domain, DomainHasher};
pub use cursor::{
    Cursor, CursorInput, CursorInputError, CursorRegression, CursorSemantics, CursorUpdate,
    UnknownCursorSemantics,
};
pub use env::{BoxFuture, Env};
pub use identity::{
    FenceEpoch, FenceEpochError, LogicalTime, OpId, RunId, ShardId, ShardKey, TenantId, WorkerId,
};
pub use infra::{InfraError, InvariantViolation};
pub use manifest::{InitialShardInput, ManifestValidationError, ShardInput, validate_manifest};
pub use redacted::Redacted;
pub use spec::{IntoShardSpecRef, ShardSpec, ShardSpecInputError, ShardSpecRef, SpecInput};
pub use split::{
    SplitChild, SplitPart, SplitReplacePlan, SplitResidualPlan, SplitValidationError,
    plan_split_replace, plan_split_replace_with_children, plan_split_residual,
    plan_split_residual_with_metadata, validate_residual_split_bounds, validate_split_coverage,
};
