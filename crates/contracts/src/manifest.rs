//! The initial shards of a run.
//!
//! A manifest is a set of bounded, disjoint ranges with unique ids. Keys in no range are not part
//! of the run.

use std::fmt;

use crate::cursor::{CursorInput, CursorInputError};
use crate::identity::ShardId;
use crate::limits::MAX_INITIAL_SHARDS;
use crate::spec::{ShardSpec, ShardSpecInputError, SpecInput};

/// One shard of an unchecked manifest. `B` decides who owns the bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ShardInput<B> {
    /// Its id, which must not be a derived one.
    pub shard: ShardId,
    /// Its range and metadata.
    pub spec: SpecInput<B>,
    /// Its initial cursor.
    pub cursor: CursorInput<B>,
}

/// One shard of a manifest whose bytes are borrowed.
pub type InitialShardInput<'a> = ShardInput<&'a [u8]>;

impl<B> ShardInput<B> {
    /// The same shard with other bytes, each made from one of these by `change`.
    pub fn map<'b, C>(&'b self, mut change: impl FnMut(&'b B) -> C) -> ShardInput<C> {
        let spec = self.spec.map(&mut change);
        ShardInput { shard: self.shard, spec, cursor: self.cursor.map(change) }
    }
}

impl<B: AsRef<[u8]>> ShardInput<B> {
    /// The same shard, borrowed.
    #[must_use]
    pub fn as_ref(&self) -> InitialShardInput<'_> {
        self.map(AsRef::as_ref)
    }
}

impl<B: AsRef<[u8]>> fmt::Debug for ShardInput<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InitialShardInput")
            .field("shard", &self.shard)
            .field("spec", &self.spec)
            .field("cursor", &self.cursor)
            .finish()
    }
}

/// Why a manifest is invalid.
///
/// The first error is reported. The order is: length, ids, bounds and metadata shard by shard,
/// overlaps, cursors shard by shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestValidationError {
    /// There are more shards than a run may start with.
    #[error("{count} initial shards exceed {max}")]
    TooManyShards {
        /// Their number.
        count: usize,
        /// The limit.
        max: usize,
    },
    /// There is no shard.
    #[error("a manifest needs at least one shard")]
    Empty,
    /// An id has the mark of derived shards.
    #[error("shard {shard} has the id of a derived shard")]
    DerivedId {
        /// The shard.
        shard: ShardId,
    },
    /// Two shards have the same id.
    #[error("shard {shard} appears twice")]
    DuplicateIds {
        /// The id.
        shard: ShardId,
    },
    /// A range reaches an end of the keyspace.
    #[error("shard {shard} has an unbounded range")]
    UnboundedRange {
        /// The shard.
        shard: ShardId,
    },
    /// A range or its metadata is invalid.
    #[error("shard {shard} is invalid")]
    InvalidSpec {
        /// The shard.
        shard: ShardId,
        /// The cause.
        #[source]
        error: ShardSpecInputError,
    },
    /// Two ranges share a key.
    #[error("shards {left} and {right} overlap")]
    OverlappingRanges {
        /// The one that starts first.
        left: ShardId,
        /// The other.
        right: ShardId,
    },
    /// A cursor is invalid.
    #[error("the cursor of shard {shard} is invalid")]
    InvalidCursor {
        /// The shard.
        shard: ShardId,
        /// The cause.
        #[source]
        error: CursorInputError,
    },
    /// A cursor stands outside its shard's range.
    #[error("the cursor of shard {shard} lies outside its range")]
    CursorOutOfBounds {
        /// The shard.
        shard: ShardId,
    },
}

