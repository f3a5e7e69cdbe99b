//! The operations, one file per set of rules.
//!
//! Each operation checks everything and then changes the record, so an error leaves the record
//! unchanged. No operation inserts, sends, stores or logs: a split returns the records to insert,
//! and a driver does the rest.

mod change_run;
mod cursor;
mod lease;
mod park;
mod split_replace;
mod split_request;
mod split_residual;
mod start_run;

pub use change_run::{RunChange, change_run};
pub use cursor::{checkpoint, complete};
pub use lease::{Acquired, acquire, release, renew};
pub use park::{park, unpark};
pub use split_replace::{ReplacePending, ReplaceStep, SplitReplaceResult, split_replace};
pub use split_request::{SplitRequestSlot, decline_split, open_request, request_split};
pub use split_residual::{ResidualPending, ResidualStep, SplitResidualResult, split_residual};
pub use start_run::{RegisterPending, RegisterStep, adopt_run, create_run, register_shards};

use shardwright_contracts::{CursorUpdate, LogicalTime, RunId, ShardId, ShardSpecRef, TenantId};

use crate::error::reason::SplitInvalid;
use crate::events::{EventCollector, EventKind, StateTransitionEvent};
use crate::guard::Context;
use crate::record::{ShardHead, Spawned, assert_sound};

/// A shard that a split makes and a driver inserts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewShard<'a> {
    /// Its id.
    pub shard: ShardId,
    /// Its range and metadata.
    pub spec: ShardSpecRef<'a>,
    /// Its initial cursor.
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

/// The tenant of a request about a run, and its time.
#[derive(Clone, Copy, Debug)]
pub struct RunCall {
    /// The current time.
    pub now: LogicalTime,
    /// The tenant that sent the request.
    pub tenant: TenantId,
}

impl RunCall {
    fn emit(&self, run: RunId, events: &mut EventCollector, kind: impl FnOnce() -> EventKind) {
        let (tenant, at) = (self.tenant, self.now);
        events.emit_with(tenant, || StateTransitionEvent { tenant, run, at, kind: kind() });
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

/// Checks that a shard may spawn `additional` more, and returns the index of the first.
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
