//! A shard's key range and metadata.
//!
//! A range is half-open over byte strings in lexicographic order: it includes `start` and excludes
//! `end`. An empty `start` is the beginning of the keyspace and an empty `end` is its end.

use std::fmt;

use crate::canonical::{CanonicalBytes, CanonicalSink};
use crate::limits::{MAX_KEY_SIZE, MAX_METADATA_SIZE};
use crate::redacted::Redacted;

/// Why bounds and metadata are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShardSpecInputError {
    /// The range holds no key: its start is not below its end.
    #[error("the range is empty or inverted (start of {start_len} bytes, end of {end_len} bytes)")]
    InvertedRange {
        /// Length of the start bound.
        start_len: usize,
        /// Length of the end bound.
        end_len: usize,
    },
    /// A bound is too long.
    #[error("a range bound of {size} bytes exceeds {max}")]
    KeyTooLarge {
        /// Its length.
        size: usize,
        /// The limit.
        max: usize,
    },
    /// The metadata is too long.
    #[error("metadata of {size} bytes exceeds {max}")]
    MetadataTooLarge {
        /// Its length.
        size: usize,
        /// The limit.
        max: usize,
    },
}

/// An unchecked shard spec. `B` decides who owns the bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SpecInput<B> {
    start: B,
    end: B,
    metadata: B,
}

/// A shard spec whose bytes are borrowed.
pub type ShardSpecRef<'a> = SpecInput<&'a [u8]>;

impl<B> SpecInput<B> {
    /// A range and its metadata.
    #[must_use]
    pub const fn new(start: B, end: B, metadata: B) -> Self {
        Self { start, end, metadata }
    }

    /// The same spec with other bytes, each made from one of these by `change`.
    pub fn map<'b, C>(&'b self, mut change: impl FnMut(&'b B) -> C) -> SpecInput<C> {
        let (start, end) = (change(&self.start), change(&self.end));
        SpecInput { start, end, metadata: change(&self.metadata) }
    }
}

impl<B: AsRef<[u8]>> SpecInput<B> {
    /// The same spec, borrowed.
    #[must_use]
    pub fn as_ref(&self) -> ShardSpecRef<'_> {
        self.map(AsRef::as_ref)
    }
}

impl<'a> ShardSpecRef<'a> {
    /// First key of the range. Empty means the beginning of the keyspace.
    #[must_use]
    pub const fn start(self) -> &'a [u8] {
        self.start
    }

    /// First key after the range. Empty means the end of the keyspace.
    #[must_use]
    pub const fn end(self) -> &'a [u8] {
        self.end
    }

    /// The metadata of the shard, for its worker.
    #[must_use]
    pub const fn metadata(self) -> &'a [u8] {
        self.metadata
    }

    /// The same range with other metadata.
    #[must_use]
    pub const fn with_metadata(self, metadata: &'a [u8]) -> Self {
        Self { metadata, ..self }
    }

    /// Whether both bounds are keys.
    #[must_use]
    pub(crate) const fn is_bounded(self) -> bool {
        !self.start.is_empty() && !self.end.is_empty()
    }

    /// Whether `key` lies in the range.
    #[must_use]
    pub fn contains(self, key: &[u8]) -> bool {
        self.start <= key && (self.end.is_empty() || key < self.end)
    }

    /// Whether no key can lie in the range.
    #[must_use]
    pub(crate) fn is_inverted(self) -> bool {
        !self.end.is_empty() && self.start >= self.end
    }
}

impl<B: AsRef<[u8]>> fmt::Debug for SpecInput<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SpecInput { start, end, metadata } = self.as_ref();
        f.debug_struct("ShardSpec")
            .field("start", &Redacted(start))
            .field("end", &Redacted(end))
            .field("metadata", &Redacted(metadata))
            .finish()
    }
}

impl<B: AsRef<[u8]>> CanonicalBytes for SpecInput<B> {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        let SpecInput { start, end, metadata } = self.as_ref();
        sink.put_bytes(start);
        sink.put_bytes(end);
        sink.put_bytes(metadata);
    }
}

/// A checked shard spec that owns its bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct ShardSpec {
    start: Box<[u8]>,
    end: Box<[u8]>,
    metadata: Box<[u8]>,
}

impl ShardSpec {
    /// Copies bounds and metadata that pass [`ShardSpec::validate_ref`].
    pub fn try_new(start: &[u8], end: &[u8], metadata: &[u8]) -> Result<Self, ShardSpecInputError> {
        Self::try_from_ref(ShardSpecRef::new(start, end, metadata))
    }

    /// Copies a view that passes [`ShardSpec::validate_ref`].
    pub fn try_from_ref(spec: ShardSpecRef<'_>) -> Result<Self, ShardSpecInputError> {
        Self::validate_ref(spec)?;
        Ok(Self { start: spec.start.into(), end: spec.end.into(), metadata: spec.metadata.into() })
    }

    /// Checks a view: first the bounds' sizes, then their order, then the metadata's size.
    pub fn validate_ref(spec: ShardSpecRef<'_>) -> Result<(), ShardSpecInputError> {
        for bound in [spec.start, spec.end] {
            if bound.len() > MAX_KEY_SIZE {
                let (size, max) = (bound.len(), MAX_KEY_SIZE);
                return Err(ShardSpecInputError::KeyTooLarge { size, max });
            }
        }
        if spec.is_inverted() {
            let (start_len, end_len) = (spec.start.len(), spec.end.len());
            return Err(ShardSpecInputError::InvertedRange { start_len, end_len });
        }
        if spec.metadata.len() > MAX_METADATA_SIZE {
            let (size, max) = (spec.metadata.len(), MAX_METADATA_SIZE);
            return Err(ShardSpecInputError::MetadataTooLarge { size, max });
        }
        Ok(())
    }

