//! The system under test, reached through its traits alone.

pub mod awaited;
pub mod session;

use shardwright_contracts::{
    CursorSemantics, FenceEpoch, InitialShardInput, LogicalTime, RunId, ShardId, SplitChild,
    SplitReplacePlan, SplitResidualPlan, TenantId, WorkerId, plan_split_replace_with_children,
    plan_split_residual_with_metadata,
};
use shardwright_coordination::{
    AcquireResultView, AcquireScratch, CapacityHint, ClaimHint, CoordError, CoordinationFacade,
    CreateRunWithShardsError, HolderNotice, IdempotentOutcome, InMemoryCoordinator, Lease,
    RenewResult, RunProgress, RunRecord, ShardFilter, ShardSummary, StateTransitionEvent,
};

use crate::request::{DraftCursor, DraftSpec, DraftSplit, HolderAct, Request, RunAct};

/// A backend that the world can drive.
pub trait System: CoordinationFacade {
    /// What happened since the last call, oldest first.
    fn take_events(&mut self) -> Vec<StateTransitionEvent>;

    /// Makes every fence below `floor` stale.
    fn raise_fence_floor(&mut self, floor: FenceEpoch);
}

impl System for InMemoryCoordinator {
    fn take_events(&mut self) -> Vec<StateTransitionEvent> {
        Self::take_events(self)
    }

    fn raise_fence_floor(&mut self, floor: FenceEpoch) {
        Self::raise_fence_floor(self, floor);
    }
}

/// A shard as an acquire showed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The lease.
    pub lease: Lease,
    /// Range and metadata.
    pub spec: DraftSpec,
    /// Cursor.
    pub cursor: DraftCursor,
    /// Shards split from it.
    pub spawned: Vec<ShardId>,
    /// Which it was split from.
    pub parent: Option<ShardId>,
    /// When a key of it counts as processed.
    pub cursor_semantics: CursorSemantics,
    /// How often it was acquired in a row without progress, this time included.
    pub fruitless: u32,
    /// How much there is to do besides.
    pub capacity: CapacityHint,
}

/// What the system answered, when it did not refuse.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "one variant per shape of answer")]
pub enum Answer {
    Granted(Granted),
    Renewed(RenewResult),
    Noticed { replayed: bool, notice: Option<HolderNotice> },
    Applied { replayed: bool },
    Spawned { replayed: bool, shards: Vec<ShardId> },
    Noted,
    Run(RunRecord),
    Progress(RunProgress),
    Shards(Vec<ShardSummary>),
    Candidates { shards: Vec<ShardId>, outlook: ClaimHint },
}

impl Answer {
    /// Whether it is the answer to something done before.
    #[must_use]
    pub const fn is_replay(&self) -> bool {
        matches!(
            self,
            Self::Noticed { replayed: true, .. }
                | Self::Applied { replayed: true }
                | Self::Spawned { replayed: true, .. }
        )
    }
}

/// What became of a request.
pub type Outcome = Result<Answer, CoordError>;

/// Puts a request to the system.
///
/// `None` if the sender's own planning refuses it, so that it never leaves the sender.
pub fn call(
    system: &mut impl System,
    now: LogicalTime,
    tenant: TenantId,
    request: &Request,
    scratch: &mut AcquireScratch,
) -> Option<Outcome> {
    Some(match request {
        Request::Acquire { key, worker } => system
            .acquire_and_restore_into(now, tenant, *key, *worker, scratch)
            .map(granted)
            .map_err(Into::into),
        Request::Claim { run, worker } => system
            .claim_next_available(now, tenant, *run, *worker, scratch)
            .map(granted)
            .map_err(Into::into),
        Request::Holder { lease, act } => return holder(system, now, tenant, lease, act),
        Request::RequestSplit { key, asker, expires_at } => system
            .request_split(now, tenant, *key, *asker, *expires_at)
            .map(|()| Answer::Noted)
            .map_err(Into::into),
        Request::CreateRun { run, config } => system
            .create_run(now, tenant, *run, *config)
            .map(|()| Answer::Noted)
            .map_err(Into::into),
        Request::Register { run, shards, op } => system
            .register_shards(now, tenant, *run, &inputs(shards), *op)
            .map(applied)
            .map_err(Into::into),
        Request::CreateWithShards { run, config, shards, op } => system
            .create_run_with_shards(now, tenant, *run, *config, &inputs(shards), *op)
            .map(applied)
            .map_err(|error| match error {
                CreateRunWithShardsError::Create(error) => error.into(),
                CreateRunWithShardsError::Register(error) => error.into(),
            }),
        Request::Run { run, act, op } => match act {
            RunAct::Complete => system.complete_run(now, tenant, *run, *op),
            RunAct::Fail => system.fail_run(now, tenant, *run, *op),
            RunAct::Cancel => system.cancel_run(now, tenant, *run, *op),
            RunAct::Pause => system.pause_run(now, tenant, *run, *op),
            RunAct::Resume => system.resume_run(now, tenant, *run, *op),
        }
        .map(applied)
        .map_err(Into::into),
        Request::Unpark { key, op } => {
            system.unpark_shard(now, tenant, *key, *op).map(applied).map_err(Into::into)
        }
        Request::GetRun { run } => {
            system.get_run(tenant, *run).map(Answer::Run).map_err(Into::into)
        }
        Request::Progress { run } => {
            system.get_run_progress(now, tenant, *run).map(Answer::Progress).map_err(Into::into)
        }
        Request::List { run, filter } => list(system, now, tenant, *run, *filter),
        Request::Candidates { run, worker, limit } => {
            candidates(system, now, tenant, *run, *worker, *limit)
        }
    })
}

