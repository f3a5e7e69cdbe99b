use std::error::Error as _;

use shardwright_contracts::{CursorUpdate, SplitValidationError};

use super::*;
use crate::key_encoding::key_successor;

const NOTHING_DONE: CursorUpdate<'static> = CursorUpdate::initial();

fn buffers<const N: usize>() -> [MetadataBuf; N] {
    [(); N].map(|()| MetadataBuf::new())
}

#[test]
fn manifest_rows_are_divided_among_the_parts() {
    let mut scratch = ShardSpecScratch::new();
    let parent = manifest_shard_ref(7, 0, 1_000, b"extra", &mut scratch).unwrap();
    let cut = row_key(7, 400);
    let mut two = buffers();
    let plan = plan_hinted_split_residual(parent, NOTHING_DONE, &cut, &mut two).unwrap();
    let rows = |start_row, end_row| {
        let hint = ShardHint::Manifest { manifest_id: 7, start_row, end_row };
        Ok(ShardMetadata::new(hint, b"extra"))
    };
    assert_eq!(decode_metadata(plan.narrowed()), rows(0, 400));
    assert_eq!(decode_metadata(plan.residual()), rows(400, 1_000));
    assert_eq!(plan.narrowed().end(), cut);

    let (left, right) = (row_key(7, 100), row_key(7, 900));
    let mut three = buffers::<3>();
    let cursor_key = row_key(7, 50);
    let cursor = CursorUpdate::at(&cursor_key);
    let plan = plan_hinted_split_replace(parent, cursor, &[&left, &right], &mut three).unwrap();
    let hints: Vec<_> = plan.children().iter().map(|child| decode_metadata(child.spec)).collect();
    assert_eq!(hints, [rows(0, 100), rows(100, 900), rows(900, 1_000)]);
    assert_eq!(plan.children()[0].cursor, cursor);
}

#[test]
fn parts_of_a_prefix_are_ranges() {
    let mut scratch = ShardSpecScratch::new();
    let parent = prefix_shard_ref(b"photos/", b"x", &mut scratch).unwrap();
    let mut two = buffers();
    let plan = plan_hinted_split_residual(parent, NOTHING_DONE, b"photos/m", &mut two).unwrap();
    for part in [plan.narrowed(), plan.residual()] {
        assert_eq!(decode_metadata(part), Ok(ShardMetadata::new(ShardHint::Range, b"x")));
    }
}

#[test]
fn boundary_between_rows_is_refused() {
    let mut scratch = ShardSpecScratch::new();
    let parent = manifest_shard_ref(7, 0, 10, b"", &mut scratch).unwrap();
    let between = [&row_key(7, 5)[..], &[0]].concat();
    let end = HintPropagationError::InvalidManifestBoundary { boundary: SplitBoundary::End };
    let refused =
        plan_hinted_split_residual(parent, NOTHING_DONE, &between, &mut buffers()).unwrap_err();
    assert_eq!(refused, HintedSplitError::Hint(end));
    let mut two = buffers::<2>();
    let refused = plan_hinted_split_replace(parent, NOTHING_DONE, &[&between], &mut two);
    assert_eq!(refused.unwrap_err(), HintedSplitError::Hint(end));
    assert_eq!(HintedSplitError::Hint(end).source().unwrap().to_string(), end.to_string());
}

#[test]
fn hinted_split_errors_are_reported() {
    let spec = ShardSpecRef::new(b"a", b"z", b"");
    let mut two = buffers();
    let invalid = plan_hinted_split_residual(spec, NOTHING_DONE, b"z", &mut two).unwrap_err();
    assert!(matches!(
        invalid,
        HintedSplitError::Split(SplitValidationError::InvalidChildSpec { index: 1, .. })
    ));
    let unreadable = spec.with_metadata(b"\x01");
    let refused = plan_hinted_split_residual(unreadable, NOTHING_DONE, b"m", &mut two);
    let envelope = ShardMetadataDecodeError { hint_error: None };
    assert_eq!(refused.unwrap_err(), HintedSplitError::Metadata(envelope));
    let refused = plan_hinted_split_replace(spec, NOTHING_DONE, &[b"g", b"m"], &mut two);
    assert_eq!(refused.unwrap_err(), HintedSplitError::TooFewBuffers { parts: 3, buffers: 2 });
    assert!(plan_hinted_split_replace(spec, NOTHING_DONE, &[b"m"], &mut two).is_ok());
}

#[test]
fn planning_with_hints_does_not_allocate() {
    let mut scratch = ShardSpecScratch::new();
    let parent = prefix_shard_ref(b"p/", b"x", &mut scratch).unwrap();
    let (mut two, mut three) = (buffers(), buffers::<3>());
    let counted = allocation_counter::measure(|| {
        assert!(plan_hinted_split_residual(parent, NOTHING_DONE, b"p/m", &mut two).is_ok());
        let cuts: [&[u8]; 2] = [b"p/g", b"p/m"];
        assert!(plan_hinted_split_replace(parent, NOTHING_DONE, &cuts, &mut three).is_ok());
    });
    assert_eq!(counted.count_total, 0);
}

