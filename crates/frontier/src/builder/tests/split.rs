//! Staging many shards at once.

use super::*;

type WideBuilder<'a> = PreallocShardBuilder<'a, 300>;

/// The keys `0`, `1`, … as two bytes.
fn keys(count: u16) -> Vec<[u8; 2]> {
    (0..count).map(u16::to_be_bytes).collect()
}

fn lend(keys: &[[u8; 2]]) -> Vec<&[u8]> {
    keys.iter().map(|key| &key[..]).collect()
}

/// The bounds of the staged shards, in order of their ids.
fn bounds<const CAP: usize>(builder: &PreallocShardBuilder<'_, CAP>) -> Vec<[Vec<u8>; 2]> {
    let inputs = builder.build_inputs().unwrap();
    inputs.iter().map(|input| [input.spec.start().to_vec(), input.spec.end().to_vec()]).collect()
}

/// The rows and connector bytes of the staged shards.
fn hinted_rows<const CAP: usize>(builder: &PreallocShardBuilder<'_, CAP>) -> Vec<(u64, u64)> {
    let inputs = builder.build_inputs().unwrap();
    let rows = inputs.iter().map(|input| {
        let metadata = decode_metadata(input.spec).unwrap();
        assert_eq!(metadata.connector_extra, b"x");
        let ShardHint::Manifest { manifest_id: 7, start_row, end_row } = metadata.hint else {
            panic!("not rows of manifest 7: {metadata:?}");
        };
        assert_eq!(input.spec.start(), row_key(7, start_row));
        assert_eq!(input.spec.end(), row_key(7, end_row));
        (start_row, end_row)
    });
    rows.collect()
}

#[test]
fn split_range_by_boundaries_exact_capacity_preserves_ordering() {
    let mut arena = arena();
    let mut builder = Builder::new(&mut arena, 4).unwrap();
    let points: [&[u8]; 3] = [b"b", b"bb", b"c"];
    assert_eq!(builder.split_range_by_boundaries(b"a", &points, b"d", b"x"), Ok(4));
    let expected = [["a", "b"], ["b", "bb"], ["bb", "c"], ["c", "d"]];
    assert_eq!(bounds(&builder), expected.map(|pair| pair.map(|key| key.as_bytes().to_vec())));
    for input in builder.build_inputs().unwrap() {
        let metadata = ShardMetadata::new(ShardHint::Range, b"x");
        assert_eq!(decode_metadata(input.spec), Ok(metadata));
    }
}

#[test]
fn empty_split_point_is_refused() {
    let mut arena = arena();
    let mut builder = Builder::new(&mut arena, 8).unwrap();
    let inverted = ShardSpecInputError::InvertedRange { start_len: 2, end_len: 0 };
    let refused = Err(PreallocShardBuilderError::RangeInvalid(inverted));
    for points in [&[&b""[..]][..], &[b"", b"c"], &[b"c", b""]] {
        assert_eq!(builder.split_range_by_boundaries(b"aa", points, b"z", b""), refused);
        assert!(builder.is_empty());
    }
}

#[test]
fn split_range_by_boundaries_under_capacity_succeeds() {
    let mut arena = arena();
    let mut builder = Builder::new(&mut arena, 8).unwrap();
    builder.add_range(b"a", b"b", b"").unwrap();
    assert_eq!(builder.split_range_by_boundaries(b"b", &[b"c"], b"d", b""), Ok(2));
    assert_eq!(builder.split_range_by_boundaries(b"d", &[], b"e", b""), Ok(1));
    assert_eq!(builder.add_range(b"e", b"f", b""), Ok(id(4)));
    assert_eq!(bounds(&builder).len(), 5);
}

#[test]
fn split_range_capacity_exceeded_has_no_partial_writes() {
    let mut arena = arena();
    let mut builder = Builder::new(&mut arena, 4).unwrap();
    builder.add_range(b"a", b"b", b"").unwrap();
    let points: [&[u8]; 4] = [b"c", b"d", b"e", b"f"];
    for additional in [4, 5] {
        let error = Error::CapacityExceeded { limit: 4, current: 1, additional };
        assert_no_trace(&mut builder, error, |builder| {
            builder.split_range_by_boundaries(b"b", &points[..additional - 1], b"z", b"")
        });
    }
    assert_eq!(builder.split_range_by_boundaries(b"b", &points[..2], b"z", b""), Ok(3));
}

