//! Plans that divide a shard without losing or repeating a key.
//!
//! There are two kinds. A *replace* plan ends the parent and creates two or more children that tile
//! its range. A *residual* plan lets the parent keep the left part, with its lease and its
//! progress, and creates one shard for the right part.
//!
//! A plan borrows its parts and lives on the stack. The operation that applies it checks it again
//! against the stored shard ([`SplitReplacePlan::validate_against`],
//! [`SplitResidualPlan::validate_against`]), because the shard may have changed meanwhile.

mod replace;
mod residual;

use arrayvec::ArrayVec;

use crate::cursor::{CursorInputError, CursorUpdate};
use crate::limits::MAX_SPLIT_CHILDREN;
use crate::spec::{ShardSpec, ShardSpecInputError, ShardSpecRef};

pub use replace::{
    SplitChild, SplitPart, SplitReplacePlan, plan_split_replace, plan_split_replace_with_children,
};
pub use residual::{
    SplitResidualPlan, plan_split_residual, plan_split_residual_with_metadata,
    validate_residual_split_bounds,
};

/// Why a plan is invalid. An index counts the parts in key order, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SplitValidationError {
    /// The plan has no child.
    #[error("a split needs children")]
    NoChildren,
    /// The plan has one child, which would only rename the shard.
    #[error("a split needs more than one child")]
    SingleChild,
    /// The plan has more children than one split may have.
    #[error("{count} children exceed {max}")]
    TooManyChildren {
        /// Their number.
        count: usize,
        /// The limit.
        max: usize,
    },
    /// A part is invalid by itself.
    #[error("part {index} is invalid")]
    InvalidChildSpec {
        /// The part.
        index: usize,
        /// The cause.
        #[source]
        error: ShardSpecInputError,
    },
    /// The first part does not start where the parent does.
    #[error("the parts do not start where the parent does")]
    StartMismatch,
    /// The last part does not end where the parent does.
    #[error("the parts do not end where the parent does")]
    EndMismatch,
    /// Keys between a part and the next belong to neither.
    #[error("there is a gap after part {index}")]
    Gap {
        /// The part before the gap.
        index: usize,
    },
    /// A part and the next share keys.
    #[error("part {index} overlaps the next one")]
    Overlap {
        /// The left one of the two.
        index: usize,
    },
    /// A child's cursor is invalid by itself.
    #[error("the cursor of part {index} is invalid")]
    InvalidChildCursor {
        /// The child.
        index: usize,
        /// The cause.
        #[source]
        error: CursorInputError,
    },
    /// A child's cursor stands outside its range.
    #[error("the cursor of part {index} lies outside its range")]
    ChildCursorOutOfBounds {
        /// The child.
        index: usize,
    },
    /// A child's cursor is beyond the parent's cursor.
    #[error("the cursor of part {index} is ahead of the parent's")]
    ChildCursorAhead {
        /// The child.
        index: usize,
    },
    /// The parent's cursor is invalid by itself.
    #[error("the parent's cursor is invalid")]
    InvalidParentCursor {
        /// The cause.
        #[source]
        error: CursorInputError,
    },
    /// The parent's cursor lies outside the part that inherits it.
    #[error("the parent's cursor lies outside the part that inherits it")]
    ParentCursorOutOfBounds,
}

/// Checks that `children`, in any order, are two or more and tile `parent` exactly.
pub fn validate_split_coverage(
    parent: ShardSpecRef<'_>,
    children: &[ShardSpecRef<'_>],
) -> Result<(), SplitValidationError> {
    check_count(children.len())?;
    let mut sorted: ArrayVec<_, MAX_SPLIT_CHILDREN> = children.iter().copied().collect();
    sorted.sort_unstable_by_key(|child| child.start());
    check_tiling(parent, &sorted, |child| *child)
}

fn check_count(count: usize) -> Result<(), SplitValidationError> {
    match count {
        0 => Err(SplitValidationError::NoChildren),
        1 => Err(SplitValidationError::SingleChild),
        2..=MAX_SPLIT_CHILDREN => Ok(()),
        _ => Err(SplitValidationError::TooManyChildren { count, max: MAX_SPLIT_CHILDREN }),
    }
}

/// Checks that `parts`, in key order, are valid and tile `parent` exactly.
fn check_tiling<'a, T>(
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

/// Checks that a shard of `range` can have the cursor.
fn check_parent_cursor(
    range: ShardSpecRef<'_>,
    cursor: CursorUpdate<'_>,
) -> Result<(), SplitValidationError> {
    cursor.validate().map_err(|error| SplitValidationError::InvalidParentCursor { error })?;
    if !cursor.is_within(range) {
        return Err(SplitValidationError::ParentCursorOutOfBounds);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
