//! What a checkpoint and a completion have in common.

use shardwright_contracts::{CursorInputError, CursorRegression, CursorUpdate};

use crate::error::reason::{
    CheckpointMissingKey, CursorKeyTooLarge, CursorOutOfBounds, CursorTokenTooLarge,
};
use crate::record::ShardState;

/// Checks form, sizes, direction and bounds of the cursor that a shard is to move to.
pub(super) fn check<const LOG: usize, E>(
    shard: &impl ShardState<LOG>,
    cursor: CursorUpdate<'_>,
) -> Result<(), E>
where
    E: From<CheckpointMissingKey>
        + From<CursorKeyTooLarge>
        + From<CursorTokenTooLarge>
        + From<CursorRegression>
        + From<CursorOutOfBounds>,
{
    cursor.validate().map_err(|error| match error {
        CursorInputError::EmptyLastKey | CursorInputError::TokenWithoutKey => {
            E::from(CheckpointMissingKey)
        }
        CursorInputError::KeyTooLarge { size, max } => CursorKeyTooLarge { size, max }.into(),
        CursorInputError::TokenTooLarge { size, max } => CursorTokenTooLarge { size, max }.into(),
    })?;
    shard.cursor().check_advance(cursor)?;
    if !cursor.is_within(shard.spec()) {
        return Err(CursorOutOfBounds.into());
    }
    Ok(())
}
