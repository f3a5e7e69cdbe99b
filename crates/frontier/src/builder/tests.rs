use std::error::Error as _;

use shardwright_contracts::limits::{MAX_KEY_SIZE, MAX_METADATA_SIZE};
use shardwright_contracts::{
    CursorInputError, ManifestValidationError, ShardSpecInputError, SlabFull,
};

use super::*;
use crate::hint::{ShardHint, ShardMetadata, decode_metadata};
use crate::key_encoding::{KeyBuf, KeyEncoding, ManifestRowKey, PrefixShardError};
use PreallocShardBuilderError as Error;

mod limits;
mod no_heap;
mod split;

type Builder<'a> = PreallocShardBuilder<'a, 8>;

/// Room for what most tests store.
fn arena() -> ShardArena {
    ShardArena::new(400, 64 * 1_024)
}

fn id(raw: u64) -> ShardId {
    ShardId::from_raw(raw)
}

fn row_key(manifest_id: u64, row: u64) -> Vec<u8> {
    let mut buf = KeyBuf::new();
    ManifestRowKey::new(manifest_id, row).encode_into(&mut buf);
    buf.as_bytes().to_vec()
}

const fn inverted(len: usize) -> ShardSpecInputError {
    ShardSpecInputError::InvertedRange { start_len: len, end_len: len }
}

/// The state that staging changes: ids and specs of the entries, and the contents of the arena.
#[derive(Debug, PartialEq)]
struct State {
    staged: Vec<Option<ShardSpec>>,
    arena_specs: usize,
    arena_bytes: usize,
}

impl State {
    fn of<const CAP: usize>(builder: &PreallocShardBuilder<'_, CAP>) -> Self {
        let spec = |entry: &Entry<'_>| {
            let spec = builder.arena.get(entry.spec)?;
            Some(ShardSpec::try_from_ref(spec).unwrap())
        };
        assert_eq!(builder.is_empty(), builder.entries.is_empty());
        assert_eq!(builder.len(), builder.entries.len());
        Self {
            staged: builder.entries.iter().map(spec).collect(),
            arena_specs: builder.arena.len(),
            arena_bytes: builder.arena.bytes_used(),
        }
    }
}

/// Checks that a call fails with `error` and changes nothing.
fn assert_no_trace<'a, T, const CAP: usize>(
    builder: &mut PreallocShardBuilder<'a, CAP>,
    error: Error,
    call: impl FnOnce(&mut PreallocShardBuilder<'a, CAP>) -> Result<T, Error>,
) {
    let before = State::of(builder);
    assert_eq!(call(builder).map(drop), Err(error));
    assert_eq!(State::of(builder), before);
}

#[test]
fn mixed_range_prefix_manifest_builds_valid_manifest() {
    let mut arena = arena();
    let mut builder = Builder::new(&mut arena, 8).unwrap();
    builder.add_range(b"a", b"b", b"one").unwrap();
    builder.add_prefix(b"p/", b"two").unwrap();
    builder.add_manifest(7, 10, 20, b"three").unwrap();

    let (first, last) = (row_key(7, 10), row_key(7, 20));
    let prefix = ShardHint::Prefix { prefix: b"p/" };
    let rows = ShardHint::Manifest { manifest_id: 7, start_row: 10, end_row: 20 };
    let expected = [
        (id(0), &b"a"[..], &b"b"[..], ShardMetadata::new(ShardHint::Range, b"one")),
        (id(1), b"p/", b"p0", ShardMetadata::new(prefix, b"two")),
        (id(2), &first, &last, ShardMetadata::new(rows, b"three")),
    ];
    let inputs = builder.build_inputs().unwrap();
    let actual: Vec<_> = inputs
        .iter()
        .map(|input| {
            let metadata = decode_metadata(input.spec).unwrap();
            (input.shard, input.spec.start(), input.spec.end(), metadata)
        })
        .collect();
    assert_eq!(actual, expected);
    assert_eq!((builder.len(), builder.is_empty()), (3, false));
}

#[test]
fn ids_are_assigned_in_insertion_order() {
    let mut arena = arena();
    let handle = arena.alloc(ShardSpecRef::new(b"e", b"f", b"")).unwrap();
    let mut builder = Builder::new(&mut arena, 8).unwrap();
    assert_eq!(builder.add_range(b"z", b"zz", b""), Ok(id(0)));
    assert_eq!(builder.add_prefix(b"p", b""), Ok(id(1)));
    // A failed call uses no number.
    builder.add_range(b"b", b"a", b"").unwrap_err();
    assert_eq!(builder.add_manifest(1, 2, 3, b""), Ok(id(2)));
    assert_eq!(builder.add_spec_ref(ShardSpecRef::new(b"c", b"d", b"")), Ok(id(3)));
    assert_eq!(builder.add_spec_handle(handle), Ok(id(4)));
    assert_eq!(builder.split_range_by_boundaries(b"g", &[b"h"], b"i", b""), Ok(2));
    assert_eq!(builder.add_range(b"a", b"b", b""), Ok(id(7)));

    let rows = row_key(1, 2);
    let starts = [&b"z"[..], b"p", &rows, b"c", b"e", b"g", b"h", b"a"];
    let inputs = builder.build_inputs().unwrap();
    assert_eq!(inputs.len(), starts.len());
    for ((input, start), raw) in inputs.iter().zip(starts).zip(0..) {
        assert_eq!((input.shard, input.spec.start()), (id(raw), start));
    }
}

