//! What is done to both, as data, and what they answer.

use std::fmt;

use shardwright_contracts::{
    CursorUpdate, InitialShardInput, OpId, RunId, ShardId, ShardKey, ShardSpecRef, SplitChild,
    TenantId, WorkerId, plan_split_replace_with_children, plan_split_residual,
};
use shardwright_coordination::async_traits::{SplitOff, SplitReplaced};
use shardwright_coordination::{
    AcquireError, AsyncCoordinationBackend, AsyncRunManagement, AsyncShardClaiming,
    CheckpointError, ClaimError, ClaimOutlook, CompleteError, CreateRunError,
    CreateRunWithShardsError, DeclineError, HolderNotice, IdempotentOutcome, Lease, ParkError,
    ParkReason, RegisterShardsError, ReleaseError, RenewError, RenewResult, RestoredShardState,
    RunConfig, RunProgress, RunQueryError, RunRecord, RunTransitionError, ShardFilter,
    ShardSummary, SplitRequestError, UnparkError,
};

/// Bytes that are shown as text.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Text(pub(crate) Vec<u8>);

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.get(..24) {
            Some(start) if self.0.len() > 24 => {
                write!(f, "{}… ({} bytes)", start.escape_ascii(), self.0.len())
            }
            _ => write!(f, "{}", self.0.escape_ascii()),
        }
    }
}

/// A cursor that owns its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) last_key: Option<Text>,
    pub(crate) token: Text,
}

impl Mark {
    fn as_update(&self) -> CursorUpdate<'_> {
        CursorUpdate::new(self.last_key.as_ref().map(|key| key.0.as_slice()), Some(&self.token.0))
    }
}

/// A range that owns its bytes, with how far it is processed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) start: Text,
    pub(crate) end: Text,
    pub(crate) metadata: Text,
    pub(crate) cursor: Mark,
}

impl Part {
    fn as_spec(&self) -> ShardSpecRef<'_> {
        ShardSpecRef::new(&self.start.0, &self.end.0, &self.metadata.0)
    }

    fn as_child(&self) -> SplitChild<'_> {
        SplitChild { spec: self.as_spec(), cursor: self.cursor.as_update() }
    }
}

/// A manifest that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Roots(pub(crate) Vec<(ShardId, Part)>);

impl Roots {
    fn as_inputs(&self) -> Vec<InitialShardInput<'_>> {
        self.0
            .iter()
            .map(|(shard, part)| InitialShardInput {
                shard: *shard,
                spec: part.as_spec(),
                cursor: part.cursor.as_update(),
            })
            .collect()
    }
}

/// A change of a run as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Complete,
    Fail,
    Cancel,
    Pause,
    Resume,
}

/// What a holder does with its shard.
#[derive(Clone, Debug)]
pub(crate) enum Hold {
    Renew,
    Checkpoint(Mark, OpId),
    Complete(Mark, OpId),
    Park(ParkReason, Text, OpId),
    Release(OpId),
    /// The plan is one for `parent`, which may be another range than the shard has.
    Replace {
        parent: Part,
        children: Vec<Part>,
        op: OpId,
    },
    /// Likewise.
    Residual {
        parent: Part,
        boundary: Text,
        op: OpId,
    },
    Decline {
        pause_ms: u64,
    },
}

/// One call, with everything it needs.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Create(TenantId, RunId, RunConfig),
    Register(TenantId, RunId, Roots, OpId),
    CreateWith(TenantId, RunId, RunConfig, Roots, OpId),
    Acquire(TenantId, ShardKey, WorkerId),
    Claim(TenantId, RunId, WorkerId),
    Candidates(TenantId, RunId, WorkerId, usize),
    Hold(TenantId, Lease, Hold),
    Ask(TenantId, ShardKey, WorkerId, u64),
    Unpark(TenantId, ShardKey, OpId),
    Look(TenantId, RunId),
    Progress(TenantId, RunId),
    List(TenantId, RunId, ShardFilter),
    Change(TenantId, RunId, Change, OpId),
    /// Not a call: time passes.
    Advance(u64),
}

type Outcome<E> = Result<IdempotentOutcome<()>, E>;

/// What a call came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Create(Result<(), CreateRunError>),
    Register(Outcome<RegisterShardsError>),
    CreateWith(Outcome<CreateRunWithShardsError>),
    Acquire(Result<RestoredShardState, AcquireError>),
    Claim(Result<RestoredShardState, ClaimError>),
    Candidates(Result<(Vec<ShardId>, ClaimOutlook), RunQueryError>),
    Renew(Result<RenewResult, RenewError>),
    Checkpoint(Result<IdempotentOutcome<Option<HolderNotice>>, CheckpointError>),
    Complete(Outcome<CompleteError>),
    Park(Outcome<ParkError>),
    Release(Outcome<ReleaseError>),
    Replace(SplitReplaced),
    Residual(SplitOff),
    Decline(Result<(), DeclineError>),
    Ask(Result<(), SplitRequestError>),
    Unpark(Outcome<UnparkError>),
    Look(Result<RunRecord, RunQueryError>),
    Progress(Result<RunProgress, RunQueryError>),
    List(Result<Vec<ShardSummary>, RunQueryError>),
    Change(Outcome<RunTransitionError>),
    /// The plan could not even be made.
    NoPlan,
    Time,
}