#[test]
fn metadata_whose_hint_stays_is_kept_byte_by_byte() {
    let mut two = buffers();
    for metadata in [&b""[..], b"\0\0\0\x01\0extra"] {
        let parent = ShardSpecRef::new(b"a", b"z", metadata);
        let plan = plan_hinted_split_residual(parent, NOTHING_DONE, b"m", &mut two).unwrap();
        assert_eq!((plan.narrowed().metadata(), plan.residual().metadata()), (metadata, metadata));
    }
}

#[test]
fn each_part_gets_the_connectors_bytes_that_are_given_for_it() {
    let mut two = buffers();
    let hint = ShardHint::Manifest { manifest_id: 7, start_row: 0, end_row: 10 };
    let rows = |start_row, end_row| ShardHint::Manifest { manifest_id: 7, start_row, end_row };
    let mut scratch = ShardSpecScratch::new();
    let parent = manifest_shard_ref(7, 0, 10, b"x", &mut scratch).unwrap();
    assert_eq!(decode_hint(parent), Ok(hint));
    let (cut, extras) = (row_key(7, 4), [&b"xy"[..], b""]);
    let plan = plan_hinted_split_residual_with_extra(parent, NOTHING_DONE, &cut, extras, &mut two)
        .unwrap();
    let (narrowed, residual) = (rows(0, 4), rows(4, 10));
    assert_eq!(decode_metadata(plan.narrowed()), Ok(ShardMetadata::new(narrowed, b"xy")));
    assert_eq!(decode_metadata(plan.residual()), Ok(ShardMetadata::from_hint(residual)));
    let long = vec![0; MetadataBuf::CAPACITY];
    let extras = [&long[..], b""];
    let refused =
        plan_hinted_split_residual_with_extra(parent, NOTHING_DONE, &cut, extras, &mut two);
    assert!(matches!(refused, Err(HintedSplitError::Split(_))), "{refused:?}");
}

#[test]
fn manifest_is_cut_between_rows_and_all_else_anywhere() {
    let mut buf = KeyBuf::new();
    let rows = ShardHint::Manifest { manifest_id: 7, start_row: 0, end_row: 10 };
    let row = row_key(7, 5);
    let inside = [&row[..], b"x"].concat();
    assert_eq!(rows.cut_at(&row, &mut buf), Some(&row[..]));
    assert_eq!(rows.cut_at(&inside, &mut buf), Some(&row_key(7, 6)[..]));
    assert_eq!(rows.cut_after(&row, &mut buf), Some(&row_key(7, 6)[..]));
    assert_eq!(rows.cut_at(&7_u64.to_be_bytes(), &mut buf), Some(&row_key(7, 0)[..]));
    assert_eq!(rows.cut_after(&row_key(7, u64::MAX), &mut buf), Some(&row_key(8, 0)[..]));
    assert_eq!(rows.cut_after(&[0xff; 16], &mut buf), None);
    assert!(rows.admits(&row) && !rows.admits(&inside) && !rows.admits(b""));
    for hint in [ShardHint::Range, ShardHint::Prefix { prefix: b"a" }] {
        assert_eq!(hint.cut_at(&inside, &mut buf), Some(&inside[..]));
        assert_eq!(hint.cut_after(b"ab", &mut buf), Some(&b"ab\0"[..]));
        assert_eq!(hint.cut_at(&[b'a'; MAX_KEY_SIZE + 1], &mut buf), None);
        assert!(hint.admits(&inside));
    }
}

proptest! {
    /// The first cut after a key is the first cut from its successor on. So what stays with a key
    /// is what a cut at its successor leaves with it.
    #[test]
    fn cut_after_a_key_is_the_cut_at_its_successor(
        key in prop::collection::vec(prop::sample::select(vec![0, 1, 0xfe, 0xff]), 0..20),
        manifest_id in prop::sample::select(vec![0, 1, u64::MAX]),
    ) {
        let rows = ShardHint::Manifest { manifest_id, start_row: 0, end_row: 1 };
        for hint in [ShardHint::Range, ShardHint::Prefix { prefix: b"a" }, rows] {
            let (mut one, mut two, mut next) = (KeyBuf::new(), KeyBuf::new(), KeyBuf::new());
            let after = hint.cut_after(&key, &mut one);
            let at_next = hint.cut_at(key_successor(&key, &mut next).unwrap(), &mut two);
            prop_assert_eq!(after, at_next);
            prop_assert!(after.is_none_or(|cut| cut > &key[..]));
        }
    }
}
