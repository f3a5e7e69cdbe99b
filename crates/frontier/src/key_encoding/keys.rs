//! Keys of one part: numbers as eight bytes, byte strings and paths unchanged, manifest rows as two
//! numbers.
//!
//! Unsigned integers are big-endian. Signed ones have their sign bit flipped, which puts the
//! negative half first. Floats sort by magnitude within each sign, so a negative one has all bits
//! flipped and a positive one has its sign bit set.
//!
//! Each value has one form: `-0.0` is encoded as `0.0`, and every NaN as one NaN that sorts after
//! infinity.

use std::fmt;

use shardwright_contracts::Redacted;
use shardwright_contracts::limits::MAX_KEY_SIZE;

use super::{KeyBuf, KeyEncoding};

const SIGN: u64 = 1 << 63;
/// The encoded NaN: positive, quiet, without payload. The bits are stored, and the standard
/// library's constant does not guarantee them.
const NAN_BITS: u64 = 0x7ff8_0000_0000_0000;

impl KeyEncoding for u64 {
    fn encode_into(&self, buf: &mut KeyBuf) {
        buf.copy_from_slice(&self.to_be_bytes());
    }
}

impl KeyEncoding for i64 {
    fn encode_into(&self, buf: &mut KeyBuf) {
        (self.cast_unsigned() ^ SIGN).encode_into(buf);
    }
}

impl KeyEncoding for f64 {
    fn encode_into(&self, buf: &mut KeyBuf) {
        let canonical = match *self {
            nan if nan.is_nan() => f64::from_bits(NAN_BITS),
            0.0 => 0.0,
            number => number,
        };
        let bits = canonical.to_bits();
        let ordered = if bits & SIGN == 0 { bits | SIGN } else { !bits };
        ordered.encode_into(buf);
    }
}

/// The bytes unchanged. An empty string is a valid part of a tuple. As a range bound it means the
/// end of the keyspace.
impl KeyEncoding for &[u8] {
    fn encode_into(&self, buf: &mut KeyBuf) {
        buf.copy_from_slice(self);
    }
}

/// The UTF-8 bytes unchanged. See the encoding of `&[u8]` for the empty string.
impl KeyEncoding for &str {
    fn encode_into(&self, buf: &mut KeyBuf) {
        buf.copy_from_slice(self.as_bytes());
    }
}

/// Decodes a `u64` from exactly eight bytes.
#[must_use]
pub fn decode_u64_key(key: &[u8]) -> Option<u64> {
    key.try_into().ok().map(u64::from_be_bytes)
}

/// Decodes an `i64` from exactly eight bytes.
#[must_use]
pub fn decode_i64_key(key: &[u8]) -> Option<i64> {
    decode_u64_key(key).map(|ordered| (ordered ^ SIGN).cast_signed())
}

/// Decodes an `f64` from exactly eight bytes. Bytes that no encoding produces, such as those of
/// `-0.0`, are decoded as well.
#[must_use]
pub fn decode_f64_key(key: &[u8]) -> Option<f64> {
    let ordered = decode_u64_key(key)?;
    let bits = if ordered & SIGN == 0 { !ordered } else { ordered & !SIGN };
    Some(f64::from_bits(bits))
}

/// A path, encoded as its UTF-8 bytes.
///
/// Nothing is normalized: separators, case and Unicode forms are kept, and two spellings of one
/// file are two keys. Normalize before encoding if they should be one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathKey<'a>(&'a str);

/// Why a path key is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathKeyError {
    /// The path is empty, which as a range bound would mean the end of the keyspace.
    #[error("a path key must not be empty")]
    Empty,
    /// The path exceeds the limit of keys.
    #[error("a path of {size} bytes exceeds {max}")]
    TooLarge {
        /// Its length.
        size: usize,
        /// The limit.
        max: usize,
    },
}

impl<'a> PathKey<'a> {
    /// Wraps a path that the caller knows to be valid.
    ///
    /// # Panics
    ///
    /// If the path is empty or longer than 4,096 bytes. Use [`PathKey::try_new`] for paths from
    /// outside.
    #[must_use]
    pub fn new(path: &'a str) -> Self {
        #[expect(clippy::panic, reason = "the documented contract of this constructor")]
        Self::try_new(path).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Wraps a path, if it is a valid key.
    pub const fn try_new(path: &'a str) -> Result<Self, PathKeyError> {
        match path.len() {
            0 => Err(PathKeyError::Empty),
            size if size > MAX_KEY_SIZE => Err(PathKeyError::TooLarge { size, max: MAX_KEY_SIZE }),
            _ => Ok(Self(path)),
        }
    }

    /// The path.
    #[must_use]
    pub const fn as_str(self) -> &'a str {
        self.0
    }
}

impl KeyEncoding for PathKey<'_> {
    fn encode_into(&self, buf: &mut KeyBuf) {
        buf.copy_from_slice(self.0.as_bytes());
    }
}

impl fmt::Debug for PathKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PathKey({})", Redacted(self.0.as_bytes()))
    }
}

/// A row of a manifest: sixteen bytes, the manifest's number and then the row's, big-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ManifestRowKey {
    /// The manifest.
    pub manifest_id: u64,
    /// The row.
    pub row: u64,
}

impl ManifestRowKey {
    /// Length of every encoded row key.
    pub const ENCODED_LEN: usize = 16;

    /// Names `row` of manifest `manifest_id`.
    #[must_use]
    pub const fn new(manifest_id: u64, row: u64) -> Self {
        Self { manifest_id, row }
    }

    /// The first row whose key is not below `bound`, of any manifest. `None` after the last row.
    #[must_use]
    pub fn first_from(bound: &[u8]) -> Option<Self> {
        // A bound that extends a row's key is above it.
        Self::nearest(bound, bound.len() > Self::ENCODED_LEN)
    }

    /// The first row whose key is above `key`, of any manifest. `None` after the last row.
    #[must_use]
    pub fn first_after(key: &[u8]) -> Option<Self> {
        Self::nearest(key, key.len() >= Self::ENCODED_LEN)
    }

    /// The row of the first sixteen bytes, padded with zeros, or the next if that is `passed`.
    fn nearest(bytes: &[u8], passed: bool) -> Option<Self> {
        let mut padded = [0; Self::ENCODED_LEN];
        padded.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        let next = u128::from_be_bytes(padded).checked_add(u128::from(passed))?;
        decode_manifest_row_key(&next.to_be_bytes())
    }
}

impl KeyEncoding for ManifestRowKey {
    fn encode_into(&self, buf: &mut KeyBuf) {
        buf.copy_from_slice(&self.manifest_id.to_be_bytes());
        buf.extend_from_slice(&self.row.to_be_bytes());
    }
}

/// Decodes a row key. Every string of exactly sixteen bytes is one.
#[must_use]
pub fn decode_manifest_row_key(key: &[u8]) -> Option<ManifestRowKey> {
    let (manifest_id, rest) = key.split_first_chunk()?;
    let row = rest.try_into().ok()?;
    Some(ManifestRowKey::new(u64::from_be_bytes(*manifest_id), u64::from_be_bytes(row)))
}
