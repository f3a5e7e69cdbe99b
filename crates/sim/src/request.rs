//! What actors ask of the system, as data that a network can lose, delay and repeat.

use std::hash::{DefaultHasher, Hash, Hasher};

use shardwright_contracts::{
    CursorUpdate, LogicalTime, OpId, RunId, ShardId, ShardKey, ShardSpecRef, SplitChild, WorkerId,
};
use shardwright_coordination::{Lease, ParkReason, RunConfig, ShardFilter};

/// A cursor that owns its bytes and may be nonsense.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DraftCursor {
    /// The last key, if any.
    pub last_key: Option<Vec<u8>>,
    /// The token, if any.
    pub token: Option<Vec<u8>>,
}

impl DraftCursor {
    /// The cursor that stands at `key`.
    #[must_use]
    pub const fn at(key: Vec<u8>, token: Option<Vec<u8>>) -> Self {
        Self { last_key: Some(key), token }
    }

    /// The same cursor, borrowed.
    #[must_use]
    pub fn as_update(&self) -> CursorUpdate<'_> {
        CursorUpdate::new(self.last_key.as_deref(), self.token.as_deref())
    }
}

/// A range with metadata that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DraftSpec {
    /// First key.
    pub start: Vec<u8>,
    /// First key behind it.
    pub end: Vec<u8>,
    /// What it carries.
    pub metadata: Vec<u8>,
}

impl DraftSpec {
    /// The same spec, borrowed.
    #[must_use]
    pub fn as_ref(&self) -> ShardSpecRef<'_> {
        ShardSpecRef::new(&self.start, &self.end, &self.metadata)
    }
}

/// A split as a worker plans it: against the shard that it believes in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftSplit {
    /// What it believes the shard's range to be.
    pub parent: DraftSpec,
    /// What it believes the shard's cursor to be.
    pub cursor: DraftCursor,
    /// The parts, in key order; a residual split has two.
    pub parts: Vec<(DraftSpec, DraftCursor)>,
}

impl DraftSplit {
    /// The parts, borrowed.
    #[must_use]
    pub fn children(&self) -> Vec<SplitChild<'_>> {
        self.parts
            .iter()
            .map(|(spec, cursor)| SplitChild { spec: spec.as_ref(), cursor: cursor.as_update() })
            .collect()
    }
}

/// What the holder of a lease asks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the protocol's own words")]
pub enum HolderAct {
    Renew,
    Decline { not_before: LogicalTime },
    Checkpoint { cursor: DraftCursor, op: OpId },
    Complete { cursor: DraftCursor, op: OpId },
    Park { reason: ParkReason, detail: Vec<u8>, op: OpId },
    Release { op: OpId },
    SplitReplace { split: DraftSplit, op: OpId },
    SplitResidual { split: DraftSplit, op: OpId },
}

/// What an operator asks of a whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the protocol's own words")]
pub enum RunAct {
    Complete,
    Fail,
    Cancel,
    Pause,
    Resume,
}

/// One request to the system.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the protocol's own words")]
pub enum Request {
    Acquire {
        key: ShardKey,
        worker: WorkerId,
    },
    Claim {
        run: RunId,
        worker: WorkerId,
    },
    Holder {
        lease: Lease,
        act: HolderAct,
    },
    RequestSplit {
        key: ShardKey,
        asker: WorkerId,
        expires_at: LogicalTime,
    },
    CreateRun {
        run: RunId,
        config: RunConfig,
    },
    Register {
        run: RunId,
        shards: Vec<(ShardId, DraftSpec, DraftCursor)>,
        op: OpId,
    },
    CreateWithShards {
        run: RunId,
        config: RunConfig,
        shards: Vec<(ShardId, DraftSpec, DraftCursor)>,
        op: OpId,
    },
    Run {
        run: RunId,
        act: RunAct,
        op: OpId,
    },
    Unpark {
        key: ShardKey,
        op: OpId,
    },
    GetRun {
        run: RunId,
    },
    Progress {
        run: RunId,
    },
    List {
        run: RunId,
        filter: ShardFilter,
    },
    Candidates {
        run: RunId,
        worker: WorkerId,
        limit: usize,
    },
}

impl Request {
    /// The run that it is about.
    #[must_use]
    pub const fn run(&self) -> RunId {
        match self {
            Self::Acquire { key, .. }
            | Self::RequestSplit { key, .. }
            | Self::Unpark { key, .. } => key.run,
            Self::Holder { lease, .. } => lease.key().run,
            Self::Claim { run, .. }
            | Self::CreateRun { run, .. }
            | Self::Register { run, .. }
            | Self::CreateWithShards { run, .. }
            | Self::Run { run, .. }
            | Self::GetRun { run }
            | Self::Progress { run }
            | Self::List { run, .. }
            | Self::Candidates { run, .. } => *run,
        }
    }

