use crate::cursor::CursorInputError;
use crate::spec::ShardSpecInputError;

/// Why a plan does not divide its shard. An index counts the parts in key order, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SplitValidationError {
    /// The plan has no child.
    #[error("a split needs children")]
    NoChildren,
    /// The plan has one child, which would merely rename the shard.
    #[error("a split needs more than one child")]
    SingleChild,
    /// The plan has more children than one split may have.
    #[error("{count} children exceed {max}")]
    TooManyChildren {
        /// How many there are.
        count: usize,
        /// The limit.
        max: usize,
    },
    /// A part is not a valid shard by itself.
    #[error("part {index} is invalid")]
    InvalidChildSpec {
        /// Which one.
        index: usize,
        /// What is wrong with it.
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
    #[error("there is a gap behind part {index}")]
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
    /// A child's cursor is not valid by itself.
    #[error("the cursor of part {index} is invalid")]
    InvalidChildCursor {
        /// Which child.
        index: usize,
        /// What is wrong with it.
        #[source]
        error: CursorInputError,
    },
    /// A child's cursor stands outside its range.
    #[error("the cursor of part {index} lies outside its range")]
    ChildCursorOutOfBounds {
        /// Which child.
        index: usize,
    },
    /// A child's cursor claims work that the parent has not done.
    #[error("the cursor of part {index} is ahead of the parent's")]
    ChildCursorAhead {
        /// Which child.
        index: usize,
    },
    /// The parent's cursor is not valid by itself.
    #[error("the parent's cursor is invalid")]
    InvalidParentCursor {
        /// What is wrong with it.
        #[source]
        error: CursorInputError,
    },
    /// The parent's progress reaches beyond the part that would carry it on.
    #[error("the parent's cursor lies outside the part that inherits it")]
    ParentCursorOutOfBounds,
}