/// Does one thing to one backend.
pub(crate) async fn perform<B>(backend: &B, op: &Op) -> Answer
where
    B: AsyncCoordinationBackend + AsyncRunManagement + AsyncShardClaiming,
{
    match op {
        Op::Create(tenant, run, config) => {
            Answer::Create(backend.create_run(*tenant, *run, *config).await)
        }
        Op::Register(tenant, run, roots, op) => {
            let shards = roots.as_inputs();
            Answer::Register(backend.register_shards(*tenant, *run, &shards, *op).await)
        }
        Op::CreateWith(tenant, run, config, roots, op) => {
            let shards = roots.as_inputs();
            let created = backend.create_run_with_shards(*tenant, *run, *config, &shards, *op);
            Answer::CreateWith(created.await)
        }
        Op::Acquire(tenant, key, worker) => {
            Answer::Acquire(backend.acquire_and_restore(*tenant, *key, *worker).await)
        }
        Op::Claim(tenant, run, worker) => {
            Answer::Claim(backend.claim_next_available(*tenant, *run, *worker).await)
        }
        Op::Candidates(tenant, run, worker, limit) => {
            let found = backend.collect_claim_candidates(*tenant, *run, *worker, *limit);
            Answer::Candidates(found.await)
        }
        Op::Hold(tenant, lease, hold) => perform_hold(backend, *tenant, lease, hold).await,
        Op::Ask(tenant, key, asker, patience_ms) => {
            Answer::Ask(backend.request_split(*tenant, *key, *asker, *patience_ms).await)
        }
        Op::Unpark(tenant, key, op) => {
            Answer::Unpark(backend.unpark_shard(*tenant, *key, *op).await)
        }
        Op::Look(tenant, run) => Answer::Look(backend.get_run(*tenant, *run).await),
        Op::Progress(tenant, run) => {
            Answer::Progress(backend.get_run_progress(*tenant, *run).await)
        }
        Op::List(tenant, run, filter) => {
            Answer::List(backend.list_shards(*tenant, *run, *filter).await)
        }
        Op::Change(tenant, run, change, op) => Answer::Change(match change {
            Change::Complete => backend.complete_run(*tenant, *run, *op).await,
            Change::Fail => backend.fail_run(*tenant, *run, *op).await,
            Change::Cancel => backend.cancel_run(*tenant, *run, *op).await,
            Change::Pause => backend.pause_run(*tenant, *run, *op).await,
            Change::Resume => backend.resume_run(*tenant, *run, *op).await,
        }),
        Op::Advance(_) => Answer::Time,
    }
}

async fn perform_hold<B>(backend: &B, tenant: TenantId, lease: &Lease, hold: &Hold) -> Answer
where
    B: AsyncCoordinationBackend,
{
    match hold {
        Hold::Renew => Answer::Renew(backend.renew(tenant, lease).await),
        Hold::Checkpoint(cursor, op) => {
            let cursor = cursor.as_update();
            Answer::Checkpoint(backend.checkpoint(tenant, lease, cursor, *op).await)
        }
        Hold::Complete(cursor, op) => {
            Answer::Complete(backend.complete(tenant, lease, cursor.as_update(), *op).await)
        }
        Hold::Park(reason, detail, op) => {
            Answer::Park(backend.park_shard(tenant, lease, *reason, &detail.0, *op).await)
        }
        Hold::Release(op) => Answer::Release(backend.release(tenant, lease, *op).await),
        Hold::Replace { parent, children, op } => {
            let children: Vec<SplitChild<'_>> = children.iter().map(Part::as_child).collect();
            let cursor = parent.cursor.as_update();
            match plan_split_replace_with_children(parent.as_spec(), cursor, &children) {
                Ok(plan) => Answer::Replace(backend.split_replace(tenant, lease, &plan, *op).await),
                Err(_) => Answer::NoPlan,
            }
        }
        Hold::Residual { parent, boundary, op } => {
            let cursor = parent.cursor.as_update();
            match plan_split_residual(parent.as_spec(), cursor, &boundary.0) {
                Ok(plan) => {
                    Answer::Residual(backend.split_residual(tenant, lease, &plan, *op).await)
                }
                Err(_) => Answer::NoPlan,
            }
        }
        Hold::Decline { pause_ms } => {
            Answer::Decline(backend.decline_split(tenant, lease, *pause_ms).await)
        }
    }
}
