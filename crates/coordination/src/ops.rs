//! The operations, one per file.
//!
//! Each checks everything first and changes something then, so that an error leaves the record as
//! it was. None inserts, sends, stores or logs: a split hands out the records that are to be
//! inserted, and a driver does the rest.

mod acquire;
mod change_run;
mod checkpoint;
mod complete;
mod create_run;
mod cursor;
mod decline_split;
mod park;
mod register_shards;
mod release;
mod renew;
mod request_split;
mod run_call;
mod split_replace;
mod split_request;
mod split_residual;
mod unpark;

pub use acquire::{Acquired, acquire};
pub use change_run::{RunChange, change_run};
pub use checkpoint::checkpoint;
pub use complete::complete;
pub use create_run::{adopt_run, create_run};
pub use decline_split::decline_split;
pub use park::park;
pub use register_shards::{RegisterPending, RegisterStep, register_shards};
pub use release::release;
pub use renew::renew;
pub use request_split::request_split;
pub use run_call::RunCall;
pub use split_replace::{ReplacePending, ReplaceStep, SplitReplaceResult, split_replace};
pub use split_request::{SplitRequestSlot, open_request};
pub use split_residual::{ResidualPending, ResidualStep, SplitResidualResult, split_residual};
pub use unpark::unpark;

use shardwright_contracts::{CursorUpdate, ShardId, ShardSpecRef};

use crate::error::reason::SplitInvalid;
use crate::events::{EventCollector, EventKind, StateTransitionEvent};
use crate::guard::Context;
use crate::record::{InvariantViolation, ShardHead, Spawned};

/// A shard that a split makes and a driver inserts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewShard<'a> {
    /// Its id.
    pub shard: ShardId,
    /// Its range and metadata.
    pub spec: ShardSpecRef<'a>,
    /// Where work on it starts.
    pub cursor: CursorUpdate<'a>,
}

impl NewShard<'_> {
    /// The record's head, for a shard split from `parent`.
    #[must_use]
    pub fn head<const LOG: usize>(&self, parent: &ShardHead<LOG>) -> ShardHead<LOG> {
        let key = shardwright_contracts::ShardKey::new(parent.key.run, self.shard);
        ShardHead::new(parent.tenant, key, Some(parent.key.shard), parent.cursor_semantics)
    }
}

/// Adds an event of the operation to those collected.
fn emit(context: &Context<'_>, events: &mut EventCollector, kind: impl FnOnce() -> EventKind) {
    events.emit_with(context.tenant, || StateTransitionEvent {
        tenant: context.tenant,
        run: context.run.run,
        at: context.now,
        kind: kind(),
    });
}

/// A record that breaks its invariants must not be stored: stop before it is.
#[expect(clippy::panic, reason = "only a bug in an operation can get here")]
pub(crate) fn assert_sound(check: Result<(), InvariantViolation>) {
    if let Err(violation) = check {
        panic!("{violation}");
    }
}

/// Checks that a shard may spawn `additional` more, and gives the index of the first.
fn check_spawn_limit(spawned: &[Spawned], additional: usize) -> Result<u32, SplitInvalid> {
    let max = shardwright_contracts::limits::MAX_SPAWNED_PER_SHARD;
    let spawned = spawned.len();
    if spawned + additional > max {
        return Err(SplitInvalid::SpawnLimitExceeded { spawned, additional, max });
    }
    Ok(spawned as u32)
}

#[cfg(test)]
mod tests;
