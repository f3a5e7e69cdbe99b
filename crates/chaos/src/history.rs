//! The history that each process records: every call before it is made, and its answer.

mod read;
mod recorder;

use serde::{Deserialize, Serialize};

pub use read::{History, Recorded};
pub use recorder::{Recorder, now};

/// One line of a process's history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Line {
    /// A call is about to be made.
    Call {
        /// Its number within the process.
        call: u64,
        /// Time in nanoseconds of the monotonic clock.
        at: u64,
        /// The caller.
        worker: u64,
        /// The run.
        run: u64,
        /// The request.
        action: Action,
    },
    /// A call has been answered.
    Return {
        /// Its number within the process.
        call: u64,
        /// Time of the answer.
        at: u64,
        /// The answer.
        outcome: Outcome,
    },
    /// Keys have been processed.
    Effect(Effect),
}

/// Keys that a worker has processed, both ends included. A later checkpoint may cover them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    /// Time at the end of processing.
    pub at: u64,
    /// The run.
    pub run: u64,
    /// The shard.
    pub shard: u64,
    /// The fence of the lease.
    pub fence: u64,
    /// The first key.
    pub from: u64,
    /// The last key.
    pub to: u64,
}

/// A request to the coordinator.
#[allow(missing_docs, reason = "the fields are ids, fences and keys")]
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Action {
    /// Create the run and start it with these shards.
    Register { op: u64, roots: Vec<Root> },
    /// Claim any shard.
    Claim,
    /// Acquire this shard.
    Acquire { shard: u64 },
    /// Renew the lease.
    Renew { shard: u64, fence: u64 },
    /// Move the cursor to a key.
    Checkpoint { shard: u64, fence: u64, op: u64, key: u64 },
    /// Complete the shard at a key.
    Complete { shard: u64, fence: u64, op: u64, key: u64 },
    /// Park the shard.
    Park { shard: u64, fence: u64, op: u64 },
    /// Unpark the shard.
    Unpark { shard: u64, op: u64 },
    /// Release the lease.
    Release { shard: u64, fence: u64, op: u64 },
    /// Replace the shard by these.
    SplitReplace { shard: u64, fence: u64, op: u64, children: Vec<Piece> },
    /// Split off a new shard that starts at a key.
    SplitResidual { shard: u64, fence: u64, op: u64, start: u64, at: u64, end: u64 },
    /// Request a split from the holder.
    RequestSplit { shard: u64 },
    /// Decline a split request.
    DeclineSplit { shard: u64, fence: u64 },
    /// Complete the run.
    CompleteRun { op: u64 },
}

/// A shard of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Root {
    /// Its id.
    pub shard: u64,
    /// Its first key.
    pub start: u64,
    /// The first key after it.
    pub end: u64,
}

/// A child of a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Piece {
    /// Its first key.
    pub start: u64,
    /// The first key after it.
    pub end: u64,
    /// Its initial cursor.
    pub cursor: Option<u64>,
}

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// It was executed.
    Done(Facts),
    /// It was refused.
    Refused(Refusal),
    /// It was not applied.
    NotApplied(String),
    /// The outcome is unknown.
    Unknown(String),
    /// A stored record is unreadable.
    Corrupt(String),
}

/// The content of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Facts {
    /// Whether it is a replay.
    pub replayed: bool,
    /// The granted shard, if there is one.
    pub acquired: Option<Acquired>,
    /// The new shards, in key order.
    pub children: Vec<u64>,
}

/// A granted shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Acquired {
    /// Its id.
    pub shard: u64,
    /// The fence of the lease.
    pub fence: u64,
    /// Its first key.
    pub start: u64,
    /// The first key after it.
    pub end: u64,
    /// Its cursor.
    pub cursor: Option<u64>,
}

/// The status of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Status {
    /// Held or claimable.
    Active,
    /// Finished.
    Done,
    /// Replaced.
    Split,
    /// Stopped.
    Parked,
}

/// The reason of a refusal, with the reported state of the shard or the run.
#[allow(missing_docs, reason = "the variants explain their fields")]
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Refusal {
    /// The caller does not hold the shard. This is its current fence.
    StaleFence { current: u64 },
    /// The caller's lease has expired.
    LeaseExpired,
    /// Another worker holds the shard.
    AlreadyLeased { owner: u64 },
    /// The shard is not active.
    ShardTerminal { status: Status },
    /// The shard is not parked.
    NotParked { status: Status },
    /// The shard does not exist.
    ShardNotFound,
    /// The run has ended.
    RunEnded,
    /// The cursor would move back.
    CursorRegression,
    /// The cursor would leave the shard.
    CursorOutOfBounds,
    /// The plan does not fit the shard.
    SplitInvalid,
    /// The operation id was used for another request.
    OpIdConflict,
    /// Another reason, which does not concern a shard.
    Other(String),
}
