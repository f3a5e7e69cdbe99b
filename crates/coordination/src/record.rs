//! Stored shards and runs, and their invariants.

mod run;
mod shard;

pub use run::{RunConfig, RunConfigError, RunRecord, RunState};
pub(crate) use shard::check_cursor;
pub use shard::{Park, ShardHead, ShardRecord, ShardSnapshotView, ShardState, Spawned};
pub use shardwright_contracts::InvariantViolation;

/// Fails with a description unless the condition holds.
fn ensure(holds: bool, invariant: &'static str) -> Result<(), InvariantViolation> {
    if holds { Ok(()) } else { Err(InvariantViolation(invariant)) }
}

#[cfg(test)]
mod tests;
