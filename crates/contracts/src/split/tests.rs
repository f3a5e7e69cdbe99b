use proptest::prelude::*;

use super::*;
use crate::canonical::CanonicalBytes;
use crate::cursor::{CursorInputError, CursorUpdate};
use crate::limits::{MAX_KEY_SIZE, MAX_SPLIT_CHILDREN, MAX_TOKEN_SIZE};
use crate::spec::{ShardSpecInputError, ShardSpecRef};

fn spec<'a>(start: &'a str, end: &'a str) -> ShardSpecRef<'a> {
    ShardSpecRef::new(start.as_bytes(), end.as_bytes(), b"meta")
}

const NOTHING_DONE: CursorUpdate<'static> = CursorUpdate::initial();

#[test]
fn replace_cuts_at_every_boundary_and_keeps_metadata() {
    let plan = plan_split_replace(spec("a", "z"), NOTHING_DONE, &[b"g", b"m"]).unwrap();
    let expected = [spec("a", "g"), spec("g", "m"), spec("m", "z")].map(SplitChild::fresh);
    assert_eq!(plan.children(), expected);
}

#[test]
fn replace_gives_the_parents_progress_to_the_first_child() {
    let cursor = CursorUpdate::new(Some(b"c"), Some(b"token"));
    let plan = plan_split_replace(spec("a", "z"), cursor, &[b"d"]).unwrap();
    assert_eq!(plan.children()[0].cursor, cursor);
    assert_eq!(plan.children()[1].cursor, NOTHING_DONE);
}

#[test]
fn replace_puts_every_boundary_after_the_cursor() {
    for cursor in [b"d", b"e"] {
        assert_eq!(
            plan_split_replace(spec("a", "z"), CursorUpdate::at(cursor), &[b"d"]),
            Err(SplitValidationError::ParentCursorOutOfBounds)
        );
    }
}

#[test]
fn replace_divides_an_unbounded_shard() {
    let plan = plan_split_replace(spec("", ""), NOTHING_DONE, &[b"m"]).unwrap();
    assert_eq!(plan.children(), [spec("", "m"), spec("m", "")].map(SplitChild::fresh));
}

#[test]
fn replace_refuses_boundaries_that_do_not_cut() {
    let plan = |boundaries: &[&'static [u8]]| {
        plan_split_replace(spec("b", "y"), NOTHING_DONE, boundaries).unwrap_err()
    };
    let inverted = |index, start_len, end_len| {
        let error = ShardSpecInputError::InvertedRange { start_len, end_len };
        SplitValidationError::InvalidChildSpec { index, error }
    };
    assert_eq!(plan(&[]), SplitValidationError::SingleChild);
    assert_eq!(plan(&[b"b"]), inverted(0, 1, 1));
    assert_eq!(plan(&[b"y"]), inverted(1, 1, 1));
    assert_eq!(plan(&[b"a"]), inverted(0, 1, 1));
    assert_eq!(plan(&[b"m", b"g"]), inverted(1, 1, 1));
    assert_eq!(plan(&[b"m", b"m"]), inverted(1, 1, 1));
    assert_eq!(plan(&[b"m", b""]), SplitValidationError::Overlap { index: 1 });
}

#[test]
fn replace_limits_the_number_of_children() {
    let keys: Vec<Vec<u8>> =
        (1..=MAX_SPLIT_CHILDREN as u16).map(|n| n.to_be_bytes().into()).collect();
    let boundaries: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let parent = spec("", "\x7f");
    let most = plan_split_replace(parent, NOTHING_DONE, &boundaries[1..]).unwrap();
    assert_eq!(most.children().len(), MAX_SPLIT_CHILDREN);
    let too_many = SplitValidationError::TooManyChildren { count: 257, max: 256 };
    assert_eq!(plan_split_replace(parent, NOTHING_DONE, &boundaries), Err(too_many));
    let children = vec![SplitChild::fresh(parent); 257];
    assert_eq!(plan_split_replace_with_children(parent, NOTHING_DONE, &children), Err(too_many));
    assert_eq!(validate_split_coverage(parent, &vec![parent; 257]), Err(too_many));
}

