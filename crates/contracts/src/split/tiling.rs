use arrayvec::ArrayVec;

use super::SplitValidationError;
use crate::cursor::CursorUpdate;
use crate::limits::MAX_SPLIT_CHILDREN;
use crate::spec::{ShardSpec, ShardSpecRef};

/// Checks that `children`, in whatever order, are two or more and tile `parent` exactly.
pub fn validate_split_coverage(
    parent: ShardSpecRef<'_>,
    children: &[ShardSpecRef<'_>],
) -> Result<(), SplitValidationError> {
    check_count(children.len())?;
    let mut sorted: ArrayVec<_, MAX_SPLIT_CHILDREN> = children.iter().copied().collect();
    sorted.sort_unstable_by_key(|child| child.start());
    check_tiling(parent, &sorted, |child| *child)
}

pub(super) fn check_count(count: usize) -> Result<(), SplitValidationError> {
    match count {
        0 => Err(SplitValidationError::NoChildren),
        1 => Err(SplitValidationError::SingleChild),
        2..=MAX_SPLIT_CHILDREN => Ok(()),
        _ => Err(SplitValidationError::TooManyChildren { count, max: MAX_SPLIT_CHILDREN }),
    }
}

/// Checks that `parts`, in key order, are valid and tile `parent` exactly.
pub(super) fn check_tiling<'a, T>(
    parent: ShardSpecRef<'_>,
    parts: &[T],
    spec_of: impl Fn(&T) -> ShardSpecRef<'a>,
) -> Result<(), SplitValidationError> {
    for (index, part) in parts.iter().enumerate() {
        ShardSpec::validate_ref(spec_of(part))
            .map_err(|error| SplitValidationError::InvalidChildSpec { index, error })?;
    }
    if parts.first().map(&spec_of).map(ShardSpecRef::start) != Some(parent.start()) {
        return Err(SplitValidationError::StartMismatch);
    }
    for (index, [left, right]) in parts.array_windows().enumerate() {
        let (left, right) = (spec_of(left), spec_of(right));
        // A part without an end covers everything to its right.
        if left.end().is_empty() || left.end() > right.start() {
            return Err(SplitValidationError::Overlap { index });
        }
        if left.end() < right.start() {
            return Err(SplitValidationError::Gap { index });
        }
    }
    if parts.last().map(&spec_of).map(ShardSpecRef::end) != Some(parent.end()) {
        return Err(SplitValidationError::EndMismatch);
    }
    Ok(())
}

/// Checks that a cursor is one that a shard of `range` can have.
pub(super) fn check_parent_cursor(
    range: ShardSpecRef<'_>,
    cursor: CursorUpdate<'_>,
) -> Result<(), SplitValidationError> {
    cursor.validate().map_err(|error| SplitValidationError::InvalidParentCursor { error })?;
    if !cursor.is_within(range) {
        return Err(SplitValidationError::ParentCursorOutOfBounds);
    }
    Ok(())
}
