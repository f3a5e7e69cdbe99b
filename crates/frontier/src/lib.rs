//! Shards from typed keys, and shards of numeric ids.
//!
//! Lower layers know shards only as ranges of bytes. This crate connects them with paths, rows and
//! tuples:
//!
//! - [`key_encoding`] encodes typed keys as bytes of the same order, and does arithmetic on such
//!   bytes: the next key, the end of a prefix, a midpoint of two keys.
//! - [`hint`] stores in a shard's metadata what its range represents (a prefix, rows of a
//!   manifest), and derives the hints of children when a shard is split.
//! - [`builder`] collects the initial shards of a run in preallocated memory and checks them.
//! - [`router`] maps a numeric id to the one shard that owns it.
//!
//! The crate is pure: no IO, clock, randomness or threads. Functions write into buffers that the
//! caller owns and reuses ([`KeyBuf`], [`MetadataBuf`], [`ShardSpecScratch`]), so hot paths do not
//! allocate. Results borrow from the buffer until the next write to it.
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

// The checks that the fuzz targets share name the crate like other crates do.
#[cfg(test)]
extern crate self as shardwright_frontier;

pub mod builder;
#[cfg(test)]
#[path = "../tests/checks/mod.rs"]
mod checks;
pub mod hint;
pub mod key_encoding;
#[cfg(test)]
mod properties;
pub mod router;

pub use builder::{PreallocShardBuilder, PreallocShardBuilderError};
pub use hint::{
    HintPropagationError, HintedSplitError, MetadataBuf, ShardEncodeError, ShardHint,
    ShardHintDecodeError, ShardMetadata, ShardMetadataDecodeError, ShardSpecScratch, SplitBoundary,
    decode_connector_extra, decode_hint, decode_metadata, manifest_shard_into, manifest_shard_ref,
    plan_hinted_split_replace, plan_hinted_split_residual, plan_hinted_split_residual_with_extra,
    prefix_shard_into, prefix_shard_ref, propagate_hint_on_split, range_shard_into,
    range_shard_ref,
};
pub use key_encoding::{
    CompositeDecodeError, CompositeKey, KeyBuf, KeyEncoding, ManifestRowKey, PathKey, PathKeyError,
    PrefixShardError, ShardIntoError, byte_midpoint, decode_composite_part, decode_f64_key,
    decode_i64_key, decode_manifest_row_key, decode_u64_key, key_successor, prefix_successor,
    shard_spec_from_keys_into, shard_spec_from_keys_ref, shard_spec_from_manifest_range_into,
    shard_spec_from_manifest_range_ref, shard_spec_from_prefix_into, shard_spec_from_prefix_ref,
};
pub use router::{EntityId, EntityIdRange, RouterError, RoutingStrategy, ShardRouter};
