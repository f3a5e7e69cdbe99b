//! Calls to a coordinator. Each is recorded before it is made and after its answer.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use shardwright_contracts::{
    CursorInput, OpId, RunId, ShardId, ShardInput, ShardKey, SpecInput, SplitPart, WorkerId,
};
use shardwright_coordination::operation::{
    Acquire, ChangeRun, Checkpoint, Claim, Complete, CreateRunWithShards, DeclineSplit, ParkShard,
    Release, Renew, RequestSplit, SplitReplace, SplitResidual, UnparkShard,
};
use shardwright_coordination::{
    Backend as _, HolderNotice, Lease, ParkReason, Reply, Request, RestoredShardState,
    RunTransition,
};
use shardwright_runs::AsyncEtcdCoordinator;

use super::answer::outcome;
use crate::history::{Action, Outcome, Piece, Recorder, Root};
use crate::plan::key;
use crate::plan::{self, TENANT};

/// Makes and records the calls of one worker.
pub(super) struct Caller {
    pub(super) coordinator: AsyncEtcdCoordinator,
    pub(super) recorder: Arc<Recorder>,
    pub(super) worker: u64,
}

/// Parts of an answer that are not recorded.
#[derive(Default)]
pub(super) struct Returned {
    pub(super) state: Option<RestoredShardState>,
    pub(super) notice: Option<HolderNotice>,
}

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

    /// Makes a call, with a lease if the call needs one.
    pub(super) async fn call(
        &self,
        run: u64,
        lease: Option<&Lease>,
        action: &Action,
    ) -> Result<(Outcome, Returned)> {
        let request = self.request(RunId::from_raw(run), lease, action)?;
        let call = self.recorder.call(self.worker, run, action.clone())?;
        let answer = self.coordinator.call(TENANT, request.as_ref()).await;
        let outcome = outcome(&answer);
        self.recorder.answer(call, outcome.clone())?;
        Ok((outcome, answer.map_or_else(|_| Returned::default(), Returned::from)))
    }

    /// The request of an action.
    fn request(
        &self,
        run: RunId,
        lease: Option<&Lease>,
        action: &Action,
    ) -> Result<Request<Vec<u8>>> {
        let (worker, id) = (self.id(), |op: &u64| OpId::from_raw(*op));
        let key_of = |shard: &u64| ShardKey::new(run, ShardId::from_raw(*shard));
        let lease = || lease.copied().with_context(|| format!("{action:?} needs a lease"));
        let at = |number: &u64| CursorInput::at(bytes(*number));
        Ok(match action {
            Action::Register { op, roots } => {
                let (config, shards) = (plan::config()?, roots.iter().map(root).collect());
                CreateRunWithShards { run, config, shards, op: id(op) }.into()
            }
            Action::Claim => Claim { run, worker }.into(),
            Action::Acquire { shard } => Acquire { key: key_of(shard), worker }.into(),
            Action::Unpark { shard, op } => UnparkShard { key: key_of(shard), op: id(op) }.into(),
            Action::CompleteRun { op } => {
                ChangeRun { run, change: RunTransition::Complete, op: id(op) }.into()
            }
            Action::RequestSplit { shard } => {
                RequestSplit { key: key_of(shard), requester: worker, patience_ms: 1_000 }.into()
            }
            Action::Renew { .. } => Renew { lease: lease()? }.into(),
            Action::Checkpoint { op, key, .. } => {
                Checkpoint { lease: lease()?, cursor: at(key), op: id(op) }.into()
            }
            Action::Complete { op, key, .. } => {
                Complete { lease: lease()?, cursor: at(key), op: id(op) }.into()
            }
            Action::Park { op, .. } => {
                let (lease, reason, detail) = (lease()?, ParkReason::Other, Vec::new());
                ParkShard { lease, reason, detail, op: id(op) }.into()
            }
            Action::Release { op, .. } => Release { lease: lease()?, op: id(op) }.into(),
            Action::DeclineSplit { .. } => DeclineSplit { lease: lease()?, pause_ms: 300 }.into(),
            Action::SplitReplace { op, children, .. } => {
                let parts = children.iter().map(part).collect();
                SplitReplace { lease: lease()?, parts, op: id(op) }.into()
            }
            Action::SplitResidual { op, start, at, end, .. } => {
                let (narrowed, residual) = (range(*start, *at), range(*at, *end));
                SplitResidual { lease: lease()?, narrowed, residual, op: id(op) }.into()
            }
        })
    }
}

impl From<Reply> for Returned {
    fn from(reply: Reply) -> Self {
        match reply {
            Reply::Granted(state) => Self { state: Some(*state), notice: None },
            Reply::Renewed(renewed) => Self { state: None, notice: renewed.notice },
            Reply::Noticed(outcome) => Self { state: None, notice: outcome.into_inner() },
            _ => Self::default(),
        }
    }
}

fn bytes(number: u64) -> Vec<u8> {
    key(number).to_vec()
}

fn range(start: u64, end: u64) -> SpecInput<Vec<u8>> {
    SpecInput::new(bytes(start), bytes(end), Vec::new())
}

fn root(root: &Root) -> ShardInput<Vec<u8>> {
    let (shard, spec) = (ShardId::from_raw(root.shard), range(root.start, root.end));
    ShardInput { shard, spec, cursor: CursorInput::initial() }
}

fn part(piece: &Piece) -> SplitPart<Vec<u8>> {
    let cursor = CursorInput::new(piece.cursor.map(bytes), None);
    SplitPart { spec: range(piece.start, piece.end), cursor }
}