#[test]
fn split_range_fan_out_exceeded_has_no_partial_writes() {
    let keys = keys(259);
    let keys = lend(&keys);
    let mut arena = arena();
    let mut builder = WideBuilder::new(&mut arena, 300).unwrap();
    builder.add_range(b"x", b"y", b"").unwrap();
    let error = Error::FanOutExceeded { limit: 256, requested: 257 };
    assert_no_trace(&mut builder, error.clone(), |builder| {
        builder.split_range_by_boundaries(keys[0], &keys[1..257], keys[257], b"")
    });
    assert_eq!(builder.split_range_by_boundaries(keys[0], &keys[1..256], keys[256], b""), Ok(256));
    assert_eq!(bounds(&builder).len(), 257);

    // If both limits are exceeded, the fixed one is reported.
    let mut arena = super::arena();
    let mut builder = Builder::new(&mut arena, 8).unwrap();
    assert_no_trace(&mut builder, error, |builder| {
        builder.split_range_by_boundaries(keys[0], &keys[1..257], keys[257], b"")
    });
}

#[test]
fn split_range_at_unordered_points_has_no_partial_writes() {
    let mut arena = arena();
    let mut builder = Builder::new(&mut arena, 8).unwrap();
    builder.add_range(b"A", b"B", b"").unwrap();
    let unordered: [&[&[u8]]; 5] =
        [&[b"c", b"b"], &[b"b", b"b"], &[b"a", b"b"], &[b"b", b"d"], &[b"b", b"e"]];
    for points in unordered {
        assert_no_trace(&mut builder, Error::RangeInvalid(inverted(1)), |builder| {
            builder.split_range_by_boundaries(b"a", points, b"d", b"")
        });
    }
    assert_eq!(builder.add_range(b"a", b"d", b""), Ok(id(1)));
}

#[test]
fn split_manifest_by_rows_exact_capacity_tiles_manifest_rows() {
    let mut arena = arena();
    let mut builder = Builder::new(&mut arena, 4).unwrap();
    assert_eq!(builder.split_manifest_by_rows(7, 10, 20, 3, b"x"), Ok(4));
    assert_eq!(hinted_rows(&builder), [(10, 13), (13, 16), (16, 19), (19, 20)]);
    builder.reset();
    assert_eq!(builder.split_manifest_by_rows(7, 10, 18, 2, b"x"), Ok(4));
    assert_eq!(hinted_rows(&builder), [(10, 12), (12, 14), (14, 16), (16, 18)]);
}

#[test]
fn split_manifest_by_rows_under_capacity_succeeds() {
    let mut arena = arena();
    let mut builder = Builder::new(&mut arena, 8).unwrap();
    assert_eq!(builder.split_manifest_by_rows(7, 0, 10, 10, b"x"), Ok(1));
    assert_eq!(builder.split_manifest_by_rows(7, 10, 15, 4, b"x"), Ok(2));
    assert_eq!(builder.split_manifest_by_rows(7, 15, 20, u64::MAX, b"x"), Ok(1));
    assert_eq!(builder.add_manifest(7, 20, 21, b"x"), Ok(id(4)));
    assert_eq!(hinted_rows(&builder), [(0, 10), (10, 14), (14, 15), (15, 20), (20, 21)]);
}

#[test]
fn split_manifest_by_rows_capacity_exceeded_has_no_partial_writes() {
    let mut arena = arena();
    let mut builder = Builder::new(&mut arena, 4).unwrap();
    builder.add_manifest(7, 0, 1, b"x").unwrap();
    for (end_row, additional) in [(8, 4), (9, 4), (10, 5)] {
        let error = Error::CapacityExceeded { limit: 4, current: 1, additional };
        assert_no_trace(&mut builder, error, |builder| {
            builder.split_manifest_by_rows(7, 1, end_row, 2, b"x")
        });
    }
    assert_eq!(builder.split_manifest_by_rows(7, 1, 7, 2, b"x"), Ok(3));
}

#[test]
fn split_manifest_by_rows_fan_out_exceeded_has_no_partial_writes() {
    let mut arena = arena();
    let mut builder = WideBuilder::new(&mut arena, 300).unwrap();
    builder.add_manifest(7, 0, 1, b"x").unwrap();
    for (end_row, requested) in [(1 + 257, 257), (u64::MAX, usize::MAX - 1)] {
        let error = Error::FanOutExceeded { limit: 256, requested };
        assert_no_trace(&mut builder, error, |builder| {
            builder.split_manifest_by_rows(7, 1, end_row, 1, b"x")
        });
    }
    assert_eq!(builder.split_manifest_by_rows(7, 1, 257, 1, b"x"), Ok(256));
    assert_eq!(hinted_rows(&builder).len(), 257);
}