/// Checks that `shards` is a valid manifest.
pub fn validate_manifest(shards: &[InitialShardInput<'_>]) -> Result<(), ManifestValidationError> {
    if shards.len() > MAX_INITIAL_SHARDS {
        let (count, max) = (shards.len(), MAX_INITIAL_SHARDS);
        return Err(ManifestValidationError::TooManyShards { count, max });
    }
    if shards.is_empty() {
        return Err(ManifestValidationError::Empty);
    }
    check_ids(shards)?;
    for input in shards {
        check_spec(input)?;
    }
    check_disjoint(shards)?;
    shards.iter().try_for_each(check_cursor)
}

fn check_ids(shards: &[InitialShardInput<'_>]) -> Result<(), ManifestValidationError> {
    let mut ids: Vec<ShardId> = shards.iter().map(|input| input.shard).collect();
    if let Some(&shard) = ids.iter().find(|id| id.is_derived()) {
        return Err(ManifestValidationError::DerivedId { shard });
    }
    ids.sort_unstable();
    match ids.array_windows().find(|[left, right]| left == right) {
        Some(&[shard, _]) => Err(ManifestValidationError::DuplicateIds { shard }),
        None => Ok(()),
    }
}

fn check_spec(input: &InitialShardInput<'_>) -> Result<(), ManifestValidationError> {
    let shard = input.shard;
    if !input.spec.is_bounded() {
        return Err(ManifestValidationError::UnboundedRange { shard });
    }
    ShardSpec::validate_ref(input.spec)
        .map_err(|error| ManifestValidationError::InvalidSpec { shard, error })
}

fn check_disjoint(shards: &[InitialShardInput<'_>]) -> Result<(), ManifestValidationError> {
    let mut by_start: Vec<_> = shards.iter().collect();
    by_start.sort_unstable_by_key(|input| (input.spec.start(), input.shard));
    match by_start.array_windows().find(|[left, right]| left.spec.end() > right.spec.start()) {
        Some([left, right]) => {
            Err(ManifestValidationError::OverlappingRanges { left: left.shard, right: right.shard })
        }
        None => Ok(()),
    }
}

fn check_cursor(input: &InitialShardInput<'_>) -> Result<(), ManifestValidationError> {
    let shard = input.shard;
    input
        .cursor
        .validate()
        .map_err(|error| ManifestValidationError::InvalidCursor { shard, error })?;
    if !input.cursor.is_within(input.spec) {
        return Err(ManifestValidationError::CursorOutOfBounds { shard });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::CursorUpdate;
    use crate::limits::{MAX_KEY_SIZE, MAX_TOKEN_SIZE};
    use crate::spec::ShardSpecRef;

    fn input<'a>(id: u64, start: &'a str, end: &'a str) -> InitialShardInput<'a> {
        InitialShardInput {
            shard: ShardId::from_raw(id),
            spec: ShardSpecRef::new(start.as_bytes(), end.as_bytes(), b""),
            cursor: CursorUpdate::initial(),
        }
    }

    fn id(raw: u64) -> ShardId {
        ShardId::from_raw(raw)
    }

    #[test]
    fn disjoint_ranges_with_gaps_are_valid_in_any_order() {
        let shards = [input(2, "m", "z"), input(0, "a", "c"), input(1, "c", "d")];
        assert_eq!(validate_manifest(&shards), Ok(()));
    }

    #[test]
    fn count_is_limited_at_both_ends() {
        assert_eq!(validate_manifest(&[]), Err(ManifestValidationError::Empty));
        let keys: Vec<String> = (0..=MAX_INITIAL_SHARDS + 1).map(|n| format!("{n:05}")).collect();
        let shards: Vec<_> =
            keys.array_windows().zip(0..).map(|([start, end], id)| input(id, start, end)).collect();
        assert_eq!(validate_manifest(&shards[..MAX_INITIAL_SHARDS]), Ok(()));
        assert_eq!(
            validate_manifest(&shards),
            Err(ManifestValidationError::TooManyShards { count: 10_001, max: 10_000 })
        );
    }

    #[test]
    fn ids_are_unique_and_not_derived() {
        let twice = [input(1, "a", "b"), input(2, "b", "c"), input(1, "c", "d")];
        let expected = ManifestValidationError::DuplicateIds { shard: id(1) };
        assert_eq!(validate_manifest(&twice), Err(expected));
        let derived = input(1 << 63, "a", "b");
        let expected = ManifestValidationError::DerivedId { shard: derived.shard };
        assert_eq!(validate_manifest(&[derived]), Err(expected));
    }

    #[test]
    fn ranges_are_bounded_and_valid() {
        for (start, end) in [("", "b"), ("a", ""), ("", "")] {
            assert_eq!(
                validate_manifest(&[input(3, start, end)]),
                Err(ManifestValidationError::UnboundedRange { shard: id(3) })
            );
        }
        let error = ShardSpecInputError::InvertedRange { start_len: 1, end_len: 1 };
        assert_eq!(
            validate_manifest(&[input(3, "b", "a")]),
            Err(ManifestValidationError::InvalidSpec { shard: id(3), error })
        );
    }

    #[test]
    fn shared_key_is_an_overlap_and_shared_bound_is_not() {
        let shards = [input(5, "b", "d"), input(4, "a", "b\0")];
        let expected = ManifestValidationError::OverlappingRanges { left: id(4), right: id(5) };
        assert_eq!(validate_manifest(&shards), Err(expected));
        let shards = [input(5, "a", "b"), input(4, "a", "c")];
        let expected = ManifestValidationError::OverlappingRanges { left: id(4), right: id(5) };
        assert_eq!(validate_manifest(&shards), Err(expected));
        assert_eq!(validate_manifest(&[input(5, "b", "d"), input(4, "a", "b")]), Ok(()));
    }

    #[test]
    fn cursors_are_valid_and_inside_their_range() {
        let with_cursor = |cursor| InitialShardInput { cursor, ..input(7, "b", "d") };
        let (long_key, long_token) = (vec![b'c'; MAX_KEY_SIZE + 1], vec![0; MAX_TOKEN_SIZE + 1]);
        assert_eq!(validate_manifest(&[with_cursor(CursorUpdate::at(b"c"))]), Ok(()));
        assert_eq!(
            validate_manifest(&[with_cursor(CursorUpdate::at(b"d"))]),
            Err(ManifestValidationError::CursorOutOfBounds { shard: id(7) })
        );
        for (cursor, error) in [
            (
                CursorUpdate::at(&long_key),
                CursorInputError::KeyTooLarge { size: 4_097, max: 4_096 },
            ),
            (
                CursorUpdate::new(Some(b"c"), Some(&long_token)),
                CursorInputError::TokenTooLarge { size: 16_385, max: 16_384 },
            ),
        ] {
            assert_eq!(
                validate_manifest(&[with_cursor(cursor)]),
                Err(ManifestValidationError::InvalidCursor { shard: id(7), error })
            );
        }
    }

    #[test]
    fn errors_carry_their_cause() {
        use std::error::Error as _;
        let cause = CursorInputError::EmptyLastKey;
        let error = ManifestValidationError::InvalidCursor { shard: id(1), error: cause };
        assert_eq!(error.source().map(ToString::to_string), Some(cause.to_string()));
    }
}
