use std::num::{NonZeroU32, NonZeroU64};

use shardwright_contracts::limits::MAX_INITIAL_SHARDS;
use shardwright_contracts::{CursorSemantics, FenceEpoch, LogicalTime, RunId, ShardId, TenantId};

use super::{InvariantViolation, assert_sound, ensure};
use crate::op_log::RunOpLog;
use crate::status::RunStatus;

/// The configuration of a run. Fixed when the run is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RunConfig {
    /// When a key counts as processed.
    pub cursor_semantics: CursorSemantics,
    /// How long a lease lasts, in milliseconds.
    pub lease_duration_ms: NonZeroU64,
    /// A shard is parked after this many acquires in a row without progress. `None`: never. An
    /// acquire whose answer was lost counts too, so a limit below 2 can park an untried shard.
    pub max_shard_retries: Option<NonZeroU32>,
}

/// Why a configuration is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunConfigError {
    /// Leases would expire as soon as they are granted.
    #[error("a lease must last at least a millisecond")]
    ZeroLeaseDuration,
    /// Every shard would be parked before its first attempt.
    #[error("a shard must be tried at least once")]
    ZeroRetries,
}

impl RunConfig {
    /// Checks the numbers of a configuration.
    pub fn try_new(
        cursor_semantics: CursorSemantics,
        lease_duration_ms: u64,
        max_shard_retries: Option<u32>,
    ) -> Result<Self, RunConfigError> {
        let lease_duration_ms =
            NonZeroU64::new(lease_duration_ms).ok_or(RunConfigError::ZeroLeaseDuration)?;
        let max_shard_retries = match max_shard_retries {
            Some(max) => Some(NonZeroU32::new(max).ok_or(RunConfigError::ZeroRetries)?),
            None => None,
        };
        Ok(Self { cursor_semantics, lease_duration_ms, max_shard_retries })
    }

    /// The deadline of a lease that is granted or renewed at `now`.
    #[must_use]
    pub(crate) const fn lease_until(&self, now: LogicalTime) -> LogicalTime {
        now.saturating_add(self.lease_duration_ms.get())
    }

    /// The end of the time for which a worker with a refused claim at `now` counts as waiting. By
    /// then every blocking lease was renewed or has expired, so a worker that still wants a shard
    /// has claimed again.
    #[must_use]
    pub const fn waiting_until(&self, now: LogicalTime) -> LogicalTime {
        now.saturating_add(self.lease_duration_ms.get())
    }
}

/// The part of a run that operations on its shards need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RunState {
    /// The run.
    pub run: RunId,
    /// Its status.
    pub status: RunStatus,
    /// Whether no shard is granted.
    pub paused: bool,
    /// Its configuration.
    pub config: RunConfig,
    /// Fences below this one are stale, even if a record holds them. Restoring a backup raises it.
    pub fence_floor: FenceEpoch,
}

/// A run as it is stored.
/// The fields are public for codecs. A codec that builds a record checks it with
/// [`RunRecord::check_invariants`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RunRecord {
    /// Its tenant.
    pub tenant: TenantId,
    /// Its id.
    pub run: RunId,
    /// Its configuration.
    pub config: RunConfig,
    /// Its status.
    pub status: RunStatus,
    /// Whether no shard is granted.
    pub paused: bool,
    /// When it was created.
    pub created_at: LogicalTime,
    /// When it ended, if it has.
    pub completed_at: Option<LogicalTime>,
    /// The shards of its manifest, in ascending order.
    pub root_shards: Vec<ShardId>,
    /// The last operations on it.
    pub op_log: RunOpLog,
}

impl RunRecord {
    /// The part that operations on the run's shards need.
    #[must_use]
    pub const fn state(&self, fence_floor: FenceEpoch) -> RunState {
        RunState {
            run: self.run,
            status: self.status,
            paused: self.paused,
            config: self.config,
            fence_floor,
        }
    }

    /// Checks all invariants of a run.
    pub fn check_invariants(&self) -> Result<(), InvariantViolation> {
        ensure(
            self.completed_at.is_some() == self.status.is_terminal(),
            "a run has an end time if and only if it has ended",
        )?;
        ensure(
            self.completed_at.is_none_or(|end| end >= self.created_at),
            "a run does not end before it was created",
        )?;
        ensure(
            self.status != RunStatus::Initializing || self.root_shards.is_empty(),
            "a run that is initializing has no shards",
        )?;
        let needs_shards =
            matches!(self.status, RunStatus::Active | RunStatus::Done | RunStatus::Failed);
        ensure(!needs_shards || !self.root_shards.is_empty(), "a run that was started has shards")?;
        ensure(!self.paused || self.status == RunStatus::Active, "only an active run is paused")?;
        ensure(self.root_shards.len() <= MAX_INITIAL_SHARDS, "a manifest is bounded")?;
        ensure(
            self.root_shards.array_windows().all(|[left, right]| left < right),
            "root shards are unique and in order",
        )?;
        ensure(
            self.root_shards.iter().all(|shard| !shard.is_derived()),
            "root shards have no derived ids",
        )?;
        ensure(self.op_log.is_sound(), "the op log is bounded and has no id twice")?;
        ensure(
            self.op_log.entries().all(|entry| entry.kind.is_of_run()),
            "a run's op log remembers what was done to the run",
        )?;
        let times = || self.op_log.entries().map(|entry| entry.executed_at);
        ensure(times().is_sorted(), "the op log is in order of time")
    }

    /// Asserts all invariants of a run. A driver does so before it stores one.
    ///
    /// # Panics
    ///
    /// Panics if an invariant is violated, which only a bug can cause.
    pub fn assert_invariants(&self) {
        assert_sound(self.check_invariants());
    }
}
