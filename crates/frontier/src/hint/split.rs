use arrayvec::ArrayVec;
use shardwright_contracts::limits::MAX_SPLIT_CHILDREN;
use shardwright_contracts::{
    CursorUpdate, ShardSpecRef, SplitChild, SplitReplacePlan, SplitResidualPlan,
    SplitValidationError, plan_split_replace, plan_split_replace_with_children,
    plan_split_residual, plan_split_residual_with_metadata,
};

use super::{
    HintPropagationError, MetadataBuf, ShardMetadata, ShardMetadataDecodeError, decode_metadata,
    propagate_hint_on_split,
};
use crate::hint::shard::envelope;

/// Why a shard and its hint could not be split together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HintedSplitError {
    /// The cut does not divide the shard.
    #[error("the cut does not divide the shard")]
    Split(#[from] SplitValidationError),
    /// The shard's metadata cannot be read.
    #[error("the shard's metadata cannot be read")]
    Metadata(#[from] ShardMetadataDecodeError),
    /// A part cannot have a hint of its own: the cut is not one that the parent's hint allows.
    #[error("the cut is not one that the shard's hint allows")]
    Hint(#[from] HintPropagationError),
    /// There are fewer buffers than parts.
    #[error("{parts} parts need as many buffers, there are {buffers}")]
    TooFewBuffers {
        /// How many parts there are.
        parts: usize,
        /// How many buffers there are.
        buffers: usize,
    },
}

/// Plans to give the right part of a shard away, with a hint for each part that fits its range.
///
/// `buffers` take the metadata of the two parts; the connector's bytes go to both.
pub fn plan_hinted_split_residual<'s>(
    parent: ShardSpecRef<'s>,
    cursor: CursorUpdate<'_>,
    boundary: &'s [u8],
    buffers: &'s mut [MetadataBuf; 2],
) -> Result<SplitResidualPlan<'s>, HintedSplitError> {
    let plan = plan_split_residual(parent, cursor, boundary)?;
    let metadata = decode_metadata(parent)?;
    let [narrowed, residual] = buffers;
    let narrowed = derive(metadata, 0, plan.narrowed(), narrowed)?;
    let residual = derive(metadata, 1, plan.residual(), residual)?;
    Ok(plan_split_residual_with_metadata(parent, cursor, boundary, narrowed, residual)?)
}

/// Plans to replace a shard by children cut at `boundaries`, with a hint for each child that fits
/// its range.
///
/// `buffers` take the metadata, one per child; the connector's bytes go to all of them.
pub fn plan_hinted_split_replace<'s>(
    parent: ShardSpecRef<'s>,
    cursor: CursorUpdate<'s>,
    boundaries: &[&'s [u8]],
    buffers: &'s mut [MetadataBuf],
) -> Result<SplitReplacePlan<'s>, HintedSplitError> {
    let plan = plan_split_replace(parent, cursor, boundaries)?;
    let metadata = decode_metadata(parent)?;
    let (parts, buffers_len) = (plan.children().len(), buffers.len());
    if buffers_len < parts {
        return Err(HintedSplitError::TooFewBuffers { parts, buffers: buffers_len });
    }
    let children = plan
        .children()
        .iter()
        .enumerate()
        .zip(buffers)
        .map(|((index, child), buffer)| {
            let spec = child.spec.with_metadata(derive(metadata, index, child.spec, buffer)?);
            Ok(SplitChild { spec, cursor: child.cursor })
        })
        .collect::<Result<ArrayVec<_, MAX_SPLIT_CHILDREN>, HintedSplitError>>()?;
    Ok(plan_split_replace_with_children(parent, cursor, &children)?)
}

/// Writes the metadata of a part: the parent's, with the hint narrowed to the part's range.
fn derive<'b>(
    parent: ShardMetadata<'_>,
    index: usize,
    part: ShardSpecRef<'_>,
    buffer: &'b mut MetadataBuf,
) -> Result<&'b [u8], HintedSplitError> {
    let hint = propagate_hint_on_split(parent.hint, part.start(), part.end())?;
    let metadata = envelope(hint, parent.connector_extra, buffer)
        .map_err(|error| SplitValidationError::InvalidChildSpec { index, error })?;
    Ok(metadata)
}
