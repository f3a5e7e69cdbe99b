//! Bugs planted around a worker's backend and its handler.

use std::future::{pending, ready};

use shardwright_contracts::{BoxFuture, CursorUpdate, RunId, ShardId, ShardSpecRef, TenantId};
use shardwright_coordination::{
    AsyncRunManagement as _, Backend, CapacityHint, HolderNotice, IdempotentOutcome, RenewResult,
    ShardFilter, SplitResidualResult, operation,
};
use shardwright_runs::StoredCoordinator;
use shardwright_worker::connector::Item;
use shardwright_worker::handler::{Assignment, Batch, Handler, Outcome};

use super::workers::{Doctored, EACH_ITEM, WorkerBug, is_hit};
use crate::request::{Answer, Reply, applied};
use crate::workers::handler::ScriptedHandler;
use crate::workers::source::{first_at, key};

/// Time by which the answer to a dropped renewal extends the lease.
const RENEWED_BY_MS: u64 = 1_000;

impl Backend for Doctored<StoredCoordinator> {
    fn call<'a>(
        &'a self,
        tenant: TenantId,
        request: operation::Request<&'a [u8]>,
    ) -> BoxFuture<'a, Answer> {
        match (self.bug, request) {
            (Some(WorkerBug::SplitEarly), operation::Request::SplitResidual(split)) => {
                Box::pin(self.split_early(tenant, split))
            }
            (Some(WorkerBug::CheckpointAhead), operation::Request::Checkpoint(checkpoint)) => {
                Box::pin(self.checkpoint_ahead(tenant, checkpoint))
            }
            (Some(WorkerBug::TriesForgotten), operation::Request::SplitResidual(split)) => {
                let narrowed = split.narrowed.with_metadata(b"");
                let split = operation::SplitResidual { narrowed, ..split };
                self.inner.call(tenant, operation::Request::SplitResidual(split))
            }
            (bug, request) => match bug.and_then(|bug| dropped(bug, &request)) {
                Some(reply) => Box::pin(ready(Ok(reply))),
                None => self.inner.call(tenant, request),
            },
        }
    }

    fn claimable<'a>(&'a self, tenant: TenantId, run: RunId) -> BoxFuture<'a, ()> {
        self.inner.claimable(tenant, run)
    }
}

impl Doctored<StoredCoordinator> {
    /// Moves a cursor one item further.
    async fn checkpoint_ahead(
        &self,
        tenant: TenantId,
        checkpoint: operation::Checkpoint<&[u8]>,
    ) -> Answer {
        let further = checkpoint.cursor.last_key().map(|last| key(first_at(last) + 1));
        let cursor = CursorUpdate::new(further.as_deref(), checkpoint.cursor.token());
        let checkpoint = operation::Checkpoint { cursor, ..checkpoint };
        self.inner.call(tenant, operation::Request::Checkpoint(checkpoint)).await
    }

    /// Splits a shard right behind the next item that its cursor has not passed.
    async fn split_early(
        &self,
        tenant: TenantId,
        split: operation::SplitResidual<&[u8]>,
    ) -> Answer {
        let holder = split.lease.key();
        let shards = self.inner.list_shards(tenant, holder.run, ShardFilter::all()).await;
        let shards = shards.unwrap_or_default();
        let found = shards.iter().find(|shard| shard.shard == holder.shard);
        let cursor = found.and_then(|shard| shard.last_key.as_deref());
        let first = cursor.map_or(first_at(split.narrowed.start()), |last| first_at(last) + 1);
        let (boundary, metadata) = (key(first + 1), split.narrowed.metadata());
        let narrowed = ShardSpecRef::new(split.narrowed.start(), &boundary, metadata);
        let residual = ShardSpecRef::new(&boundary, split.residual.end(), metadata);
        let split = operation::SplitResidual { narrowed, residual, ..split };
        self.inner.call(tenant, operation::Request::SplitResidual(split)).await
    }
}

/// The answer to a request that a bug drops.
fn dropped(bug: WorkerBug, request: &operation::Request<&[u8]>) -> Option<Reply> {
    use operation::Request;
    match (bug, request) {
        (WorkerBug::RenewalDropped, Request::Renew(renew)) => {
            let new_deadline = renew.lease.deadline().saturating_add(RENEWED_BY_MS);
            let (notice, capacity) = (None, CapacityHint::default());
            Some(Reply::Renewed(RenewResult { new_deadline, notice, capacity }))
        }
        (WorkerBug::CheckpointDropped, Request::Checkpoint(_)) => {
            let notice = HolderNotice { paused: false, split_request: None };
            Some(Reply::Noticed(IdempotentOutcome::Executed(Some(notice))))
        }
        (WorkerBug::CompletionDropped, Request::Complete(_)) => Some(applied(false)),
        (WorkerBug::SplitDropped, Request::SplitResidual(split)) => {
            let residual = ShardId::from_raw(split.op.as_raw()).into_derived();
            let made = SplitResidualResult { residual };
            Some(Reply::Residual(IdempotentOutcome::Executed(made)))
        }
        (WorkerBug::SplitRequestDropped, Request::RequestSplit(_)) => Some(Reply::Done),
        _ => None,
    }
}

impl Handler for Doctored<ScriptedHandler> {
    fn batch_size(&self) -> usize {
        self.inner.batch_size()
    }

    async fn process(&self, batch: Batch<'_>) -> Vec<Outcome> {
        let is_stuck = |item: &Item| first_at(&item.key).is_multiple_of(EACH_ITEM);
        match self.bug {
            Some(WorkerBug::BatchHandedTwice) => _ = self.inner.process(batch).await,
            Some(WorkerBug::HandlerStuck) if batch.items.iter().any(is_stuck) => pending().await,
            Some(WorkerBug::HandlerPanics) => {
                assert!(!batch.items.iter().any(is_stuck), "planted");
            }
            _ => {}
        }
        let mut outcomes = self.inner.process(batch).await;
        match self.bug {
            Some(WorkerBug::SuccessWithoutResult) => {
                let results = outcomes.iter_mut().flatten();
                results.filter(|result| is_hit(result)).for_each(Vec::clear);
            }
            Some(WorkerBug::OutcomesReversed) => outcomes.reverse(),
            _ => {}
        }
        outcomes
    }

    fn committed(&self, assignment: &Assignment, key: &[u8]) {
        self.inner.committed(assignment, key);
    }
}
