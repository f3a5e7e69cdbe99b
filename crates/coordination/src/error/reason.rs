//! The refusals, each documented and worded once.

use std::fmt;

use shardwright_contracts::limits::MAX_RUN_DESCRIPTION_SIZE;
use shardwright_contracts::{
    FenceEpoch, LogicalTime, RunId, ShardId, ShardKey, SplitValidationError, TenantId, WorkerId,
};

use crate::op_log::OpConflict;
use crate::shard_limits::ShardLimitViolation;
use crate::status::{RunStatus, ShardStatus};

pub use shardwright_contracts::{
    CursorRegression, FenceEpochError, ManifestValidationError, SlabFull,
};

/// The run does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no run {run}")]
pub struct RunNotFound {
    /// The requested run.
    pub run: RunId,
}

/// A run of that id exists. Run ids are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("run {run} exists already")]
pub struct RunAlreadyExists {
    /// The run to create.
    pub run: RunId,
}

/// A run of that id exists with another configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("run {run} exists already with another configuration")]
pub struct ConfigMismatch {
    /// The run to create.
    pub run: RunId,
}

/// The shard does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no shard {} in run {}", .key.shard, .key.run)]
pub struct ShardNotFound {
    /// The requested shard.
    pub key: ShardKey,
}

/// The record belongs to another tenant. The error does not name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not found for tenant {expected}")]
pub struct TenantMismatch {
    /// The tenant of the request.
    pub expected: TenantId,
}

/// The run is not active.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("run {run} is {status:?}, not Active")]
pub struct RunNotActive {
    /// The run.
    pub run: RunId,
    /// Its status.
    pub status: RunStatus,
}

/// The run has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("run {run} has ended as {status:?}")]
pub struct RunTerminal {
    /// The run.
    pub run: RunId,
    /// Its final status.
    pub status: RunStatus,
}

/// The run's status does not allow the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("run {run} is {status:?}, which does not allow this operation")]
pub struct WrongStatus {
    /// The run.
    pub run: RunId,
    /// Its status.
    pub status: RunStatus,
}

/// Shards of the run are not finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("run {run} still has {active} active and {parked} parked shards")]
pub struct RunUnfinished {
    /// The run.
    pub run: RunId,
    /// The number of its active shards.
    pub active: u32,
    /// The number of its parked shards.
    pub parked: u32,
}

/// The run is paused and grants no shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("run {run} is paused")]
pub struct RunPaused {
    /// The run.
    pub run: RunId,
}

/// The shard is done, split or parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("shard {shard} is {status:?}")]
pub struct ShardTerminal {
    /// The shard.
    pub shard: ShardId,
    /// Its status.
    pub status: ShardStatus,
}

/// The shard is not parked, so it cannot be unparked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("shard {shard} is {status:?}, not Parked")]
pub struct NotParked {
    /// The shard.
    pub shard: ShardId,
    /// Its status.
    pub status: ShardStatus,
}

/// The lease is not the current one: the shard has another owner, had one since, or has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("fence {presented} is stale, {}", if .presented == .current {
    "the caller does not hold the shard".to_owned()
} else {
    format!("the shard is at {current}")
})]
pub struct StaleFence {
    /// The fence of the presented lease.
    pub presented: FenceEpoch,
    /// The fence of the shard.
    pub current: FenceEpoch,
}

/// The lease has expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lease expired at {deadline}, it is {now}")]
pub struct LeaseExpired {
    /// Its deadline.
    pub deadline: LogicalTime,
    /// The time of the request.
    pub now: LogicalTime,
}

/// The shard has a holder. Messages do not name it.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the shard is leased until {deadline}")]
pub struct AlreadyLeased {
    /// The holder.
    pub current_owner: WorkerId,
    /// The deadline of its lease.
    pub deadline: LogicalTime,
}