    /// The shard that it is about, if it is about one.
    #[must_use]
    pub const fn shard(&self) -> Option<ShardId> {
        match self {
            Self::Acquire { key, .. }
            | Self::RequestSplit { key, .. }
            | Self::Unpark { key, .. } => Some(key.shard),
            Self::Holder { lease, .. } => Some(lease.key().shard),
            _ => None,
        }
    }

    /// The name of the operation.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Acquire { .. } => "acquire",
            Self::Claim { .. } => "claim",
            Self::Holder { act, .. } => match act {
                HolderAct::Renew => "renew",
                HolderAct::Decline { .. } => "decline_split",
                HolderAct::Checkpoint { .. } => "checkpoint",
                HolderAct::Complete { .. } => "complete",
                HolderAct::Park { .. } => "park",
                HolderAct::Release { .. } => "release",
                HolderAct::SplitReplace { .. } => "split_replace",
                HolderAct::SplitResidual { .. } => "split_residual",
            },
            Self::RequestSplit { .. } => "request_split",
            Self::CreateRun { .. } => "create_run",
            Self::Register { .. } => "register_shards",
            Self::CreateWithShards { .. } => "create_run_with_shards",
            Self::Run { act, .. } => match act {
                RunAct::Complete => "complete_run",
                RunAct::Fail => "fail_run",
                RunAct::Cancel => "cancel_run",
                RunAct::Pause => "pause_run",
                RunAct::Resume => "resume_run",
            },
            Self::Unpark { .. } => "unpark",
            Self::GetRun { .. } => "get_run",
            Self::Progress { .. } => "get_run_progress",
            Self::List { .. } => "list_shards",
            Self::Candidates { .. } => "claim_candidates",
        }
    }

    /// The operation id, if it has one.
    #[must_use]
    pub const fn op(&self) -> Option<OpId> {
        match self {
            Self::Holder { act, .. } => match act {
                HolderAct::Renew | HolderAct::Decline { .. } => None,
                HolderAct::Checkpoint { op, .. }
                | HolderAct::Complete { op, .. }
                | HolderAct::Park { op, .. }
                | HolderAct::Release { op }
                | HolderAct::SplitReplace { op, .. }
                | HolderAct::SplitResidual { op, .. } => Some(*op),
            },
            Self::Register { op, .. }
            | Self::CreateWithShards { op, .. }
            | Self::Run { op, .. }
            | Self::Unpark { op, .. } => Some(*op),
            _ => None,
        }
    }

    /// The shards that it registers, if it does.
    #[must_use]
    pub fn manifest(&self) -> Option<&[(ShardId, DraftSpec, DraftCursor)]> {
        match self {
            Self::Register { shards, .. } | Self::CreateWithShards { shards, .. } => Some(shards),
            _ => None,
        }
    }

    /// Whether it only asks and changes nothing that is seen.
    #[must_use]
    pub const fn is_query(&self) -> bool {
        matches!(
            self,
            Self::GetRun { .. }
                | Self::Progress { .. }
                | Self::List { .. }
                | Self::Candidates { .. }
        )
    }

    /// What is asked under the operation id, as a number: the simulator's own idea of sameness.
    #[must_use]
    pub fn meaning(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        // Whether a run was made on the way or before, its registration is the same operation.
        let registers = self.manifest().is_some();
        (if registers { "register_shards" } else { self.name() }).hash(&mut hasher);
        match self {
            Self::Holder { act, .. } => match act {
                HolderAct::Checkpoint { cursor, .. } | HolderAct::Complete { cursor, .. } => {
                    cursor.hash(&mut hasher);
                }
                HolderAct::Park { reason, detail, .. } => (reason, detail).hash(&mut hasher),
                HolderAct::SplitReplace { split, .. } => split.parts.hash(&mut hasher),
                HolderAct::SplitResidual { split, .. } => {
                    split.parts.iter().for_each(|(spec, _)| spec.hash(&mut hasher));
                }
                HolderAct::Renew | HolderAct::Decline { .. } | HolderAct::Release { .. } => {}
            },
            Self::Register { shards, .. } | Self::CreateWithShards { shards, .. } => {
                let mut sorted: Vec<_> = shards.iter().collect();
                sorted.sort_by_key(|(shard, ..)| *shard);
                sorted.hash(&mut hasher);
            }
            _ => {}
        }
        hasher.finish()
    }
}
