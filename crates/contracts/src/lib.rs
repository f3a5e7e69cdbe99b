//! The nouns that every other crate speaks in.
//!
//! This crate is pure: it reads no clock, no file, no socket and no source of chance, starts no
//! thread and logs nothing. Time, ids and randomness reach it as arguments.
//!
//! | module | what it holds |
//! |---|---|
//! | [`identity`] | who and what: tenants, runs, shards, workers, operations, fences, time |
//! | [`limits`] | every size and count that anything in the project may reach |
//! | [`canonical`] | the one byte framing that is hashed, and the hash domains |
//! | [`cursor`] | how far a shard has been processed, and the rule that it only moves forward |
//! | [`mod@env`] | time, tasks and chance, which whoever drives a protocol gets as an argument |
//! | [`hash`] | the hashes that say which shard something belongs to |
//! | [`spec`] | a shard's key range and metadata, owned and borrowed |
//! | [`arena`] | bounded storage for many specs, with handles that cannot lie |
//! | [`manifest`] | the initial shards of a run, and what makes such a list valid |
//! | [`split`] | plans that replace a shard by children or shrink it, proved to tile its range |
//!
//! [`InfraError`] is the failure below every protocol: of the store, the network or a disk.
//! [`InvariantViolation`] is a record that cannot be.
//!
//! Two habits run through all of it. Inputs (`SpecInput`, `CursorInput` and their borrowed forms
//! `ShardSpecRef`, `CursorUpdate`) are what a caller handed in and are checked by the operation
//! that takes them; owned types (`ShardSpec`, `Cursor`) can only be built from something that
//! passed those checks. And key bytes never appear in an error or in `Debug` output: only their
//! lengths do.
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

pub mod arena;
pub mod canonical;
pub mod cursor;
pub mod env;
pub mod hash;
pub mod identity;
mod infra;
pub mod limits;
pub mod manifest;
mod redacted;
pub mod spec;
pub mod split;

pub use arena::{ByteSlab, ByteSlot, ShardArena, ShardSpecHandle, SlabFull, SlabTooLarge};
pub use canonical::{CanonicalBytes, CanonicalSink, Domain, DomainHasher};
pub use cursor::{
    Cursor, CursorInput, CursorInputError, CursorRegression, CursorSemantics, CursorUpdate,
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