impl fmt::Debug for AlreadyLeased {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlreadyLeased").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

/// The shard has no holder: acquire it instead of requesting a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("shard {shard} has no holder")]
pub struct NotLeased {
    /// The shard.
    pub shard: ShardId,
}

/// The shard has an open split request, or the requester has one for another shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a split request is already open for shard {shard} or by the same worker")]
pub struct SplitAlreadyRequested {
    /// The shard.
    pub shard: ShardId,
}

/// The split request would expire at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a split request for shard {shard} until {expires_at} has expired already")]
pub struct SplitRequestOver {
    /// The shard.
    pub shard: ShardId,
    /// The end of the request.
    pub expires_at: LogicalTime,
}

/// The shard's holder has declined further split requests for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the holder of shard {shard} accepts no split request before {not_before}")]
pub struct SplitDeclined {
    /// The shard.
    pub shard: ShardId,
    /// When it accepts requests again.
    pub not_before: LogicalTime,
}

/// The worker claimed a shard a moment ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too soon after the last claim, try again at {retry_after}")]
pub struct Throttled {
    /// When it may claim again.
    pub retry_after: LogicalTime,
}

/// No shard is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no shard is available{}", match .earliest_deadline {
    Some(deadline) => format!(" before {deadline}"),
    None => String::new(),
})]
pub struct NoneAvailable {
    /// When the first lease can be taken over, if there is one.
    pub earliest_deadline: Option<LogicalTime>,
}

/// The limit of runs is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("another run would exceed the limit of {max}")]
pub struct RunLimitExceeded {
    /// The limit.
    pub max: usize,
}

/// The run id is or was in use. A name points to new runs only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{run} was used before")]
pub struct RunIdUsed {
    /// The id.
    pub run: RunId,
}

/// The description of a run is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a run's description of {length} bytes exceeds {max}", max = MAX_RUN_DESCRIPTION_SIZE)]
pub struct LabelTooLarge {
    /// Its length.
    pub length: usize,
}

/// The shard was acquired too often in a row without progress. It is parked now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("shard {shard} made no progress in {attempts} attempts and is parked")]
pub struct RetriesExhausted {
    /// The shard.
    pub shard: ShardId,
    /// The number of attempts.
    pub attempts: u32,
}

/// A checkpoint needs a key, and so does the token of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cursor has no last key")]
pub struct CheckpointMissingKey;

/// The cursor's key is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a cursor's last key of {size} bytes exceeds {max}")]
pub struct CursorKeyTooLarge {
    /// Its length.
    pub size: usize,
    /// The limit.
    pub max: usize,
}

/// The cursor's token is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a cursor's token of {size} bytes exceeds {max}")]
pub struct CursorTokenTooLarge {
    /// Its length.
    pub size: usize,
    /// The limit.
    pub max: usize,
}

/// The cursor lies outside the shard's range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cursor lies outside the shard's range")]
pub struct CursorOutOfBounds;

/// The park detail is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a park detail of {size} bytes exceeds {max}")]
pub struct ParkDetailTooLarge {
    /// Its length.
    pub size: usize,
    /// The limit.
    pub max: usize,
}

/// The split is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SplitInvalid {
    /// The plan does not fit the shard.
    #[error("the plan does not fit the shard")]
    Plan(#[from] SplitValidationError),
    /// The shard would exceed its limit of spawned shards.
    #[error("{spawned} spawned shards and {additional} more exceed {max}")]
    SpawnLimitExceeded {
        /// The shards that it spawned.
        spawned: usize,
        /// The shards to spawn.
        additional: usize,
        /// The limit.
        max: usize,
    },
    /// The backend cannot insert so many children at once.
    #[error("{children} children exceed the {max} that this backend inserts at once")]
    BackendChildLimitExceeded {
        /// The number of children.
        children: usize,
        /// The limit.
        max: usize,
    },
    /// A limit of shards would be exceeded.
    #[error(transparent)]
    ShardLimitExceeded(#[from] ShardLimitViolation),
    /// A derived id is in use.
    #[error("the derived id {shard} is in use")]
    DerivedIdCollision {
        /// The id.
        shard: ShardId,
    },
}

impl std::error::Error for OpConflict {}

impl fmt::Display for OpConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "operation id {} was used before for another request", self.op)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_hide_owners_fingerprints_and_tenants() {
        let leased = AlreadyLeased {
            current_owner: WorkerId::from_raw(0xfeed_f00d),
            deadline: LogicalTime::from_millis(5),
        };
        let conflict = OpConflict {
            op: shardwright_contracts::OpId::from_raw(1),
            expected_hash: 0xfeed_f00d,
            actual_hash: 0xfeed_f00d,
        };
        for text in [
            format!("{leased} {leased:?} {leased:#?}"),
            format!("{conflict} {conflict:?} {conflict:#?}"),
        ] {
            let lower = text.to_lowercase();
            assert!(!lower.contains("feed") && !lower.contains("4277006349"), "{text}");
        }
        let mismatch = TenantMismatch { expected: TenantId::from_bytes([7; 32]) };
        assert_eq!(mismatch.to_string(), format!("not found for tenant {}", "07".repeat(32)));
    }
}
