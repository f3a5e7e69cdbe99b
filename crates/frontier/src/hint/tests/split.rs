use std::error::Error as _;

use shardwright_contracts::{CursorUpdate, SplitValidationError};

use super::*;

const NOTHING_DONE: CursorUpdate<'static> = CursorUpdate::initial();

fn buffers<const N: usize>() -> [MetadataBuf; N] {
    [(); N].map(|()| MetadataBuf::new())
}

#[test]
fn the_rows_of_a_manifest_are_divided_among_the_parts() {
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
fn the_parts_of_a_prefix_are_ranges() {
    let mut scratch = ShardSpecScratch::new();
    let parent = prefix_shard_ref(b"photos/", b"x", &mut scratch).unwrap();
    let mut two = buffers();
    let plan = plan_hinted_split_residual(parent, NOTHING_DONE, b"photos/m", &mut two).unwrap();
    for part in [plan.narrowed(), plan.residual()] {
        assert_eq!(decode_metadata(part), Ok(ShardMetadata::new(ShardHint::Range, b"x")));
    }
}

#[test]
fn a_cut_between_rows_is_refused() {
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
fn what_cannot_be_split_or_read_or_written_is_told() {
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
fn planning_with_hints_touches_no_heap() {
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