#[test]
fn split_manifest_by_rows_handles_u64_boundary_without_wrap() {
    const MAX: u64 = u64::MAX;
    for (start_row, rows_per_shard, expected) in [
        (MAX - 5, 3, vec![(MAX - 5, MAX - 2), (MAX - 2, MAX)]),
        (MAX - 1, 1, vec![(MAX - 1, MAX)]),
        (MAX - 1, MAX, vec![(MAX - 1, MAX)]),
        (0, MAX, vec![(0, MAX)]),
        (0, MAX / 2, vec![(0, MAX / 2), (MAX / 2, MAX - 1), (MAX - 1, MAX)]),
        (1, MAX - 1, vec![(1, MAX)]),
    ] {
        let mut arena = arena();
        let mut builder = Builder::new(&mut arena, 8).unwrap();
        let pieces = builder.split_manifest_by_rows(7, start_row, MAX, rows_per_shard, b"x");
        assert_eq!(pieces, Ok(expected.len()));
        assert_eq!(hinted_rows(&builder), expected);
    }
}

#[test]
fn split_manifest_by_rows_refuses_pieces_without_rows() {
    let mut arena = arena();
    let mut builder = Builder::new(&mut arena, 8).unwrap();
    for (start_row, end_row, rows_per_shard) in
        [(10, 20, 0), (20, 10, 3), (10, 10, 3), (u64::MAX, 0, u64::MAX), (0, u64::MAX, 0)]
    {
        assert_no_trace(&mut builder, Error::ManifestCtorInvalid(inverted(16)), |builder| {
            builder.split_manifest_by_rows(7, start_row, end_row, rows_per_shard, b"x")
        });
    }
}

#[test]
fn range_split_that_fills_the_arena_changes_nothing() {
    let points: [&[u8]; 3] = [b"b", b"c", b"d"];
    let split =
        |builder: &mut Builder<'_>| builder.split_range_by_boundaries(b"a", &points, b"e", b"x");
    // Each part takes eight bytes. After the first shard and the earlier contents of the arena, the
    // third part has no byte or no handle left.
    let bytes = SlabFull::Bytes { requested: 8, free: 7, capacity: 41 };
    for (handles, capacity, full) in [(9, 41, bytes), (4, 99, SlabFull::Handles { max: 4 })] {
        let mut arena = ShardArena::new(handles, capacity);
        let before = arena.alloc(ShardSpecRef::new(b"v", b"w", b"eight!")).unwrap();
        let mut builder = Builder::new(&mut arena, 8).unwrap();
        builder.add_range(b"x", b"y", b"+++").unwrap();
        assert_no_trace(&mut builder, Error::SlabFull(full), split);
        assert_no_trace(&mut builder, Error::SlabFull(full), split);

        // Numbers continue, and the room of the parts can be used again.
        assert_eq!(builder.split_range_by_boundaries(b"a", &points[..1], b"c", b"x"), Ok(2));
        assert_eq!(builder.build_inputs().unwrap()[2].spec.start(), b"b");
        assert_eq!((builder.len(), builder.arena.len()), (3, 4));
        assert!(builder.arena.get(before).is_some());
    }
}

#[test]
fn manifest_split_that_fills_the_arena_changes_nothing() {
    // Two bounds of 16 bytes, four of length, 25 of hint and one of the connector's make 62.
    let bytes = SlabFull::Bytes { requested: 62, free: 61, capacity: 247 };
    for (handles, capacity, full) in [(9, 247, bytes), (3, 999, SlabFull::Handles { max: 3 })] {
        let mut arena = ShardArena::new(handles, capacity);
        let mut builder = Builder::new(&mut arena, 8).unwrap();
        builder.add_manifest(7, 0, 1, b"x").unwrap();
        for _ in 0..2 {
            assert_no_trace(&mut builder, Error::SlabFull(full), |builder| {
                builder.split_manifest_by_rows(7, 1, 5, 1, b"x")
            });
        }
        assert_eq!(builder.split_manifest_by_rows(7, 1, 5, 2, b"x"), Ok(2));
        assert_eq!(hinted_rows(&builder), [(0, 1), (1, 3), (3, 5)]);
    }
}

#[test]
fn split_without_room_for_its_first_part_changes_nothing() {
    let mut arena = ShardArena::new(9, 7);
    let mut builder = Builder::new(&mut arena, 8).unwrap();
    let full = SlabFull::Bytes { requested: 8, free: 7, capacity: 7 };
    assert_no_trace(&mut builder, Error::SlabFull(full), |builder| {
        builder.split_range_by_boundaries(b"a", &[b"b"], b"c", b"x")
    });
    assert_eq!(builder.add_range(b"a", b"c", b""), Ok(id(0)));
}
