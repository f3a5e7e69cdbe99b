use super::SplitValidationError;
use super::{check_parent_cursor, check_tiling};
use crate::canonical::{CanonicalBytes, CanonicalSink};
use crate::cursor::CursorUpdate;
use crate::spec::ShardSpecRef;

/// A plan to split a shard into a left part that it keeps and a right part for a new shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitResidualPlan<'a> {
    narrowed: ShardSpecRef<'a>,
    residual: ShardSpecRef<'a>,
}

/// Plans to split `parent` at `boundary`, which must lie after the parent's cursor.
///
/// Both parts get the parent's metadata unchanged. If the metadata describes the range, as a hint
/// does, give each part its own.
pub fn plan_split_residual<'a>(
    parent: ShardSpecRef<'a>,
    cursor: CursorUpdate<'_>,
    boundary: &'a [u8],
) -> Result<SplitResidualPlan<'a>, SplitValidationError> {
    let metadata = parent.metadata();
    plan_split_residual_with_metadata(parent, cursor, boundary, metadata, metadata)
}

/// Plans to split `parent` at `boundary`, with metadata for each part.
pub fn plan_split_residual_with_metadata<'a>(
    parent: ShardSpecRef<'a>,
    cursor: CursorUpdate<'_>,
    boundary: &'a [u8],
    narrowed_metadata: &'a [u8],
    residual_metadata: &'a [u8],
) -> Result<SplitResidualPlan<'a>, SplitValidationError> {
    let plan = SplitResidualPlan {
        narrowed: ShardSpecRef::new(parent.start(), boundary, narrowed_metadata),
        residual: ShardSpecRef::new(boundary, parent.end(), residual_metadata),
    };
    plan.validate_against(parent, cursor)?;
    Ok(plan)
}

/// Checks that `narrowed` is the left part of `parent`, `residual` the right one, and that they
/// tile it.
pub fn validate_residual_split_bounds(
    parent: ShardSpecRef<'_>,
    narrowed: ShardSpecRef<'_>,
    residual: ShardSpecRef<'_>,
) -> Result<(), SplitValidationError> {
    check_tiling(parent, &[narrowed, residual], |part| *part)
}

impl<'a> SplitResidualPlan<'a> {
    /// Makes a plan from the parts of a request, unchecked. [`SplitResidualPlan::validate_against`]
    /// checks it against the parent.
    #[must_use]
    pub const fn from_parts(narrowed: ShardSpecRef<'a>, residual: ShardSpecRef<'a>) -> Self {
        Self { narrowed, residual }
    }

    /// What the parent keeps.
    #[must_use]
    pub const fn narrowed(&self) -> ShardSpecRef<'a> {
        self.narrowed
    }

    /// What the new shard gets.
    #[must_use]
    pub const fn residual(&self) -> ShardSpecRef<'a> {
        self.residual
    }

    /// Checks the plan against a stored shard: the parts tile `parent`, and its `cursor` lies in
    /// the part that it keeps.
    pub fn validate_against(
        &self,
        parent: ShardSpecRef<'_>,
        cursor: CursorUpdate<'_>,
    ) -> Result<(), SplitValidationError> {
        validate_residual_split_bounds(parent, self.narrowed, self.residual)?;
        check_parent_cursor(self.narrowed, cursor)
    }
}

impl CanonicalBytes for SplitResidualPlan<'_> {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        self.narrowed.write_canonical(sink);
        self.residual.write_canonical(sink);
    }
}
