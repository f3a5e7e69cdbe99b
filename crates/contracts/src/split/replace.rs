use std::fmt;

use arrayvec::ArrayVec;

use super::SplitValidationError;
use super::{check_count, check_parent_cursor, check_tiling};
use crate::canonical::{CanonicalBytes, CanonicalSink};
use crate::cursor::{CursorInput, CursorUpdate};
use crate::limits::MAX_SPLIT_CHILDREN;
use crate::spec::{ShardSpecRef, SpecInput};

/// One shard that gets a part of its parent. `B` is the type of its bytes, borrowed or owned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SplitPart<B> {
    /// Its range and metadata.
    pub spec: SpecInput<B>,
    /// Its initial cursor.
    pub cursor: CursorInput<B>,
}

/// One shard that gets a part of its parent, with borrowed bytes.
pub type SplitChild<'a> = SplitPart<&'a [u8]>;

impl<B> SplitPart<B> {
    /// A child without progress.
    #[must_use]
    pub const fn fresh(spec: SpecInput<B>) -> Self {
        Self { spec, cursor: CursorInput::initial() }
    }

    /// The same child with other bytes, each made from one of these by `change`.
    pub fn map<'b, C>(&'b self, mut change: impl FnMut(&'b B) -> C) -> SplitPart<C> {
        let spec = self.spec.map(&mut change);
        SplitPart { spec, cursor: self.cursor.map(change) }
    }
}

impl<B: AsRef<[u8]>> SplitPart<B> {
    /// The same child, borrowed.
    #[must_use]
    pub fn as_ref(&self) -> SplitChild<'_> {
        self.map(AsRef::as_ref)
    }
}

impl<B: AsRef<[u8]>> fmt::Debug for SplitPart<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { spec, cursor } = self;
        f.debug_struct("SplitChild").field("spec", spec).field("cursor", cursor).finish()
    }
}

/// A plan to replace a shard by children.
///
/// The children are in key order, so equal plans compare equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitReplacePlan<'a> {
    children: ArrayVec<SplitChild<'a>, MAX_SPLIT_CHILDREN>,
}

/// Plans to split `parent` at `boundaries`, given in key order.
///
/// The first child inherits the parent's cursor, so no progress is lost. Therefore every boundary
/// must lie after that cursor. All children get the parent's metadata unchanged. If the metadata
/// describes the range, as a hint does, give each child its own.
pub fn plan_split_replace<'a>(
    parent: ShardSpecRef<'a>,
    cursor: CursorUpdate<'a>,
    boundaries: &[&'a [u8]],
) -> Result<SplitReplacePlan<'a>, SplitValidationError> {
    check_count(boundaries.len().saturating_add(1))?;
    let starts = std::iter::once(parent.start()).chain(boundaries.iter().copied());
    let ends = boundaries.iter().copied().chain(std::iter::once(parent.end()));
    let mut children: ArrayVec<_, MAX_SPLIT_CHILDREN> = starts
        .zip(ends)
        .map(|(start, end)| SplitChild::fresh(ShardSpecRef::new(start, end, parent.metadata())))
        .collect();
    if let Some(first) = children.first_mut() {
        first.cursor = cursor;
    }
    let plan = SplitReplacePlan { children };
    plan.validate_against(parent, cursor).map_err(|error| match error {
        SplitValidationError::ChildCursorOutOfBounds { .. } => {
            SplitValidationError::ParentCursorOutOfBounds
        }
        other => other,
    })?;
    Ok(plan)
}

/// Plans to replace `parent` by `children`, given in any order, with their own cursors and
/// metadata.
///
/// A child may have less progress than the parent, and its keys are then processed again. It may
/// not have more.
pub fn plan_split_replace_with_children<'a>(
    parent: ShardSpecRef<'_>,
    cursor: CursorUpdate<'_>,
    children: &[SplitChild<'a>],
) -> Result<SplitReplacePlan<'a>, SplitValidationError> {
    let plan = SplitReplacePlan::from_parts(children)?;
    plan.validate_against(parent, cursor)?;
    Ok(plan)
}

impl<'a> SplitReplacePlan<'a> {
    /// Makes a plan from the parts of a request, in any order. Checks only their number.
    /// [`SplitReplacePlan::validate_against`] checks the rest against the parent.
    pub fn from_parts(parts: &[SplitChild<'a>]) -> Result<Self, SplitValidationError> {
        check_count(parts.len())?;
        let mut children: ArrayVec<_, MAX_SPLIT_CHILDREN> = parts.iter().copied().collect();
        children.sort_unstable_by_key(|child| child.spec.start());
        Ok(Self { children })
    }

    /// The children in key order.
    #[must_use]
    pub fn children(&self) -> &[SplitChild<'a>] {
        &self.children
    }

    /// Checks the plan against a stored shard: the children tile `parent`, each cursor is valid and
    /// in its child's range, and none is beyond the parent's `cursor`.
    pub fn validate_against(
        &self,
        parent: ShardSpecRef<'_>,
        cursor: CursorUpdate<'_>,
    ) -> Result<(), SplitValidationError> {
        check_tiling(parent, &self.children, |child| child.spec)?;
        check_parent_cursor(parent, cursor)?;
        for (index, child) in self.children.iter().enumerate() {
            child
                .cursor
                .validate()
                .map_err(|error| SplitValidationError::InvalidChildCursor { index, error })?;
            if !child.cursor.is_within(child.spec) {
                return Err(SplitValidationError::ChildCursorOutOfBounds { index });
            }
            // `None` sorts before every key: children of a parent without progress have none
            // either.
            if child.cursor.last_key() > cursor.last_key() {
                return Err(SplitValidationError::ChildCursorAhead { index });
            }
        }
        Ok(())
    }
}

impl CanonicalBytes for SplitReplacePlan<'_> {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        sink.put_len(self.children.len());
        for child in &self.children {
            child.spec.write_canonical(sink);
            child.cursor.write_canonical(sink);
        }
    }
}
