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

/// There is no such run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no run {run}")]
pub struct RunNotFound {
    /// The run that was asked for.
    pub run: RunId,
}

/// A run of that id exists already; a run id is used once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("run {run} exists already")]
pub struct RunAlreadyExists {
    /// The run that was to be created.
    pub run: RunId,
}

/// A run of that id exists already and was configured differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("run {run} exists already with another configuration")]
pub struct ConfigMismatch {
    /// The run that was to be created.
    pub run: RunId,
}

/// There is no such shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no shard {} in run {}", .key.shard, .key.run)]
pub struct ShardNotFound {
    /// The shard that was asked for.
    pub key: ShardKey,
}

/// What was asked for belongs to another tenant. Which one is nobody's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not found for tenant {expected}")]
pub struct TenantMismatch {
    /// The tenant that asked.
    pub expected: TenantId,
}

/// The run is not one that can be worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("run {run} is {status:?}, not Active")]
pub struct RunNotActive {
    /// The run.
    pub run: RunId,
    /// Where it stands.
    pub status: RunStatus,
}

/// The run has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("run {run} has ended as {status:?}")]
pub struct RunTerminal {
    /// The run.
    pub run: RunId,
    /// How it ended.
    pub status: RunStatus,
}

/// The run is not in the state that the operation starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("run {run} is {status:?}, which this does not start from")]
pub struct WrongStatus {
    /// The run.
    pub run: RunId,
    /// Where it stands.
    pub status: RunStatus,
}

/// Shards of the run are not finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("run {run} still has {active} active and {parked} parked shards")]
pub struct RunUnfinished {
    /// The run.
    pub run: RunId,
    /// How many of its shards are being worked on or wait for it.
    pub active: u32,
    /// How many of its shards are parked.
    pub parked: u32,
}

/// The run is paused: nothing new is handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("run {run} is paused")]
pub struct RunPaused {
    /// The run.
    pub run: RunId,
}

/// The shard is finished, replaced or parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("shard {shard} is {status:?}")]
pub struct ShardTerminal {
    /// The shard.
    pub shard: ShardId,
    /// Where it stands.
    pub status: ShardStatus,
}

/// Only a parked shard can be unparked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("shard {shard} is {status:?}, not Parked")]
pub struct NotParked {
    /// The shard.
    pub shard: ShardId,
    /// Where it stands.
    pub status: ShardStatus,
}

/// The shard has another owner than the lease names, has had one since, or has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("fence {presented} is stale, {}", if .presented == .current {
    "the caller does not hold the shard".to_owned()
} else {
    format!("the shard is at {current}")
})]
pub struct StaleFence {
    /// The fence of the lease that was shown.
    pub presented: FenceEpoch,
    /// The fence of the shard.
    pub current: FenceEpoch,
}

/// The lease is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lease ended at {deadline}, it is {now}")]
pub struct LeaseExpired {
    /// When it ended.
    pub deadline: LogicalTime,
    /// When it was shown.
    pub now: LogicalTime,
}

/// Somebody holds the shard. Who, only code can ask; no text tells.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the shard is leased until {deadline}")]
pub struct AlreadyLeased {
    /// Who holds it.
    pub current_owner: WorkerId,
    /// Until when.
    pub deadline: LogicalTime,
}

impl fmt::Debug for AlreadyLeased {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlreadyLeased").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

/// Nobody holds the shard: acquire it instead of asking for a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nobody holds shard {shard}")]
pub struct NotLeased {
    /// The shard.
    pub shard: ShardId,
}

/// The shard's holder has been asked already, or the requester waits for another one's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a split is being waited for already, of shard {shard} or by the same worker")]
pub struct SplitAlreadyRequested {
    /// The shard.
    pub shard: ShardId,
}

/// A request would be over before anybody could hear it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a request for a part of shard {shard} that ends at {expires_at} is over already")]
pub struct SplitRequestOver {
    /// The shard.
    pub shard: ShardId,
    /// When the request was to end.
    pub expires_at: LogicalTime,
}

/// The shard's holder does not want to split for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the holder of shard {shard} does not split before {not_before}")]
pub struct SplitDeclined {
    /// The shard.
    pub shard: ShardId,
    /// When it may be asked again.
    pub not_before: LogicalTime,
}

/// The worker has been given a shard a moment ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too soon after the last claim, try again at {retry_after}")]
pub struct Throttled {
    /// When it may claim again.
    pub retry_after: LogicalTime,
}

/// There is nothing to claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is nothing to claim{}", match .earliest_deadline {
    Some(deadline) => format!(" before {deadline}"),
    None => String::new(),
})]
pub struct NoneAvailable {
    /// When the first of the leases ends, if there are any.
    pub earliest_deadline: Option<LogicalTime>,
}

/// There are as many runs as there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("another run would exceed the limit of {max}")]
pub struct RunLimitExceeded {
    /// The bound.
    pub max: usize,
}

/// A run of that id exists or existed; a name points to new runs only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{run} has been used before")]
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

/// The shard was acquired too often in a row without progress, and is parked now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("shard {shard} made no progress in {attempts} attempts and is parked")]
pub struct RetriesExhausted {
    /// The shard.
    pub shard: ShardId,
    /// How many attempts there were.
    pub attempts: u32,
}

/// A checkpoint needs a key to stand at, and so does a token with which a shard is completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cursor has no last key to stand at")]
pub struct CheckpointMissingKey;

/// The cursor's key is longer than a key may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a cursor's last key of {size} bytes exceeds {max}")]
pub struct CursorKeyTooLarge {
    /// Its length.
    pub size: usize,
    /// The limit.
    pub max: usize,
}

/// The cursor's token is longer than a token may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a cursor's token of {size} bytes exceeds {max}")]
pub struct CursorTokenTooLarge {
    /// Its length.
    pub size: usize,
    /// The limit.
    pub max: usize,
}

/// The cursor stands outside the shard's range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cursor lies outside the shard's range")]
pub struct CursorOutOfBounds;

/// The explanation for parking is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a park detail of {size} bytes exceeds {max}")]
pub struct ParkDetailTooLarge {
    /// Its length.
    pub size: usize,
    /// The limit.
    pub max: usize,
}

/// The split cannot be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SplitInvalid {
    /// The plan does not divide the shard.
    #[error("the plan does not divide the shard")]
    Plan(#[from] SplitValidationError),
    /// The shard has spawned too many others in its life.
    #[error("{spawned} spawned shards and {additional} more exceed {max}")]
    SpawnLimitExceeded {
        /// How many it spawned.
        spawned: usize,
        /// How many more it would.
        additional: usize,
        /// The limit.
        max: usize,
    },
    /// The backend cannot publish so many children at once.
    #[error("{children} children exceed the {max} that this backend publishes at once")]
    BackendChildLimitExceeded {
        /// How many there would be.
        children: usize,
        /// The limit.
        max: usize,
    },
    /// There would be too many shards.
    #[error(transparent)]
    ShardLimitExceeded(#[from] ShardLimitViolation),
    /// A derived id is taken.
    #[error("the derived id {shard} is taken")]
    DerivedIdCollision {
        /// The id.
        shard: ShardId,
    },
}

impl std::error::Error for OpConflict {}

impl fmt::Display for OpConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "operation {} was used before for something else", self.op)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_tell_neither_owners_nor_fingerprints_nor_foreign_tenants() {
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
