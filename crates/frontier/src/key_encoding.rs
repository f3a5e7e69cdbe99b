//! Typed keys as bytes that sort the same way, and arithmetic on those bytes.
//!
//! Everything else in the project compares keys byte by byte. That is only right if an encoding
//! keeps two promises, which [`KeyEncoding`] asks of every implementation:
//!
//! - **order**: `a < b` for the typed keys means `encode(a) < encode(b)` for the bytes;
//! - **canonical form**: equal keys have equal bytes, always.
//!
//! Ready-made are paths ([`PathKey`]), rows of a manifest ([`ManifestRowKey`]), `u64`, `i64`,
//! `f64`, strings and byte strings, and tuples of all of these.

mod arithmetic;
mod buf;
mod composite;
mod manifest_row;
mod path;
mod scalar;
mod spec;

pub use arithmetic::{byte_midpoint, key_successor, prefix_successor};
pub use buf::KeyBuf;
pub use composite::{CompositeDecodeError, CompositeKey, decode_composite_part};
pub use manifest_row::{ManifestRowKey, decode_manifest_row_key};
pub use path::{PathKey, PathKeyError};
pub use scalar::{decode_f64_key, decode_i64_key, decode_u64_key};
pub use spec::{
    PrefixShardError, ShardIntoError, shard_spec_from_keys_into, shard_spec_from_keys_ref,
    shard_spec_from_manifest_range_into, shard_spec_from_manifest_range_ref,
    shard_spec_from_prefix_into, shard_spec_from_prefix_ref,
};

pub(crate) use spec::{prefix_bounds, store, validated};

/// A key with an order-preserving, canonical byte form.
pub trait KeyEncoding: Sized {
    /// Writes this key's bytes into `buf`, which the caller has emptied.
    ///
    /// What does not fit is remembered by the buffer and refused by whoever takes the key from
    /// it, so an implementation need not check sizes.
    fn encode_into(&self, buf: &mut KeyBuf);
}

#[cfg(test)]
mod tests;
