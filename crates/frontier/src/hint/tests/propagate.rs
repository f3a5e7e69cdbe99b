use super::*;

/// Propagates the parent's hint to children whose bounds must be refused with `error`.
fn assert_refused(parent: ShardHint<'_>, error: HintPropagationError, children: &[(&[u8], &[u8])]) {
    for (start, end) in children {
        let refused = propagate_hint_on_split(parent, start, end);
        assert_eq!(refused, Err(error), "[{start:?}, {end:?})");
    }
}

/// Like [`assert_refused`], for rows 10 to 19 of manifest 7 and bounds that are rows.
fn assert_rows_refused(error: HintPropagationError, children: &[[(u64, u64); 2]]) {
    for [(start_id, start), (end_id, end)] in children {
        let (start, end) = (row_key(*start_id, *start), row_key(*end_id, *end));
        assert_refused(PARENT_ROWS, error, &[(&start, &end)]);
    }
}

const PARENT_ROWS: ShardHint<'_> =
    ShardHint::Manifest { manifest_id: 7, start_row: 10, end_row: 20 };

const fn prefix_error(boundary: SplitBoundary) -> HintPropagationError {
    HintPropagationError::InvalidPrefixBoundary { boundary }
}

const fn manifest_error(boundary: SplitBoundary) -> HintPropagationError {
    HintPropagationError::InvalidManifestBoundary { boundary }
}

#[test]
fn propagate_hint_on_split_range_stays_range() {
    let long = [1; MAX_KEY_SIZE + 1];
    for (start, end) in [(&b"a"[..], &b"b"[..]), (b"b", b"a"), (b"", b""), (&long, b"x")] {
        let child = propagate_hint_on_split(ShardHint::Range, start, end);
        assert_eq!(child, Ok(ShardHint::Range));
    }
}

#[test]
fn propagate_hint_on_split_prefix_demotes_to_range() {
    for (parent, start, end) in [
        (&b"a/"[..], &b"a/"[..], &b"a0"[..]),
        (b"a/", b"a/", b"a/m"),
        (b"a/", b"a/m", b"a/n"),
        (b"a/", b"a/m", b"a/m\0"),
        (b"a/", b"a/\xff\xff", b"a0"),
        // The end of a prefix that ends in 0xFF is shorter than the prefix.
        (b"a\xff", b"a\xff", b"b"),
    ] {
        let child = propagate_hint_on_split(prefix(parent), start, end);
        assert_eq!(child, Ok(ShardHint::Range), "[{start:?}, {end:?})");
    }
}

#[test]
fn oversized_prefix_has_no_child() {
    let long = [b'a'; MAX_KEY_SIZE + 1];
    let error = prefix_error(SplitBoundary::Start);
    assert_refused(prefix(&long), error, &[(&long, b""), (&long, b"b")]);
    let longest = &long[1..];
    assert_eq!(
        propagate_hint_on_split(prefix(longest), longest, &{
            let mut end = longest.to_vec();
            end[MAX_KEY_SIZE - 1] = b'b';
            end
        }),
        Ok(ShardHint::Range)
    );
}

#[test]
fn propagate_hint_on_split_prefix_rejects_out_of_range_start() {
    let outside = [&b""[..], b"a", b"a.", b"a.\xff", b"a0", b"b"].map(|start| (start, &b"a0"[..]));
    assert_refused(prefix(b"a/"), prefix_error(SplitBoundary::Start), &outside);
    // With both bounds outside, the start is reported.
    let error = prefix_error(SplitBoundary::Start);
    assert_refused(prefix(b"a/"), error, &[(b"a", b"b")]);
}

#[test]
fn propagate_hint_on_split_prefix_rejects_out_of_range_end() {
    let outside: &[(&[u8], &[u8])] = &[
        (b"a/m", b"a0\0"),
        (b"a/m", b"a1"),
        (b"a/m", b"b"),
        (b"a/m", b"a"),
        (b"a/m", b"a.\xff"),
        // The far end of the keyspace lies after the end of the prefix.
        (b"a/m", b""),
        // Inside the prefix, and not after the start.
        (b"a/m", b"a/m"),
        (b"a/m", b"a/l"),
        (b"a/", b"a/"),
    ];
    assert_refused(prefix(b"a/"), prefix_error(SplitBoundary::End), outside);
}

