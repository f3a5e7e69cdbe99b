//! A shard in hand: what its holder knows, apart from the lease.

use std::time::Duration;

use shardwright_contracts::{CursorSemantics, ShardSpec};
use shardwright_coordination::RestoredShardState;
use shardwright_frontier::{ShardHint, decode_connector_extra};

use super::Holder;
use super::backlog::{Backlog, Restored};
use super::crash_policy::CrashPolicy;
use super::desk::WAITING_PER_RUNNING;
use super::divide::hint_of;
use super::feed::Feed;
use super::ledger::Ledger;
use super::retry_state::RetryState;
use crate::error::WorkerError;
use crate::extent::TokenEnvelope;

/// A shard in hand.
pub(super) struct Shard {
    pub(super) spec: ShardSpec,
    /// What the range represented when the shard was claimed. It decides where cuts are allowed.
    pub(super) hint: ShardHint<'static>,
    pub(super) semantics: CursorSemantics,
    pub(super) ledger: Ledger,
    pub(super) backlog: Backlog,
    pub(super) crash_policy: CrashPolicy,
    /// How often it was unparked.
    pub(super) unparks: u64,
}

impl Shard {
    /// The shard as it was acquired. `carried` are the items of its range that are in hand.
    pub(super) fn acquired(
        holder: &Holder<'_>,
        state: &RestoredShardState,
        carried: Option<Backlog>,
    ) -> Result<Self, WorkerError> {
        let key = state.lease.key();
        let cursor = state.cursor.as_update();
        let envelope = TokenEnvelope::decode(cursor.token())
            .map_err(|error| WorkerError::ForeignCursor { shard: key.shard, error })?;
        let metadata = |source| WorkerError::Metadata { shard: key.shard, source };
        let hint = hint_of(state.spec.as_spec_ref()).map_err(metadata)?;
        let extra = decode_connector_extra(&state.spec).map_err(|error| metadata(error.into()))?;
        let (shared, now) = (holder.shared, holder.shared.env.monotonic());
        let unparks = state.lease.fence().as_raw().saturating_sub(state.acquires.into());
        let in_hand = shared.options.in_flight * shared.handler.batch_size() * WAITING_PER_RUNNING;
        let (acquires, limit) = (state.acquires_without_progress, shared.retry_limit);
        let crash_policy = CrashPolicy::of(acquires, limit, &shared.options, in_hand);
        let after = cursor.last_key().map(<[u8]>::to_vec);
        let backlog = carried.unwrap_or_else(|| {
            let feed = Feed::new(&state.spec, after.as_deref(), &envelope.connector);
            let (_, found) = RetryState::split_from(extra);
            let found = found.filter(|found| found.unparks == unparks);
            let restored = found.and_then(|found| restore(holder, &found, hint, now));
            Backlog::new(feed, after.clone(), restored)
        });
        Ok(Self {
            hint,
            semantics: state.cursor_semantics,
            ledger: Ledger::new(key, state.lease.fence(), after, envelope, now),
            backlog,
            crash_policy,
            unparks,
            spec: state.spec.clone(),
        })
    }
}

/// The tries of an earlier holder. The stored values may be damaged, or of another clock: at least
/// one try is left, and the wait is at most the policy's longest.
fn restore(
    holder: &Holder<'_>,
    found: &RetryState,
    hint: ShardHint<'static>,
    now: Duration,
) -> Option<Restored> {
    let policy = &holder.shared.options.retry;
    let uncounted = found.uncounted.min(1);
    let tries = found.tries.min(policy.retries.saturating_add(uncounted));
    let left = found.not_before.millis_since(holder.shared.env.wall_clock());
    let wait = Duration::from_millis(left).min(policy.longest_wait);
    (tries > 0).then(|| Restored { tries, uncounted, due: now.saturating_add(wait), hint })
}