#[test]
fn given_children_are_sorted_and_keep_their_own_metadata() {
    let (left, right) = (spec("a", "m").with_metadata(b"l"), spec("m", "z").with_metadata(b"r"));
    let plan = plan_split_replace_with_children(
        spec("a", "z"),
        NOTHING_DONE,
        &[SplitChild::fresh(right), SplitChild::fresh(left)],
    )
    .unwrap();
    assert_eq!(plan.children(), [left, right].map(SplitChild::fresh));
}

#[test]
fn given_children_have_at_most_the_parents_progress() {
    let child = |start, end, cursor| SplitChild { spec: spec(start, end), cursor };
    let plan = |cursor, children: &[SplitChild<'static>]| {
        plan_split_replace_with_children(spec("a", "z"), cursor, children).map(drop)
    };
    let done_to_g = [
        child("a", "f", CursorUpdate::at(b"e")),
        child("f", "m", CursorUpdate::at(b"g")),
        child("m", "z", NOTHING_DONE),
    ];
    assert_eq!(plan(CursorUpdate::at(b"g"), &done_to_g), Ok(()));
    let ahead = SplitValidationError::ChildCursorAhead { index: 1 };
    assert_eq!(plan(CursorUpdate::at(b"f"), &done_to_g), Err(ahead));
    let ahead = SplitValidationError::ChildCursorAhead { index: 0 };
    assert_eq!(plan(NOTHING_DONE, &done_to_g), Err(ahead));
}

#[test]
fn given_cursors_are_valid_and_inside_their_child() {
    let plan = |cursor| {
        let second = SplitChild { spec: spec("m", "z"), cursor };
        let children = [SplitChild::fresh(spec("a", "m")), second];
        plan_split_replace_with_children(spec("a", "z"), CursorUpdate::at(b"y"), &children)
            .unwrap_err()
    };
    let outside = SplitValidationError::ChildCursorOutOfBounds { index: 1 };
    assert_eq!(plan(CursorUpdate::at(b"l")), outside);
    assert_eq!(plan(CursorUpdate::at(b"z")), outside);
    let error = CursorInputError::EmptyLastKey;
    let invalid = SplitValidationError::InvalidChildCursor { index: 1, error };
    assert_eq!(plan(CursorUpdate::at(b"")), invalid);
}

#[test]
fn parents_cursor_is_checked() {
    let parent = spec("", "z");
    let (long_key, long_token) = (vec![b'c'; MAX_KEY_SIZE + 1], vec![0; MAX_TOKEN_SIZE + 1]);
    let children = [spec("", "m"), spec("m", "z")].map(SplitChild::fresh);
    for (cursor, error) in [
        (CursorUpdate::at(b""), CursorInputError::EmptyLastKey),
        (CursorUpdate::new(None, Some(b"t")), CursorInputError::TokenWithoutKey),
        (CursorUpdate::at(&long_key), CursorInputError::KeyTooLarge { size: 4_097, max: 4_096 }),
        (
            CursorUpdate::new(Some(b"c"), Some(&long_token)),
            CursorInputError::TokenTooLarge { size: 16_385, max: 16_384 },
        ),
    ] {
        let invalid = Err(SplitValidationError::InvalidParentCursor { error });
        assert_eq!(plan_split_residual(parent, cursor, b"m").map(drop), invalid);
        assert_eq!(plan_split_replace(parent, cursor, &[b"m"]).map(drop), invalid);
        let given = plan_split_replace_with_children(parent, cursor, &children);
        assert_eq!(given.map(drop), invalid);
    }
    let outside = plan_split_replace_with_children(parent, CursorUpdate::at(b"zz"), &children);
    assert_eq!(outside, Err(SplitValidationError::ParentCursorOutOfBounds));
}

