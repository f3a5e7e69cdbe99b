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
mod composite;
mod keys;
mod spec;

use std::fmt;

use shardwright_contracts::limits::MAX_KEY_SIZE;
use shardwright_contracts::{Redacted, ShardSpecInputError};

pub use arithmetic::{byte_midpoint, key_successor, prefix_successor};
pub use composite::{CompositeDecodeError, CompositeKey, decode_composite_part};
pub use keys::{
    ManifestRowKey, PathKey, PathKeyError, decode_f64_key, decode_i64_key, decode_manifest_row_key,
    decode_u64_key,
};
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

/// A reusable buffer for one key.
///
/// It holds one byte more than the longest key. Writing past its end does not fail there and then:
/// the buffer keeps what fits and remembers the size that was asked for. Such content is longer
/// than any key, so it can never be mistaken for one.
#[derive(Clone)]
pub struct KeyBuf {
    bytes: [u8; Self::CAPACITY],
    /// How many bytes were written, those that did not fit included.
    written: usize,
}

impl KeyBuf {
    /// How many bytes the buffer holds.
    pub const CAPACITY: usize = MAX_KEY_SIZE + 1;

    /// An empty buffer.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: [0; Self::CAPACITY], written: 0 }
    }

    /// The bytes in the buffer.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.written).unwrap_or(&self.bytes)
    }

    /// How many bytes are in the buffer.
    #[must_use]
    pub fn len(&self) -> usize {
        self.written.min(Self::CAPACITY)
    }

    /// Whether the buffer holds nothing.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.written == 0
    }

    /// How many bytes were written, those that did not fit included.
    const fn written(&self) -> usize {
        self.written
    }

    /// The bytes in the buffer, if they are few enough for a key.
    pub fn to_key(&self) -> Result<&[u8], ShardSpecInputError> {
        if self.written > MAX_KEY_SIZE {
            let (size, max) = (self.written, MAX_KEY_SIZE);
            return Err(ShardSpecInputError::KeyTooLarge { size, max });
        }
        Ok(self.as_bytes())
    }

    /// Empties the buffer.
    pub const fn clear(&mut self) {
        self.written = 0;
    }

    /// Replaces the content of the buffer.
    pub fn copy_from_slice(&mut self, bytes: &[u8]) {
        self.clear();
        self.extend_from_slice(bytes);
    }

    /// Appends to the content of the buffer.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        let room = self.bytes.get_mut(self.written..).unwrap_or_default();
        match room.get_mut(..bytes.len()) {
            Some(exact) => exact.copy_from_slice(bytes),
            None => room.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from),
        }
        self.written = self.written.saturating_add(bytes.len());
    }

    /// The last byte in the buffer.
    fn last_mut(&mut self) -> Option<&mut u8> {
        self.bytes.get_mut(self.written.checked_sub(1)?)
    }

    /// Gives `len` bytes to be overwritten in groups of eight. The last group may reach beyond
    /// `len`; what is written there does not become part of the content.
    fn overwrite_in_groups(&mut self, len: usize) -> &mut [[u8; 8]] {
        self.written = len;
        let groups = self.bytes.as_chunks_mut().0;
        groups.get_mut(..len.div_ceil(8)).unwrap_or_default()
    }
}

impl Default for KeyBuf {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for KeyBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyBuf({})", Redacted(self.as_bytes()))
    }
}

#[cfg(test)]
mod tests;
