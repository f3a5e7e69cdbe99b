//! Calls of a coordinator, each written down before and after.

use std::sync::Arc;

use anyhow::Result;
use shardwright_contracts::{
    CursorUpdate, InitialShardInput, OpId, RunId, ShardId, ShardKey, ShardSpecRef, SplitChild,
    WorkerId, plan_split_replace_with_children, plan_split_residual,
};
use shardwright_coordination::{
    AsyncCoordinationBackend as _, AsyncRunManagement as _, AsyncShardClaiming as _, CoordError,
    HolderNotice, IdempotentOutcome, Lease, ParkReason, RestoredShardState,
};
use shardwright_engine::AsyncEtcdCoordinator;

use super::answer::{acquired, failure, registration_failure};
use crate::history::{Action, Facts, Outcome, Piece, Recorder, Root};
use crate::keys::key;
use crate::plan::{self, TENANT};

/// One worker's way to the coordinator.
pub(super) struct Caller {
    pub(super) coordinator: AsyncEtcdCoordinator,
    pub(super) recorder: Arc<Recorder>,
    pub(super) worker: u64,
}

/// What a call gave, besides what is written down.
#[derive(Default)]
pub(super) struct Given {
    pub(super) state: Option<RestoredShardState>,
    pub(super) notice: Option<HolderNotice>,
}

type Answered = (Outcome, Given);

impl Caller {
    pub(super) const fn new(
        coordinator: AsyncEtcdCoordinator,
        recorder: Arc<Recorder>,
        worker: u64,
    ) -> Self {
        Self { coordinator, recorder, worker }
    }

    const fn id(&self) -> WorkerId {
        WorkerId::from_raw(self.worker)
    }

    /// Makes a call. Whoever needs a lease shows it.
    pub(super) async fn call(
        &self,
        run: u64,
        lease: Option<&Lease>,
        action: &Action,
    ) -> Result<Answered> {
        let call = self.recorder.call(self.worker, run, action.clone())?;
        let run = RunId::from_raw(run);
        let (outcome, given) = match lease {
            Some(lease) => self.holder_call(lease, action).await?,
            None => self.other_call(run, action).await?,
        };
        self.recorder.answer(call, outcome.clone())?;
        Ok((outcome, given))
    }

    async fn other_call(&self, run: RunId, action: &Action) -> Result<Answered> {
        let backend = &self.coordinator;
        let key = |shard: &u64| ShardKey::new(run, ShardId::from_raw(*shard));
        Ok(match action {
            Action::Register { op, roots } => self.register(run, *op, roots).await?,
            Action::Claim => {
                let claimed = backend.claim_next_available(TENANT, run, self.id()).await;
                handed_out(claimed.map_err(CoordError::from))
            }
            Action::Acquire { shard } => {
                let got = backend.acquire_and_restore(TENANT, key(shard), self.id()).await;
                handed_out(got.map_err(CoordError::from))
            }
            Action::Unpark { shard, op } => {
                idempotent(backend.unpark_shard(TENANT, key(shard), OpId::from_raw(*op)).await)
            }
            Action::CompleteRun { op } => {
                idempotent(backend.complete_run(TENANT, run, OpId::from_raw(*op)).await)
            }
            Action::RequestSplit { shard } => {
                plain(backend.request_split(TENANT, key(shard), self.id(), 1_000).await)
            }
            _ => anyhow::bail!("{action:?} needs a lease"),
        })
    }

    async fn holder_call(&self, lease: &Lease, action: &Action) -> Result<Answered> {
        let backend = &self.coordinator;
        let id = |op: &u64| OpId::from_raw(*op);
        Ok(match action {
            Action::Renew { .. } => match backend.renew(TENANT, lease).await {
                Ok(renewed) => (done(false), Given { notice: renewed.notice, state: None }),
                Err(error) => refused(error),
            },
            Action::Checkpoint { op, key: at, .. } => {
                let bytes = key(*at);
                let cursor = CursorUpdate::at(&bytes);
                match backend.checkpoint(TENANT, lease, cursor, id(op)).await {
                    Ok(outcome) => {
                        let replayed = outcome.is_replay();
                        let notice = outcome.into_inner();
                        (done(replayed), Given { notice, state: None })
                    }
                    Err(error) => refused(error),
                }
            }
            Action::Complete { op, key: at, .. } => {
                let bytes = key(*at);
                let cursor = CursorUpdate::at(&bytes);
                idempotent(backend.complete(TENANT, lease, cursor, id(op)).await)
            }
            Action::Park { op, .. } => {
                let parked = backend.park_shard(TENANT, lease, ParkReason::Other, b"", id(op));
                idempotent(parked.await)
            }
            Action::Release { op, .. } => idempotent(backend.release(TENANT, lease, id(op)).await),
            Action::DeclineSplit { .. } => plain(backend.decline_split(TENANT, lease, 300).await),
            Action::SplitReplace { op, children, .. } => {
                self.split_replace(lease, *op, children).await?
            }
            Action::SplitResidual { op, start, at, end, .. } => {
                self.split_residual(lease, *op, [*start, *at, *end]).await?
            }
            _ => anyhow::bail!("{action:?} needs no lease"),
        })
    }

