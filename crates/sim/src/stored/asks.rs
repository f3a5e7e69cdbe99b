//! What actors ask of a process, and how it is put to the engine.

use std::sync::Arc;

use shardwright_contracts::{
    RunId, ShardId, SplitChild, TenantId, plan_split_replace_with_children,
    plan_split_residual_with_metadata,
};
use shardwright_coordination::{
    AsyncCoordinationBackend, AsyncRunManagement, AsyncShardClaiming, CoordError,
    CreateRunWithShardsError, IdempotentOutcome, InfraError, Lease, RestoredShardState,
};
use shardwright_runs::{Retention, RunAddress, StoredCoordinator};

use crate::keyspace::Point;
use crate::planted::stored_doctor::StoredDoctor;
use crate::request::{DraftCursor, DraftSpec, DraftSplit, HolderAct, Request, RunAct};
use crate::system::{Answer, Granted, Outcome, inputs};

/// The engine as it runs here.
pub(crate) type Coordinator = StoredCoordinator;

/// What is asked.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "nearly all of them are the large one")]
pub(crate) enum Ask {
    /// Something of the protocol.
    Request { tenant: TenantId, request: Request, processed: Option<(Point, Point)> },
    /// To take away what nobody needs.
    Collect(Retention),
    /// Which runs are active.
    ListActive,
}

/// What came of it.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// The sender's own planning refused it, so that it never left.
    Unsent,
    Told(Box<Outcome>),
    Collected(Result<Vec<RunAddress>, InfraError>),
    Active(Result<Vec<RunAddress>, InfraError>),
}

impl Ask {
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Request { request, .. } => request.name(),
            Self::Collect(_) => "collect",
            Self::ListActive => "list_active_runs",
        }
    }

    /// Whether it is about a run of a tenant.
    pub(crate) fn is_of(&self, tenant: TenantId, run: RunId) -> bool {
        match self {
            Self::Request { tenant: asking, request, .. } => {
                (*asking, request.run()) == (tenant, run)
            }
            Self::Collect(_) | Self::ListActive => false,
        }
    }

    pub(crate) const fn request(&self) -> Option<&Request> {
        match self {
            Self::Request { request, .. } => Some(request),
            Self::Collect(_) | Self::ListActive => None,
        }
    }
}

/// Puts something to the engine. `now_ms` is when it was decided to ask.
pub(crate) async fn put(coordinator: Arc<Coordinator>, ask: Ask, now_ms: u64) -> Reply {
    match ask {
        Ask::Request { tenant, request, .. } => {
            match call(&coordinator, tenant, &request, now_ms).await {
                Some(outcome) => Reply::Told(Box::new(outcome)),
                None => Reply::Unsent,
            }
        }
        Ask::Collect(retention) => {
            let mut out = Vec::new();
            Reply::Collected(coordinator.collect_into(retention, &mut out).await.map(|()| out))
        }
        Ask::ListActive => {
            let mut out = Vec::new();
            Reply::Active(coordinator.list_active_runs_into(&mut out).await.map(|()| out))
        }
    }
}

/// Puts something to the engine past a bug.
pub(crate) async fn put_doctored(
    coordinator: Arc<Coordinator>,
    mut ask: Ask,
    now_ms: u64,
    process: usize,
    doctor: &StoredDoctor,
) -> Reply {
    if let Ask::Request { tenant, request, .. } = &mut ask
        && let Some(outcome) = doctor.asked(process, *tenant, request, now_ms)
    {
        return Reply::Told(Box::new(outcome));
    }
    let mut reply = put(coordinator, ask.clone(), now_ms).await;
    if let (Ask::Request { tenant, request, .. }, Reply::Told(outcome)) = (&ask, &mut reply) {
        doctor.answered(process, *tenant, request, outcome);
    }
    reply
}

