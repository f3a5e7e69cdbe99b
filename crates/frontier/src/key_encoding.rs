//! Typed keys as bytes of the same order, and arithmetic on those bytes.
//!
//! All other code compares keys byte by byte. So every [`KeyEncoding`] keeps two promises:
//!
//! - **order**: `a < b` for the typed keys means `encode(a) < encode(b)` for the bytes;
//! - **canonical form**: equal keys have equal bytes.
//!
//! There are encodings of paths ([`PathKey`]), rows of a manifest ([`ManifestRowKey`]), `u64`,
//! `i64`, `f64`, strings, byte strings, and tuples of these.

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
    /// Writes this key's bytes into `buf`, which the caller has cleared.
    ///
    /// The buffer records an overflow, and [`KeyBuf::to_key`] refuses it. So an implementation need
    /// not check sizes.
    fn encode_into(&self, buf: &mut KeyBuf);
}

/// A reusable buffer for one key.
///
/// It holds one byte more than the longest key. Writing past its end does not fail: the buffer
/// keeps what fits and records the total size. Such content is longer than any key, so it is never
/// mistaken for one.
#[derive(Clone)]
pub struct KeyBuf {
    bytes: [u8; Self::CAPACITY],
    /// The number of written bytes, including those that did not fit.
    written: usize,
}

impl KeyBuf {
    /// The capacity of the buffer.
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

    /// The number of bytes in the buffer.
    #[must_use]
    pub fn len(&self) -> usize {
        self.written.min(Self::CAPACITY)
    }

    /// Whether the buffer is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.written == 0
    }

    /// The number of written bytes, including those that did not fit.
    const fn written(&self) -> usize {
        self.written
    }

    /// The bytes in the buffer, if they fit a key.
    pub fn to_key(&self) -> Result<&[u8], ShardSpecInputError> {
        if self.written > MAX_KEY_SIZE {
            let (size, max) = (self.written, MAX_KEY_SIZE);
            return Err(ShardSpecInputError::KeyTooLarge { size, max });
        }
        Ok(self.as_bytes())
    }

    /// Clears the buffer.
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

    /// Returns `len` bytes to overwrite in groups of eight. The last group may exceed `len`. The
    /// excess does not become part of the content.
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
