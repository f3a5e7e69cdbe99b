//! What a line of a story asks for.

use shardwright_contracts::{FenceEpoch, OpId, WorkerId};
use shardwright_coordination::{CoordinatorRuntimeConfig, ParkReason, RunTransition, ShardFilter};

use super::literal::{CursorText, RangeText};

/// One command, with when and for whom.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) at: Option<u64>,
    pub(super) tenant: String,
    pub(super) run: String,
    /// Shows a lease of this fence instead of the one that the worker was granted last.
    pub(super) fence: Option<u64>,
    pub(super) command: Command,
}

#[derive(Debug)]
pub(super) enum Command {
    Coordinator(CoordinatorRuntimeConfig),
    RaiseFloor(FenceEpoch),
    Worker(WorkerId, Action),
    Run(RunAction),
    ShowShard(String),
    Events,
}

/// What a worker does. Shards are named; a name is looked up when the command runs.
#[derive(Debug)]
pub(super) enum Action {
    Acquire { shard: String, hint: bool },
    Claim { hint: bool },
    Candidates { limit: u64 },
    Renew { shard: String, hint: bool },
    Checkpoint { shard: String, cursor: CursorText, op: OpId },
    Complete { shard: String, cursor: CursorText, op: OpId },
    Park { shard: String, reason: ParkReason, detail: Vec<u8>, op: OpId },
    Release { shard: String, op: OpId },
    SplitReplace { shard: String, children: Vec<RangeText>, op: OpId },
    SplitResidual { shard: String, whole: RangeText, boundary: Vec<u8>, op: OpId },
    RequestSplit { shard: String, until: u64 },
    DeclineSplit { shard: String, until: u64 },
}

/// What is done to a run, or asked about it.
#[derive(Debug)]
pub(super) enum RunAction {
    Create(Settings),
    Register(Vec<RangeText>, OpId),
    CreateWithShards(Settings, Vec<RangeText>, OpId),
    Change(RunTransition, OpId),
    Unpark { shard: String, op: OpId },
    Show,
    Progress,
    List(ShardFilter),
}

/// The numbers of a run's configuration, which may be wrong.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) lease: u64,
    pub(super) retries: Option<u32>,
    pub(super) dispatched: bool,
}

impl Action {
    /// Whether the answer also tells what else there is to do.
    pub(super) const fn wants_hint(&self) -> bool {
        matches!(
            self,
            Self::Acquire { hint: true, .. }
                | Self::Claim { hint: true }
                | Self::Renew { hint: true, .. }
        )
    }
}