#[test]
fn prefix_without_successor_reaches_the_end_of_the_keyspace() {
    for (parent, start, end) in [
        (&b"\xff\xff"[..], &b"\xff\xff"[..], &b""[..]),
        (b"\xff\xff", b"\xff\xff\x01", b""),
        (b"\xff\xff", b"\xff\xff\x01", b"\xff\xff\x02"),
        (b"", b"", b""),
        (b"", b"a", b""),
        (b"", b"", b"a"),
    ] {
        let child = propagate_hint_on_split(prefix(parent), start, end);
        assert_eq!(child, Ok(ShardHint::Range), "[{start:?}, {end:?})");
    }
    let starts: &[(&[u8], &[u8])] = &[(b"\xff", b""), (b"\xff\xfe", b""), (b"", b"")];
    assert_refused(prefix(b"\xff\xff"), prefix_error(SplitBoundary::Start), starts);
    let ends: &[(&[u8], &[u8])] = &[
        (b"\xff\xff\x01", b"\xff"),
        (b"\xff\xff\x01", b"\xff\xff"),
        (b"\xff\xff\x01", b"\xff\xff\x01"),
    ];
    assert_refused(prefix(b"\xff\xff"), prefix_error(SplitBoundary::End), ends);
    assert_refused(prefix(b""), prefix_error(SplitBoundary::End), &[(b"b", b"a"), (b"b", b"b")]);
}

#[test]
fn propagate_hint_on_split_manifest_adjusts_child_rows() {
    for (start, end) in [(10, 11), (12, 15), (19, 20), (10, 20)] {
        let child = propagate_hint_on_split(PARENT_ROWS, &row_key(7, start), &row_key(7, end));
        assert_eq!(child, Ok(rows(7, start, end)));
    }
}

#[test]
fn propagate_hint_on_split_manifest_child_end_at_parent_end() {
    let child = propagate_hint_on_split(PARENT_ROWS, &row_key(7, 15), &row_key(7, 20));
    assert_eq!(child, Ok(rows(7, 15, 20)));
    let parent = rows(u64::MAX, 0, u64::MAX);
    let (start, end) = (row_key(u64::MAX, 0), row_key(u64::MAX, u64::MAX));
    assert_eq!(propagate_hint_on_split(parent, &start, &end), Ok(parent));
}

#[test]
fn propagate_hint_on_split_manifest_rejects_non_manifest_boundaries() {
    let (start, end) = (row_key(7, 12), row_key(7, 15));
    let longer = [&start[..], b"\0"].concat();
    for bound in [&b""[..], b"a/path", &start[..15], &longer] {
        let children: &[(&[u8], &[u8])] = &[(bound, &end), (bound, bound)];
        assert_refused(PARENT_ROWS, manifest_error(SplitBoundary::Start), children);
    }
}

#[test]
fn propagate_hint_on_split_manifest_rejects_non_manifest_end_boundary() {
    let (start, end) = (row_key(7, 12), row_key(7, 15));
    let longer = [&end[..], b"\0"].concat();
    for bound in [&b""[..], b"a/path", &end[..15], &longer] {
        assert_refused(PARENT_ROWS, manifest_error(SplitBoundary::End), &[(&start, bound)]);
    }
}

#[test]
fn propagate_hint_on_split_manifest_rejects_manifest_id_mismatch() {
    for child in [6, 8] {
        let error = HintPropagationError::ManifestIdMismatch { parent: 7, child };
        assert_rows_refused(error, &[[(child, 12), (7, 15)], [(child, 12), (child, 15)]]);
    }
}

#[test]
fn propagate_hint_on_split_manifest_rejects_end_manifest_id_mismatch() {
    for child in [6, 8] {
        let error = HintPropagationError::ManifestIdMismatch { parent: 7, child };
        assert_rows_refused(error, &[[(7, 12), (child, 15)], [(7, 12), (child, 0)]]);
    }
}

#[test]
fn propagate_hint_on_split_manifest_rejects_out_of_parent_bounds() {
    let outside = [0, 9, 21, u64::MAX].map(|row| [(7, row), (7, 20)]);
    assert_rows_refused(manifest_error(SplitBoundary::Start), &outside);
    assert_rows_refused(manifest_error(SplitBoundary::Start), &[[(7, 9), (7, 21)]]);
}

#[test]
fn propagate_hint_on_split_manifest_rejects_end_row_beyond_parent() {
    let outside = [21, u64::MAX, 9, 0].map(|row| [(7, 12), (7, row)]);
    assert_rows_refused(manifest_error(SplitBoundary::End), &outside);
}

#[test]
fn propagate_hint_on_split_manifest_rejects_empty_child_range() {
    for (start_row, end_row) in [(10, 10), (12, 12), (20, 20), (15, 12), (20, 10)] {
        let error = HintPropagationError::EmptyManifestRange { start_row, end_row };
        assert_rows_refused(error, &[[(7, start_row), (7, end_row)]]);
    }
}

#[test]
fn propagation_errors_name_the_bound() {
    for (error, text) in [
        (prefix_error(SplitBoundary::Start), "the child's start lies outside the parent's prefix"),
        (manifest_error(SplitBoundary::End), "the child's end is not a row of the parent"),
        (
            HintPropagationError::ManifestIdMismatch { parent: 7, child: 8 },
            "the child's bound is in manifest 8, the parent's rows are in 7",
        ),
        (
            HintPropagationError::EmptyManifestRange { start_row: 6, end_row: 5 },
            "the child's row range 6..5 is empty or inverted",
        ),
    ] {
        assert_eq!(error.to_string(), text);
        assert!(error.source().is_none());
    }
}
