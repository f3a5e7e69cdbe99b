//! Staging does not allocate, whether it succeeds or fails.

use super::*;

type FullBuilder<'a> = PreallocShardBuilder<'a, 1_024>;

fn assert_no_heap(call: impl FnOnce()) {
    assert_eq!(allocation_counter::measure(call).count_total, 0);
}

/// How often each method stages a single shard. With two splits of 256, the eight methods fill a
/// builder of 1,024.
const ROUNDS: u8 = 64;

/// Keys that outlive the builder, for its cursors and split points.
struct Keys {
    cursors: Vec<[Vec<u8>; 3]>,
    points: Vec<[u8; 2]>,
}

impl Keys {
    fn new() -> Self {
        let cursors = |n| [vec![b'b', n], vec![b'd', n], row_key(2, u64::from(n))];
        Self {
            cursors: (0..ROUNDS).map(cursors).collect(),
            points: (1..=u8::MAX).map(|n| [b's', n]).collect(),
        }
    }
}

fn stage_one_by_one<'a>(
    builder: &mut FullBuilder<'a>,
    keys: &'a Keys,
    handles: &[ShardSpecHandle],
) -> Result<(), Error> {
    for ((n, [range, prefix, row]), handle) in (0..).zip(&keys.cursors).zip(handles) {
        builder.add_range(&[b'a', n], &[b'a', n + 1], b"x")?;
        let cursor = CursorUpdate::at(range);
        builder.add_range_with_cursor(&[b'b', n], &[b'b', n + 1], b"x", cursor)?;
        builder.add_prefix(&[b'c', n], b"x")?;
        builder.add_prefix_with_cursor(&[b'd', n], b"x", CursorUpdate::at(prefix))?;
        let first = u64::from(n);
        builder.add_manifest(1, first, first + 1, b"x")?;
        let cursor = CursorUpdate::at(row);
        builder.add_manifest_with_cursor(2, first, first + 1, b"x", cursor)?;
        builder.add_spec_ref(ShardSpecRef::new(&[b'e', n], &[b'e', n + 1], b"x"))?;
        builder.add_spec_handle(*handle)?;
    }
    Ok(())
}

/// Calls that fail on a full builder and on an empty one.
fn fail_in_every_way(builder: &mut FullBuilder<'_>, foreign: ShardSpecHandle) {
    const TOO_MANY: [&[u8]; 256] = [b"point"; 256];
    let failures = [
        builder.add_range(b"b", b"a", b"").is_err(),
        builder.add_prefix(b"\xff", b"").is_err(),
        builder.add_manifest(1, 3, 2, b"").is_err(),
        builder.add_spec_ref(ShardSpecRef::new(b"b", b"a", b"")).is_err(),
        builder.add_spec_handle(foreign).is_err(),
        builder.split_range_by_boundaries(b"b", &[b"c"], b"a", b"").is_err(),
        builder.split_range_by_boundaries(b"a", &TOO_MANY, b"z", b"").is_err(),
        builder.split_manifest_by_rows(3, 0, 2, 0, b"").is_err(),
        builder.split_manifest_by_rows(3, 0, 257, 1, b"").is_err(),
    ];
    assert_eq!(failures, [true; 9]);
}

#[test]
fn staging_a_full_builder_does_not_allocate() {
    let keys = Keys::new();
    let points: Vec<_> = keys.points.iter().map(|key| &key[..]).collect();
    let (mut arena, mut other) = (ShardArena::new(1_024, 128 * 1_024), ShardArena::new(1, 9));
    let foreign = other.alloc(ShardSpecRef::new(b"a", b"b", b"")).unwrap();
    let handles: Vec<_> = (0..ROUNDS)
        .map(|n| arena.alloc(ShardSpecRef::new(&[b'f', n], &[b'f', n + 1], b"")).unwrap())
        .collect();
    let mut builder = FullBuilder::new(&mut arena, 1_024).unwrap();

    assert_no_heap(|| fail_in_every_way(&mut builder, foreign));
    assert_no_heap(|| stage_one_by_one(&mut builder, &keys, &handles).unwrap());
    assert_no_heap(|| {
        assert_eq!(builder.split_range_by_boundaries(b"s", &points, b"t", b"x"), Ok(256));
        assert_eq!(builder.split_manifest_by_rows(3, 0, 512, 2, b"x"), Ok(256));
    });
    let error = Error::CapacityExceeded { limit: 1_024, current: 1_024, additional: 1 };
    assert_no_heap(|| assert_eq!(builder.add_range(b"y", b"z", b""), Err(error)));
    assert_no_heap(|| fail_in_every_way(&mut builder, foreign));
    let inputs = builder.build_inputs().unwrap();
    assert_eq!(inputs.len(), 1_024);
    assert_eq!(inputs[1_023].shard, id(1_023));
    assert_no_heap(|| builder.reset());
}

#[test]
fn reverting_half_a_split_does_not_allocate() {
    let mut arena = ShardArena::new(2, 1_000);
    let mut builder = FullBuilder::new(&mut arena, 1_024).unwrap();
    let full = Error::SlabFull(SlabFull::Handles { max: 2 });
    assert_no_heap(|| {
        let range = builder.split_range_by_boundaries(b"a", &[b"b", b"c"], b"d", b"");
        assert_eq!(range, Err(full.clone()));
        assert_eq!(builder.split_manifest_by_rows(1, 0, 3, 1, b""), Err(full));
    });
    assert!(builder.is_empty() && builder.arena.is_empty());
}