    async fn register(&self, run: RunId, op: u64, roots: &[Root]) -> Result<Answered> {
        let bounds: Vec<_> = roots.iter().map(|root| (key(root.start), key(root.end))).collect();
        let shards: Vec<InitialShardInput<'_>> = roots
            .iter()
            .zip(&bounds)
            .map(|(root, (start, end))| InitialShardInput {
                shard: ShardId::from_raw(root.shard),
                spec: ShardSpecRef::new(start, end, b""),
                cursor: CursorUpdate::initial(),
            })
            .collect();
        let op = OpId::from_raw(op);
        let config = plan::config()?;
        let made = self.coordinator.create_run_with_shards(TENANT, run, config, &shards, op).await;
        Ok(match made {
            Ok(outcome) => (done(outcome.is_replay()), Given::default()),
            Err(error) => (registration_failure(error), Given::default()),
        })
    }

    async fn split_replace(&self, lease: &Lease, op: u64, pieces: &[Piece]) -> Result<Answered> {
        let bytes: Vec<_> = pieces
            .iter()
            .map(|piece| (key(piece.start), key(piece.end), piece.cursor.map(key)))
            .collect();
        let children: Vec<SplitChild<'_>> = bytes
            .iter()
            .map(|(start, end, cursor)| SplitChild {
                spec: ShardSpecRef::new(start, end, b""),
                cursor: CursorUpdate::new(cursor.as_ref().map(|key| key.as_slice()), None),
            })
            .collect();
        let (Some((start, ..)), Some((_, end, _))) = (bytes.first(), bytes.last()) else {
            anyhow::bail!("a split without children")
        };
        let cursor = bytes.first().and_then(|(_, _, cursor)| cursor.as_ref());
        let cursor = CursorUpdate::new(cursor.map(|key| key.as_slice()), None);
        let parent = ShardSpecRef::new(start, end, b"");
        let plan = plan_split_replace_with_children(parent, cursor, &children)?;
        let split = self.coordinator.split_replace(TENANT, lease, &plan, OpId::from_raw(op)).await;
        Ok(match split {
            Ok(outcome) => {
                let replayed = outcome.is_replay();
                let children = outcome.into_inner().children;
                let children = children.iter().map(|child| child.as_raw()).collect();
                (Outcome::Done(Facts { replayed, children, acquired: None }), Given::default())
            }
            Err(error) => refused(error),
        })
    }

    async fn split_residual(&self, lease: &Lease, op: u64, bounds: [u64; 3]) -> Result<Answered> {
        let [start, at, end] = bounds.map(key);
        let parent = ShardSpecRef::new(&start, &end, b"");
        let plan = plan_split_residual(parent, CursorUpdate::initial(), &at)?;
        let split = self.coordinator.split_residual(TENANT, lease, &plan, OpId::from_raw(op)).await;
        Ok(match split {
            Ok(outcome) => {
                let replayed = outcome.is_replay();
                let children = vec![outcome.into_inner().residual.as_raw()];
                (Outcome::Done(Facts { replayed, children, acquired: None }), Given::default())
            }
            Err(error) => refused(error),
        })
    }
}

fn done(replayed: bool) -> Outcome {
    Outcome::Done(Facts { replayed, ..Facts::default() })
}

fn refused(error: impl Into<CoordError>) -> Answered {
    (failure(error.into()), Given::default())
}

fn plain(result: Result<(), impl Into<CoordError>>) -> Answered {
    match result {
        Ok(()) => (done(false), Given::default()),
        Err(error) => refused(error),
    }
}

fn idempotent(result: Result<IdempotentOutcome<()>, impl Into<CoordError>>) -> Answered {
    match result {
        Ok(outcome) => (done(outcome.is_replay()), Given::default()),
        Err(error) => refused(error),
    }
}

fn handed_out(result: Result<RestoredShardState, CoordError>) -> Answered {
    match result {
        Ok(state) => {
            let facts = Facts { acquired: Some(acquired(&state)), ..Facts::default() };
            (Outcome::Done(facts), Given { state: Some(state), notice: None })
        }
        Err(error) => (failure(error), Given::default()),
    }
}
