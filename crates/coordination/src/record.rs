//! Shards and runs as they are stored, and what is always true of them.

mod run;
mod shard;

pub use run::{RunConfig, RunConfigError, RunRecord, RunState};
pub(crate) use shard::check_cursor;
pub use shard::{Park, ShardHead, ShardRecord, ShardSnapshotView, ShardState, Spawned};

/// A record that no sequence of operations can have produced.
///
/// Found after an operation it is a bug, and the operation must not be stored. Found in storage it
/// is corruption, and the record must not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("record invariant violated: {0}")]
pub struct InvariantViolation(pub &'static str);

/// Fails with a description unless a condition holds.
fn ensure(holds: bool, invariant: &'static str) -> Result<(), InvariantViolation> {
    if holds { Ok(()) } else { Err(InvariantViolation(invariant)) }
}

#[cfg(test)]
mod tests;