#[test]
fn coverage_needs_an_exact_tiling() {
    let check = |children: &[ShardSpecRef<'_>]| validate_split_coverage(spec("a", "z"), children);
    assert_eq!(check(&[spec("m", "z"), spec("a", "m")]), Ok(()));
    assert_eq!(check(&[]), Err(SplitValidationError::NoChildren));
    assert_eq!(check(&[spec("a", "z")]), Err(SplitValidationError::SingleChild));
    for (children, expected) in [
        ([spec("b", "m"), spec("m", "z")], SplitValidationError::StartMismatch),
        ([spec("", "m"), spec("m", "z")], SplitValidationError::StartMismatch),
        ([spec("a", "m"), spec("m", "y")], SplitValidationError::EndMismatch),
        ([spec("a", "m"), spec("m", "")], SplitValidationError::EndMismatch),
        ([spec("a", "l"), spec("m", "z")], SplitValidationError::Gap { index: 0 }),
        ([spec("a", "n"), spec("m", "z")], SplitValidationError::Overlap { index: 0 }),
        ([spec("a", ""), spec("m", "z")], SplitValidationError::Overlap { index: 0 }),
        ([spec("a", "z"), spec("a", "z")], SplitValidationError::Overlap { index: 0 }),
    ] {
        assert_eq!(check(&children), Err(expected), "{expected}");
    }
}

#[test]
fn residual_keeps_the_left_part() {
    let plan = plan_split_residual(spec("a", "z"), CursorUpdate::at(b"c"), b"d").unwrap();
    assert_eq!((plan.narrowed(), plan.residual()), (spec("a", "d"), spec("d", "z")));
    let plan = plan_split_residual(spec("", ""), NOTHING_DONE, b"d").unwrap();
    assert_eq!((plan.narrowed(), plan.residual()), (spec("", "d"), spec("d", "")));
}

#[test]
fn residual_parts_may_have_their_own_metadata() {
    let plan =
        plan_split_residual_with_metadata(spec("a", "z"), NOTHING_DONE, b"m", b"l", b"r").unwrap();
    assert_eq!(plan.narrowed(), spec("a", "m").with_metadata(b"l"));
    assert_eq!(plan.residual(), spec("m", "z").with_metadata(b"r"));
}

#[test]
fn residual_boundary_lies_after_the_cursor() {
    for cursor in [b"d", b"e"] {
        assert_eq!(
            plan_split_residual(spec("a", "z"), CursorUpdate::at(cursor), b"d"),
            Err(SplitValidationError::ParentCursorOutOfBounds)
        );
    }
    let inverted = |index| {
        let error = ShardSpecInputError::InvertedRange { start_len: 1, end_len: 1 };
        Err(SplitValidationError::InvalidChildSpec { index, error })
    };
    assert_eq!(plan_split_residual(spec("b", "y"), NOTHING_DONE, b"b"), inverted(0));
    assert_eq!(plan_split_residual(spec("b", "y"), NOTHING_DONE, b"y"), inverted(1));
    let overlap = Err(SplitValidationError::Overlap { index: 0 });
    assert_eq!(plan_split_residual(spec("b", "y"), NOTHING_DONE, b""), overlap);
    let long = vec![b'c'; MAX_KEY_SIZE + 1];
    let error = ShardSpecInputError::KeyTooLarge { size: 4_097, max: 4_096 };
    assert_eq!(
        plan_split_residual(spec("b", "y"), NOTHING_DONE, &long),
        Err(SplitValidationError::InvalidChildSpec { index: 0, error })
    );
}

#[test]
fn residual_bounds_meet_at_one_boundary() {
    let check =
        |narrowed, residual| validate_residual_split_bounds(spec("a", "z"), narrowed, residual);
    assert_eq!(check(spec("a", "m"), spec("m", "z")), Ok(()));
    assert_eq!(check(spec("m", "z"), spec("a", "m")), Err(SplitValidationError::StartMismatch));
    assert_eq!(check(spec("a", "m"), spec("n", "z")), Err(SplitValidationError::Gap { index: 0 }));
}

#[test]
fn golden_canonical_bytes_of_plans() {
    let mut bytes = Vec::new();
    let cursor = CursorUpdate::at(b"b");
    let parent = ShardSpecRef::new(b"a", b"z", b"");
    plan_split_replace(parent, cursor, &[b"m"]).unwrap().write_canonical(&mut bytes);
    let mut expected = vec![2, 0, 0, 0];
    expected.extend(b"\x01\0\0\0a\x01\0\0\0m\0\0\0\0\x01\x01\0\0\0b\0");
    expected.extend(b"\x01\0\0\0m\x01\0\0\0z\0\0\0\0\0\0");
    assert_eq!(bytes, expected);

    bytes.clear();
    plan_split_residual(parent, cursor, b"m").unwrap().write_canonical(&mut bytes);
    assert_eq!(bytes, b"\x01\0\0\0a\x01\0\0\0m\0\0\0\0\x01\0\0\0m\x01\0\0\0z\0\0\0\0");
}

#[test]
fn planning_does_not_allocate() {
    let (parent, cursor) = (spec("a", "z"), CursorUpdate::at(b"b"));
    let boundaries: Vec<&[u8]> = vec![b"c", b"d", b"e"];
    let children: Vec<_> =
        plan_split_replace(parent, cursor, &boundaries).unwrap().children().into();
    let specs: Vec<_> = children.iter().map(|child| child.spec).collect();
    let counted = allocation_counter::measure(|| {
        let _ = std::hint::black_box(plan_split_replace(parent, cursor, &boundaries));
        let _ = std::hint::black_box(plan_split_replace_with_children(parent, cursor, &children));
        let _ = std::hint::black_box(plan_split_residual(parent, cursor, b"m"));
        let _ = std::hint::black_box(validate_split_coverage(parent, &specs));
    });
    assert_eq!(counted.count_total, 0);
}

proptest! {
    #[test]
    fn every_key_belongs_to_exactly_one_part(
        mut keys in prop::collection::btree_set(prop::collection::vec(any::<u8>(), 1..4), 3..12),
        probe in prop::collection::vec(any::<u8>(), 0..5),
    ) {
        let (start, end) = (keys.pop_first().unwrap(), keys.pop_last().unwrap());
        let boundaries: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let parent = ShardSpecRef::new(&start, &end, b"");
        let plan = plan_split_replace(parent, NOTHING_DONE, &boundaries).unwrap();
        let owners = plan.children().iter().filter(|child| child.spec.contains(&probe)).count();
        prop_assert_eq!(owners, usize::from(parent.contains(&probe)));

        let residual = plan_split_residual(parent, NOTHING_DONE, boundaries[0]).unwrap();
        let parts = [residual.narrowed(), residual.residual()];
        let owners = parts.iter().filter(|part| part.contains(&probe)).count();
        prop_assert_eq!(owners, usize::from(parent.contains(&probe)));
    }
}

#[test]
fn plan_from_parts_equals_its_plan() {
    let (parent, cursor) = (ShardSpecRef::new(b"a", b"z", b"m"), CursorUpdate::at(b"c"));
    let plan = plan_split_replace(parent, cursor, &[b"g", b"p"]).unwrap();
    let owned: Vec<SplitPart<Vec<u8>>> =
        plan.children().iter().rev().map(|child| child.map(|bytes| bytes.to_vec())).collect();
    let lent: Vec<SplitChild<'_>> = owned.iter().map(SplitPart::as_ref).collect();
    assert_eq!(SplitReplacePlan::from_parts(&lent), Ok(plan));
    let residual = plan_split_residual(parent, cursor, b"g").unwrap();
    let again = SplitResidualPlan::from_parts(residual.narrowed(), residual.residual());
    assert_eq!(again, residual);
}

#[test]
fn from_parts_checks_only_the_number() {
    let part = SplitChild::fresh(ShardSpecRef::new(b"b", b"a", b""));
    assert_eq!(SplitReplacePlan::from_parts(&[]), Err(SplitValidationError::NoChildren));
    assert_eq!(SplitReplacePlan::from_parts(&[part]), Err(SplitValidationError::SingleChild));
    let (count, max) = (MAX_SPLIT_CHILDREN + 1, MAX_SPLIT_CHILDREN);
    let refused = SplitReplacePlan::from_parts(&vec![part; count]);
    assert_eq!(refused, Err(SplitValidationError::TooManyChildren { count, max }));
    let plan = SplitReplacePlan::from_parts(&[part, part]).unwrap();
    let (parent, cursor) = (ShardSpecRef::new(b"a", b"z", b""), CursorUpdate::initial());
    assert!(plan.validate_against(parent, cursor).is_err());
}
