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

/// A record that breaks its invariants must not be stored, so the process stops.
#[expect(clippy::panic, reason = "only a bug in an operation can get here")]
pub(crate) fn assert_sound(check: Result<(), InvariantViolation>) {
    if let Err(violation) = check {
        panic!("{violation}");
    }
}

#[cfg(test)]
mod tests;
