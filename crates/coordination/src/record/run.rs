use std::num::{NonZeroU32, NonZeroU64};

use shardwright_contracts::limits::MAX_INITIAL_SHARDS;
use shardwright_contracts::{CursorSemantics, FenceEpoch, LogicalTime, RunId, ShardId, TenantId};

use super::{InvariantViolation, ensure};
use crate::op_log::RunOpLog;
use crate::status::RunStatus;

/// How a run's shards are to be worked on. Fixed when the run is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RunConfig {
    /// When a key counts as processed.
    pub cursor_semantics: CursorSemantics,
    /// How long a lease lasts, in milliseconds.
    pub lease_duration_ms: NonZeroU64,
    /// After how many acquires in a row without progress a shard parks itself; never, if absent.
    /// One whose answer was lost counts as well, so that less than 2 parks what nobody has tried.
    pub max_shard_retries: Option<NonZeroU32>,
}

/// Why numbers do not make a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunConfigError {
    /// Leases would be over as soon as they are granted.
    #[error("a lease must last at least a millisecond")]
    ZeroLeaseDuration,
    /// Every shard would park itself before anybody has tried it.
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

    /// When a lease ends that is granted or renewed at `now`.
    #[must_use]
    pub const fn lease_until(&self, now: LogicalTime) -> LogicalTime {
        now.saturating_add(self.lease_duration_ms.get())
    }

    /// Until when a worker that found nothing at `now` counts as waiting: by then every lease that
    /// kept the shards from it has been renewed or is over, so it has had cause to ask again.
    #[must_use]
    pub const fn waiting_until(&self, now: LogicalTime) -> LogicalTime {
        now.saturating_add(self.lease_duration_ms.get())
    }
}

/// What operations on a run's shards need to know of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RunState {
    /// The run.
    pub run: RunId,
    /// Where it is in its life.
    pub status: RunStatus,
    /// Whether nothing new is handed out.
    pub paused: bool,
    /// How its shards are to be worked on.
    pub config: RunConfig,
    /// Fences below this one are stale, whatever a record says: a restored backup raises it.
    pub fence_floor: FenceEpoch,
}

/// A run as it is stored.
///
/// The fields are public so that a codec can take a record apart and put it together. Whoever
/// puts one together checks it with [`RunRecord::check_invariants`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RunRecord {
    /// Whose it is.
    pub tenant: TenantId,
    /// Its id.
    pub run: RunId,
    /// How its shards are to be worked on.
    pub config: RunConfig,
    /// Where it is in its life.
    pub status: RunStatus,
    /// Whether nothing new is handed out.
    pub paused: bool,
    /// When it was created.
    pub created_at: LogicalTime,
    /// When it ended, if it has.
    pub completed_at: Option<LogicalTime>,
    /// The shards of its manifest, in ascending order.
    pub root_shards: Vec<ShardId>,
    /// What was done to it lately.
    pub op_log: RunOpLog,
}

impl RunRecord {
    /// What operations on the run's shards need to know of it.
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

    /// Checks everything that is always true of a run.
    pub fn check_invariants(&self) -> Result<(), InvariantViolation> {
        ensure(
            self.completed_at.is_some() == self.status.is_terminal(),
            "a run has an end time just when it has ended",
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
}