    /// The same spec, borrowed.
    #[must_use]
    pub fn as_spec_ref(&self) -> ShardSpecRef<'_> {
        ShardSpecRef::new(&self.start, &self.end, &self.metadata)
    }
}

impl fmt::Debug for ShardSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_spec_ref().fmt(f)
    }
}

impl CanonicalBytes for ShardSpec {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        self.as_spec_ref().write_canonical(sink);
    }
}

/// A type that can be read as a shard spec.
pub trait IntoShardSpecRef<'a> {
    /// The spec, borrowed.
    fn into_shard_spec_ref(self) -> ShardSpecRef<'a>;
}

impl<'a> IntoShardSpecRef<'a> for ShardSpecRef<'a> {
    fn into_shard_spec_ref(self) -> ShardSpecRef<'a> {
        self
    }
}

impl<'a> IntoShardSpecRef<'a> for &ShardSpecRef<'a> {
    fn into_shard_spec_ref(self) -> ShardSpecRef<'a> {
        *self
    }
}

impl<'a> IntoShardSpecRef<'a> for &'a ShardSpec {
    fn into_shard_spec_ref(self) -> ShardSpecRef<'a> {
        self.as_spec_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn validate(start: &[u8], end: &[u8], metadata: &[u8]) -> Result<(), ShardSpecInputError> {
        ShardSpec::validate_ref(ShardSpecRef::new(start, end, metadata))
    }

    #[test]
    fn empty_bound_is_the_end_of_the_keyspace() {
        assert_eq!(validate(b"", b"", b""), Ok(()));
        assert_eq!(validate(b"z", b"", b""), Ok(()));
        assert_eq!(validate(b"", b"a", b""), Ok(()));
        assert!(ShardSpecRef::new(b"z", b"", b"").contains(b"\xff"));
        assert!(ShardSpecRef::new(b"", b"a", b"").contains(b""));
        for (start, end, bounded) in
            [("a", "b", true), ("", "b", false), ("a", "", false), ("", "", false)]
        {
            let spec = ShardSpecRef::new(start.as_bytes(), end.as_bytes(), b"");
            assert_eq!(spec.is_bounded(), bounded, "[{start}, {end})");
        }
    }

    #[test]
    fn range_without_keys_is_refused() {
        for (start, end) in [("b", "a"), ("a", "a"), ("ab", "a")] {
            let expected = Err(ShardSpecInputError::InvertedRange {
                start_len: start.len(),
                end_len: end.len(),
            });
            assert_eq!(validate(start.as_bytes(), end.as_bytes(), b""), expected);
        }
        assert_eq!(validate(b"a", b"a\0", b""), Ok(()));
    }

    #[test]
    fn size_limits_are_inclusive() {
        let (long, metadata) = (vec![7; MAX_KEY_SIZE + 1], vec![7; MAX_METADATA_SIZE + 1]);
        assert_eq!(validate(b"", &long[1..], &metadata[1..]), Ok(()));
        let too_large = ShardSpecInputError::KeyTooLarge { size: 4_097, max: 4_096 };
        assert_eq!(validate(&long, b"", b""), Err(too_large));
        assert_eq!(validate(b"", &long, b""), Err(too_large));
        assert_eq!(
            validate(b"a", b"b", &metadata),
            Err(ShardSpecInputError::MetadataTooLarge { size: 16_385, max: 16_384 })
        );
    }

    #[test]
    fn end_is_not_part_of_the_range() {
        let spec = ShardSpecRef::new(b"b", b"d", b"");
        assert!(!spec.contains(b"a") && spec.contains(b"b"));
        assert!(spec.contains(b"c\xff\xff") && !spec.contains(b"d"));
    }

    #[test]
    fn every_form_lends_the_same_spec() {
        let owned = ShardSpec::try_new(b"a", b"b", b"m").unwrap();
        let view = ShardSpecRef::new(b"a", b"b", b"m");
        assert_eq!((&owned).into_shard_spec_ref(), view);
        assert_eq!((&view).into_shard_spec_ref(), view);
        assert_eq!(view.into_shard_spec_ref(), view);
        assert_eq!((view.start(), view.end(), view.metadata()), (&b"a"[..], &b"b"[..], &b"m"[..]));
        assert_eq!(view.with_metadata(b"n"), ShardSpecRef::new(b"a", b"b", b"n"));
        assert!(ShardSpec::try_new(b"b", b"a", b"").is_err());
    }

    #[test]
    fn debug_shows_lengths_only() {
        let spec = ShardSpec::try_new(b"secret-a", b"secret-b0", b"m").unwrap();
        assert_eq!(
            format!("{spec:?}"),
            "ShardSpec { start: <8 bytes>, end: <9 bytes>, metadata: <1 bytes> }"
        );
    }

    #[test]
    fn golden_canonical_bytes() {
        let spec = ShardSpec::try_new(b"a", b"bc", b"").unwrap();
        let mut bytes = Vec::new();
        spec.write_canonical(&mut bytes);
        assert_eq!(bytes, [1, 0, 0, 0, b'a', 2, 0, 0, 0, b'b', b'c', 0, 0, 0, 0]);
    }
}