#[test]
fn default_add_methods_use_initial_cursor() {
    let mut arena = arena();
    let handle = arena.alloc(ShardSpecRef::new(b"e", b"f", b"")).unwrap();
    let mut builder = Builder::new(&mut arena, 8).unwrap();
    builder.add_range(b"a", b"b", b"").unwrap();
    builder.add_prefix(b"p", b"").unwrap();
    builder.add_manifest(1, 2, 3, b"").unwrap();
    builder.add_spec_ref(ShardSpecRef::new(b"c", b"d", b"")).unwrap();
    builder.add_spec_handle(handle).unwrap();
    builder.split_range_by_boundaries(b"g", &[b"h"], b"i", b"").unwrap();
    builder.split_manifest_by_rows(2, 0, 1, 1, b"").unwrap();
    let inputs = builder.build_inputs().unwrap();
    assert_eq!(inputs.len(), 8);
    assert!(inputs.iter().all(|input| input.cursor == CursorUpdate::initial()));
}

#[test]
fn with_cursor_methods_preserve_non_initial_cursor() {
    let row = row_key(1, 2);
    let cursors = [
        CursorUpdate::new(Some(b"a5"), Some(b"token")),
        CursorUpdate::at(b"p/5"),
        CursorUpdate::at(&row),
    ];
    let mut arena = arena();
    let mut builder = Builder::new(&mut arena, 8).unwrap();
    builder.add_range_with_cursor(b"a", b"b", b"x", cursors[0]).unwrap();
    builder.add_prefix_with_cursor(b"p/", b"x", cursors[1]).unwrap();
    builder.add_manifest_with_cursor(1, 2, 3, b"x", cursors[2]).unwrap();
    let inputs = builder.build_inputs().unwrap();
    let kept: Vec<_> = inputs.iter().map(|input| input.cursor).collect();
    assert_eq!(kept, cursors);
}

#[test]
fn add_manifest_with_cursor_preserves_initial_cursor() {
    let mut arena = arena();
    let mut builder = Builder::new(&mut arena, 8).unwrap();
    builder.add_manifest_with_cursor(1, 2, 3, b"", CursorUpdate::initial()).unwrap();
    assert!(builder.build_inputs().unwrap()[0].cursor.is_initial());
}

#[test]
fn add_manifest_with_cursor_preserves_explicit_cursor() {
    let row = row_key(1, 15);
    let cursor = CursorUpdate::new(Some(&row), Some(b"page 2"));
    let mut arena = arena();
    let mut builder = Builder::new(&mut arena, 8).unwrap();
    builder.add_manifest_with_cursor(1, 10, 20, b"", cursor).unwrap();
    assert_eq!(builder.build_inputs().unwrap()[0].cursor, cursor);
}

#[test]
fn cursor_outside_range_fails_manifest_validation() {
    let shard = id(1);
    for (key, error) in [
        (&b"n"[..], ManifestValidationError::CursorOutOfBounds { shard }),
        (b"q", ManifestValidationError::CursorOutOfBounds { shard }),
        (
            b"",
            ManifestValidationError::InvalidCursor { shard, error: CursorInputError::EmptyLastKey },
        ),
    ] {
        let mut arena = arena();
        let mut builder = Builder::new(&mut arena, 8).unwrap();
        builder.add_range_with_cursor(b"a", b"b", b"", CursorUpdate::at(b"a")).unwrap();
        builder.add_prefix_with_cursor(b"p", b"", CursorUpdate::at(key)).unwrap();
        assert_eq!(builder.build_inputs(), Err(Error::ManifestInvalid(error)));
    }
}

#[test]
fn overlapping_ranges_fail_on_build_validation() {
    let mut arena = arena();
    let mut builder = Builder::new(&mut arena, 8).unwrap();
    builder.add_range(b"b", b"d", b"").unwrap();
    builder.add_range(b"a", b"b\0", b"").unwrap();
    let error = ManifestValidationError::OverlappingRanges { left: id(1), right: id(0) };
    assert_eq!(builder.build_inputs(), Err(Error::ManifestInvalid(error)));
}

#[test]
fn unbounded_ranges_fail_on_build_validation() {
    for (start, end) in [(&b""[..], &b"m"[..]), (b"m", b""), (b"", b"")] {
        let mut arena = arena();
        let mut builder = Builder::new(&mut arena, 8).unwrap();
        builder.add_range(start, end, b"").unwrap();
        let error = ManifestValidationError::UnboundedRange { shard: id(0) };
        assert_eq!(builder.build_inputs(), Err(Error::ManifestInvalid(error)));
    }
}