async fn call(
    engine: &Coordinator,
    tenant: TenantId,
    request: &Request,
    now_ms: u64,
) -> Option<Outcome> {
    Some(match request {
        Request::Acquire { key, worker } => {
            engine.acquire_and_restore(tenant, *key, *worker).await.map(granted).map_err(Into::into)
        }
        Request::Claim { run, worker } => engine
            .claim_next_available(tenant, *run, *worker)
            .await
            .map(granted)
            .map_err(Into::into),
        Request::Holder { lease, act } => return holder(engine, tenant, lease, act, now_ms).await,
        Request::RequestSplit { key, asker, expires_at } => {
            let patience_ms = expires_at.as_millis().saturating_sub(now_ms);
            let asked = engine.request_split(tenant, *key, *asker, patience_ms).await;
            asked.map(|()| Answer::Noted).map_err(Into::into)
        }
        Request::CreateRun { run, config } => engine
            .create_run(tenant, *run, *config)
            .await
            .map(|()| Answer::Noted)
            .map_err(Into::into),
        Request::Register { run, shards, op } => {
            let registered = engine.register_shards(tenant, *run, &inputs(shards), *op).await;
            registered.map(applied).map_err(Into::into)
        }
        Request::CreateWithShards { run, config, shards, op } => engine
            .create_run_with_shards(tenant, *run, *config, &inputs(shards), *op)
            .await
            .map(applied)
            .map_err(|error| match error {
                CreateRunWithShardsError::Create(error) => error.into(),
                CreateRunWithShardsError::Register(error) => error.into(),
            }),
        Request::Run { run, act, op } => match act {
            RunAct::Complete => engine.complete_run(tenant, *run, *op).await,
            RunAct::Fail => engine.fail_run(tenant, *run, *op).await,
            RunAct::Cancel => engine.cancel_run(tenant, *run, *op).await,
            RunAct::Pause => engine.pause_run(tenant, *run, *op).await,
            RunAct::Resume => engine.resume_run(tenant, *run, *op).await,
        }
        .map(applied)
        .map_err(Into::into),
        Request::Unpark { key, op } => {
            engine.unpark_shard(tenant, *key, *op).await.map(applied).map_err(Into::into)
        }
        Request::GetRun { run } => {
            engine.get_run(tenant, *run).await.map(Answer::Run).map_err(Into::into)
        }
        Request::Progress { run } => {
            engine.get_run_progress(tenant, *run).await.map(Answer::Progress).map_err(Into::into)
        }
        Request::List { run, filter } => {
            engine.list_shards(tenant, *run, *filter).await.map(Answer::Shards).map_err(Into::into)
        }
        Request::Candidates { run, worker, limit } => engine
            .collect_claim_candidates(tenant, *run, *worker, *limit)
            .await
            .map(|(shards, outlook)| Answer::Candidates { shards, outlook })
            .map_err(Into::into),
    })
}

async fn holder(
    engine: &Coordinator,
    tenant: TenantId,
    lease: &Lease,
    act: &HolderAct,
    now_ms: u64,
) -> Option<Outcome> {
    let outcome: Result<Answer, CoordError> = match act {
        HolderAct::Renew => {
            engine.renew(tenant, lease).await.map(Answer::Renewed).map_err(Into::into)
        }
        HolderAct::Decline { not_before } => {
            let pause_ms = not_before.as_millis().saturating_sub(now_ms);
            let declined = engine.decline_split(tenant, lease, pause_ms).await;
            declined.map(|()| Answer::Noted).map_err(Into::into)
        }
        HolderAct::Checkpoint { cursor, op } => engine
            .checkpoint(tenant, lease, cursor.as_update(), *op)
            .await
            .map(|outcome| Answer::Noticed {
                replayed: outcome.is_replay(),
                notice: outcome.into_inner(),
            })
            .map_err(Into::into),
        HolderAct::Complete { cursor, op } => engine
            .complete(tenant, lease, cursor.as_update(), *op)
            .await
            .map(applied)
            .map_err(Into::into),
        HolderAct::Park { reason, detail, op } => engine
            .park_shard(tenant, lease, *reason, detail, *op)
            .await
            .map(applied)
            .map_err(Into::into),
        HolderAct::Release { op } => {
            engine.release(tenant, lease, *op).await.map(applied).map_err(Into::into)
        }
        HolderAct::SplitReplace { split, op } => {
            let DraftSplit { parent, cursor, parts } = split;
            let mut children = Vec::with_capacity(parts.len());
            for (spec, cursor) in parts {
                children.push(SplitChild { spec: spec.as_ref(), cursor: cursor.as_update() });
            }
            let plan =
                plan_split_replace_with_children(parent.as_ref(), cursor.as_update(), &children);
            let split = engine.split_replace(tenant, lease, &plan.ok()?, *op).await;
            split.map(|outcome| spawned(outcome.map(|result| result.children))).map_err(Into::into)
        }
        HolderAct::SplitResidual { split, op } => {
            let [(left, _), (right, _)] = split.parts.as_slice() else { return None };
            let plan = plan_split_residual_with_metadata(
                split.parent.as_ref(),
                split.cursor.as_update(),
                &right.start,
                &left.metadata,
                &right.metadata,
            );
            let split = engine.split_residual(tenant, lease, &plan.ok()?, *op).await;
            split
                .map(|outcome| spawned(outcome.map(|result| vec![result.residual])))
                .map_err(Into::into)
        }
    };
    Some(outcome)
}

fn applied(outcome: IdempotentOutcome<()>) -> Answer {
    Answer::Applied { replayed: outcome.is_replay() }
}

fn spawned(outcome: IdempotentOutcome<Vec<ShardId>>) -> Answer {
    Answer::Spawned { replayed: outcome.is_replay(), shards: outcome.into_inner() }
}

fn granted(state: RestoredShardState) -> Answer {
    let (spec, cursor) = (state.spec.as_spec_ref(), state.cursor.as_update());
    Answer::Granted(Granted {
        lease: state.lease,
        spec: DraftSpec {
            start: spec.start().into(),
            end: spec.end().into(),
            metadata: spec.metadata().into(),
        },
        cursor: DraftCursor {
            last_key: cursor.last_key().map(Into::into),
            token: cursor.token().map(Into::into),
        },
        spawned: state.spawned.iter().map(|spawned| spawned.shard).collect(),
        parent: state.parent,
        cursor_semantics: state.cursor_semantics,
        fruitless: state.fruitless_acquires,
        capacity: state.capacity,
    })
}
