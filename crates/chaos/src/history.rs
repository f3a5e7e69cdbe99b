//! What processes write down about every call they make, before and after.

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
        /// When, in nanoseconds of the machine's clock.
        at: u64,
        /// Who calls.
        worker: u64,
        /// Of which run.
        run: u64,
        /// What is asked.
        action: Action,
    },
    /// A call has been answered.
    Return {
        /// Its number within the process.
        call: u64,
        /// When.
        at: u64,
        /// The answer.
        outcome: Outcome,
    },
    /// Keys have been processed.
    Effect(Effect),
}

/// Keys that a worker has processed, both ends included, which a later checkpoint may cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    /// When.
    pub at: u64,
    /// Of which run.
    pub run: u64,
    /// As part of which shard.
    pub shard: u64,
    /// Under which fence.
    pub fence: u64,
    /// The first key.
    pub from: u64,
    /// The last key.
    pub to: u64,
}

/// What is asked of the coordinator.
#[allow(missing_docs, reason = "shards, fences, operation ids and keys are what they are called")]
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Action {
    /// Make the run and start it with these shards.
    Register { op: u64, roots: Vec<Root> },
    /// Give me whichever shard can be had.
    Claim,
    /// Give me this shard.
    Acquire { shard: u64 },
    /// Let my lease last longer.
    Renew { shard: u64, fence: u64 },
    /// Move the cursor to a key.
    Checkpoint { shard: u64, fence: u64, op: u64, key: u64 },
    /// Finish the shard at a key.
    Complete { shard: u64, fence: u64, op: u64, key: u64 },
    /// Stop the shard.
    Park { shard: u64, fence: u64, op: u64 },
    /// Let a parked shard go on.
    Unpark { shard: u64, op: u64 },
    /// Take the lease back.
    Release { shard: u64, fence: u64, op: u64 },
    /// Replace the shard by these.
    SplitReplace { shard: u64, fence: u64, op: u64, children: Vec<Piece> },
    /// Give what begins at a key to a new shard.
    SplitResidual { shard: u64, fence: u64, op: u64, start: u64, at: u64, end: u64 },
    /// Ask the holder for a part.
    RequestSplit { shard: u64 },
    /// Refuse to give a part.
    DeclineSplit { shard: u64, fence: u64 },
    /// End the run.
    CompleteRun { op: u64 },
}

/// A shard of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Root {
    /// Its id.
    pub shard: u64,
    /// Its first key.
    pub start: u64,
    /// The first key behind it.
    pub end: u64,
}

/// A child of a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Piece {
    /// Its first key.
    pub start: u64,
    /// The first key behind it.
    pub end: u64,
    /// How far it is processed already.
    pub cursor: Option<u64>,
}

/// What became of a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// It was done.
    Done(Facts),
    /// It was refused.
    Refused(Refusal),
    /// The store did not do it, for sure.
    NotApplied(String),
    /// Unknown.
    Unknown(String),
    /// What is stored cannot be read.
    Corrupt(String),
}

/// What an answer says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Facts {
    /// Whether it had been done before.
    pub replayed: bool,
    /// The shard as it was handed out, if one was.
    pub acquired: Option<Acquired>,
    /// The shards that came into being, in key order.
    pub children: Vec<u64>,
}

/// A shard as it was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Acquired {
    /// Its id.
    pub shard: u64,
    /// The fence of the lease.
    pub fence: u64,
    /// Its first key.
    pub start: u64,
    /// The first key behind it.
    pub end: u64,
    /// How far it is processed.
    pub cursor: Option<u64>,
}

/// Where a shard is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Status {
    /// Being worked on, or waiting for it.
    Active,
    /// Finished.
    Done,
    /// Replaced.
    Split,
    /// Stopped.
    Parked,
}

/// Why a call was refused, with what that says about the shard or the run.
#[allow(missing_docs, reason = "the variant says what its field is")]
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Refusal {
    /// The caller does not hold the shard; it is at this fence.
    StaleFence { current: u64 },
    /// The caller's lease is over.
    LeaseExpired,
    /// Another worker holds the shard.
    AlreadyLeased { owner: u64 },
    /// The shard is not active.
    ShardTerminal { status: Status },
    /// The shard is not parked.
    NotParked { status: Status },
    /// There is no such shard.
    ShardNotFound,
    /// The run has ended.
    RunEnded,
    /// The cursor would move back.
    CursorRegression,
    /// The cursor would leave the shard.
    CursorOutOfBounds,
    /// The plan does not fit the shard.
    SplitInvalid,
    /// The operation's id was used for something else.
    OpIdConflict,
    /// Anything that says nothing about a shard.
    Other(String),
}