#[test]
fn build_inputs_on_empty_builder_returns_manifest_empty() {
    let mut arena = arena();
    let builder = Builder::new(&mut arena, 8).unwrap();
    let empty = Err(Error::ManifestInvalid(ManifestValidationError::Empty));
    assert_eq!(builder.build_inputs(), empty);
    assert_eq!((builder.len(), builder.is_empty()), (0, true));
}

#[test]
fn build_inputs_is_idempotent() {
    let mut arena = arena();
    let mut builder = Builder::new(&mut arena, 8).unwrap();
    builder.split_range_by_boundaries(b"a", &[b"b", b"c"], b"d", b"x").unwrap();
    let before = State::of(&builder);
    assert_eq!(builder.build_inputs().unwrap(), builder.build_inputs().unwrap());
    assert_eq!(State::of(&builder), before);
    // More shards can be staged and built afterwards.
    assert_eq!(builder.add_range(b"d", b"e", b""), Ok(id(3)));
    assert_eq!(builder.build_inputs().map(|inputs| inputs.len()), Ok(4));
}

#[test]
fn stale_or_foreign_handle_is_rejected_without_panic() {
    let (mut arena, mut other) = (arena(), arena());
    let spec = ShardSpecRef::new(b"a", b"b", b"");
    let (stale, foreign) = (arena.alloc(spec).unwrap(), other.alloc(spec).unwrap());
    assert!(arena.free(stale));
    let live = arena.alloc(spec).unwrap();

    let mut builder = Builder::new(&mut arena, 8).unwrap();
    for handle in [stale, foreign] {
        assert_no_trace(&mut builder, Error::InvalidSpecHandle, |builder| {
            builder.add_spec_handle(handle)
        });
    }
    assert_eq!(builder.add_spec_handle(live), Ok(id(0)));
    assert_eq!(builder.build_inputs().unwrap()[0].spec, spec);
    builder.reset();
    assert_eq!(builder.add_spec_handle(live), Err(Error::InvalidSpecHandle));
}

#[test]
fn build_inputs_checks_again_that_every_handle_is_live() {
    let mut arena = arena();
    let mut builder = Builder::new(&mut arena, 8).unwrap();
    builder.split_range_by_boundaries(b"a", &[b"b"], b"c", b"").unwrap();
    // No public call can free a staged spec, so this frees it in the arena directly.
    let last = builder.entries[1].spec;
    assert!(builder.arena.free(last));
    assert_eq!(builder.build_inputs(), Err(Error::InvalidSpecHandle));
}

#[test]
fn reset_allows_fresh_reuse_and_resets_ids() {
    let mut arena = arena();
    let mut builder = Builder::new(&mut arena, 2).unwrap();
    builder.split_range_by_boundaries(b"a", &[b"b"], b"c", b"old").unwrap();
    builder.reset();
    let fresh = State { staged: Vec::new(), arena_specs: 0, arena_bytes: 0 };
    assert_eq!(State::of(&builder), fresh);

    assert_eq!(builder.add_range(b"x", b"y", b""), Ok(id(0)));
    assert_eq!(builder.add_range(b"y", b"z", b""), Ok(id(1)));
    let error = Error::CapacityExceeded { limit: 2, current: 2, additional: 1 };
    assert_eq!(builder.add_range(b"z", b"zz", b""), Err(error));
    let inputs = builder.build_inputs().unwrap();
    assert_eq!((inputs[0].shard, inputs[0].spec.start()), (id(0), &b"x"[..]));
    assert_eq!(inputs.len(), 2);
}

#[test]
fn drop_clears_the_arena() {
    let mut arena = arena();
    let before = arena.alloc(ShardSpecRef::new(b"a", b"b", b"")).unwrap();
    let mut builder = Builder::new(&mut arena, 8).unwrap();
    builder.add_range(b"a", b"b", b"").unwrap();
    drop(builder);
    assert_eq!((arena.len(), arena.bytes_used()), (0, 0));
    assert_eq!(arena.get(before), None);
}

#[test]
fn add_spec_ref_happy_path() {
    let mut arena = arena();
    let mut builder = Builder::new(&mut arena, 8).unwrap();
    let spec = ShardSpecRef::new(b"a", b"b", b"any bytes, no envelope");
    assert_eq!(builder.add_spec_ref(spec), Ok(id(0)));
    assert_eq!(builder.build_inputs().unwrap()[0].spec, spec);
    assert_eq!((builder.arena.len(), builder.arena.bytes_used()), (1, 24));
}

#[test]
fn debug_output_hides_keys() {
    let mut arena = arena();
    let mut builder = Builder::new(&mut arena, 5).unwrap();
    builder.add_prefix_with_cursor(b"secret", b"token", CursorUpdate::at(b"secret!")).unwrap();
    assert_eq!(format!("{builder:?}"), "PreallocShardBuilder { staged: 1, entry_limit: 5, .. }");
}