pub(crate) fn inputs(shards: &[(ShardId, DraftSpec, DraftCursor)]) -> Vec<InitialShardInput<'_>> {
    shards
        .iter()
        .map(|(shard, spec, cursor)| InitialShardInput {
            shard: *shard,
            spec: spec.as_ref(),
            cursor: cursor.as_update(),
        })
        .collect()
}

fn holder(
    system: &mut impl System,
    now: LogicalTime,
    tenant: TenantId,
    lease: &Lease,
    act: &HolderAct,
) -> Option<Outcome> {
    Some(match act {
        HolderAct::Renew => {
            system.renew(now, tenant, lease).map(Answer::Renewed).map_err(Into::into)
        }
        HolderAct::Decline { not_before } => system
            .decline_split(now, tenant, lease, *not_before)
            .map(|()| Answer::Noted)
            .map_err(Into::into),
        HolderAct::Checkpoint { cursor, op } => system
            .checkpoint(now, tenant, lease, cursor.as_update(), *op)
            .map(|outcome| Answer::Noticed {
                replayed: outcome.is_replay(),
                notice: outcome.into_inner(),
            })
            .map_err(Into::into),
        HolderAct::Complete { cursor, op } => system
            .complete(now, tenant, lease, cursor.as_update(), *op)
            .map(applied)
            .map_err(Into::into),
        HolderAct::Park { reason, detail, op } => system
            .park_shard(now, tenant, lease, *reason, detail, *op)
            .map(applied)
            .map_err(Into::into),
        HolderAct::Release { op } => {
            system.release(now, tenant, lease, *op).map(applied).map_err(Into::into)
        }
        HolderAct::SplitReplace { split, op } => {
            let children = split.children();
            system
                .split_replace(now, tenant, lease, &plan_replace(split, &children)?, *op)
                .map(|outcome| spawned(outcome.map(|result| result.children)))
                .map_err(Into::into)
        }
        HolderAct::SplitResidual { split, op } => system
            .split_residual(now, tenant, lease, &plan_residual(split)?, *op)
            .map(|outcome| spawned(outcome.map(|result| vec![result.residual])))
            .map_err(Into::into),
    })
}

/// The sender's plan, if its own planning lets it through.
fn plan_replace<'a>(
    split: &DraftSplit,
    children: &[SplitChild<'a>],
) -> Option<SplitReplacePlan<'a>> {
    let (parent, cursor) = (split.parent.as_ref(), split.cursor.as_update());
    plan_split_replace_with_children(parent, cursor, children).ok()
}

/// The sender's plan, if its own planning lets it through.
fn plan_residual(split: &DraftSplit) -> Option<SplitResidualPlan<'_>> {
    let [(left, _), (right, _)] = split.parts.as_slice() else { return None };
    plan_split_residual_with_metadata(
        split.parent.as_ref(),
        split.cursor.as_update(),
        &right.start,
        &left.metadata,
        &right.metadata,
    )
    .ok()
}

fn list(
    system: &mut impl System,
    now: LogicalTime,
    tenant: TenantId,
    run: RunId,
    filter: ShardFilter,
) -> Outcome {
    let mut shards = Vec::new();
    system.list_shards_into(now, tenant, run, filter, &mut shards)?;
    Ok(Answer::Shards(shards))
}

fn candidates(
    system: &mut impl System,
    now: LogicalTime,
    tenant: TenantId,
    run: RunId,
    worker: WorkerId,
    limit: usize,
) -> Outcome {
    let mut shards = Vec::new();
    let outlook =
        system.collect_claim_candidates_into(now, tenant, run, worker, limit, &mut shards)?;
    Ok(Answer::Candidates { shards, outlook })
}

fn applied(outcome: IdempotentOutcome<()>) -> Answer {
    Answer::Applied { replayed: outcome.is_replay() }
}

fn spawned(outcome: IdempotentOutcome<Vec<ShardId>>) -> Answer {
    Answer::Spawned { replayed: outcome.is_replay(), shards: outcome.into_inner() }
}

fn granted(view: AcquireResultView<'_>) -> Answer {
    let (spec, cursor) = (view.snapshot.spec, view.snapshot.cursor);
    Answer::Granted(Granted {
        lease: view.lease,
        spec: DraftSpec {
            start: spec.start().into(),
            end: spec.end().into(),
            metadata: spec.metadata().into(),
        },
        cursor: DraftCursor {
            last_key: cursor.last_key().map(Into::into),
            token: cursor.token().map(Into::into),
        },
        spawned: view.snapshot.spawned.iter().map(|spawned| spawned.shard).collect(),
        parent: view.snapshot.parent,
        cursor_semantics: view.snapshot.cursor_semantics,
        fruitless: view.snapshot.fruitless_acquires,
        capacity: view.capacity,
    })
}
