//! Moving a shard's cursor, completing a shard, and releasing it.

use std::pin::pin;

use futures_util::{FutureExt, select_biased};
use shardwright_contracts::{CursorSemantics, CursorUpdate, OpId};
use shardwright_coordination::{
    AsyncCoordinationBackend as _, CheckpointError, CompleteError, ReleaseError,
};

use super::lease_cell::LeaseCell;
use super::work::Work;
use super::{Finish, Holder, Stopped, stopped_by};
use crate::error::WorkerError;
use crate::event::WorkerEvent;

impl Work<'_> {
    /// A new op id, kept while one operation is retried.
    pub(super) fn new_op(&self) -> OpId {
        OpId::from_raw(self.desk.holder.shared.env.random())
    }

    /// The key to which the cursor may move.
    fn cursor_key(&self) -> Option<&[u8]> {
        match self.desk.semantics {
            CursorSemantics::Completed => self.ledger.done(),
            CursorSemantics::Dispatched => self.desk.backlog.handed_out.as_deref(),
        }
    }

    /// Whether there is something to commit.
    pub(super) fn is_ahead(&self) -> bool {
        // A cursor that moves at dispatch is ahead of the results.
        self.cursor_key() != self.ledger.committed() || self.ledger.has_uncommitted()
    }

    /// Moves the cursor over completed items.
    pub(super) async fn commit(&mut self) -> Result<(), Stopped> {
        let shared = self.desk.holder.shared;
        let Some(key) = self.cursor_key().map(<[u8]>::to_vec) else { return Ok(()) };
        let start = shared.env.monotonic();
        let token = self
            .ledger
            .seal(self.desk.backlog.feed.token_at(&key))
            .await
            .map_err(WorkerError::from)?;
        let (cursor, op) = (CursorUpdate::new(Some(&key), Some(&token)), self.new_op());
        let mut failures = 0;
        let notice = loop {
            let lease = self.lease.lease();
            match shared.backend.checkpoint(shared.tenant, &lease, cursor, op).await {
                Ok(outcome) => {
                    self.desk.holder.note_replay(self.shard(), &outcome);
                    break outcome.into_inner();
                }
                Err(CheckpointError::BackendError(error)) if error.is_retryable() => {
                    self.desk.holder.pause_after(&mut failures, &error).await;
                }
                Err(refusal) => return Err(stopped_by(self.shard(), refusal)),
            }
        };
        self.lease.notice(notice);
        let now = shared.env.monotonic();
        self.ledger.note_committed(&key, now, now.saturating_sub(start));
        self.desk.note_committed();
        shared.handler.committed(&self.desk.assignment, &key);
        let (envelope, shard) = (self.ledger.envelope(), self.shard());
        let (items, bytes) = (envelope.items, envelope.bytes);
        self.desk.holder.report(WorkerEvent::Committed { shard, key: &key, items, bytes });
        Ok(())
    }

    /// Completes the shard.
    pub(super) async fn complete(mut self) -> Result<Finish, Stopped> {
        let shared = self.desk.holder.shared;
        let key = self.ledger.done().map(<[u8]>::to_vec);
        let token = match &key {
            Some(_) => Some(self.ledger.seal(&[]).await.map_err(WorkerError::from)?),
            None => None,
        };
        let (cursor, op) = (CursorUpdate::new(key.as_deref(), token.as_deref()), self.new_op());
        let mut failures = 0;
        self.lease.begin_to_end();
        loop {
            let lease = self.lease.lease();
            match shared.backend.complete(shared.tenant, &lease, cursor, op).await {
                Ok(outcome) => {
                    self.desk.holder.note_replay(self.shard(), &outcome);
                    break;
                }
                Err(CompleteError::BackendError(error)) if error.is_retryable() => {
                    self.desk.holder.pause_after(&mut failures, &error).await;
                }
                Err(refusal) => return Err(stopped_by(self.shard(), refusal)),
            }
        }
        if let Some(key) = &key {
            shared.handler.committed(&self.desk.assignment, key);
        }
        self.desk.holder.report(WorkerEvent::Completed { shard: self.shard() });
        Ok(Finish::Ended(None))
    }

    /// Commits what is done and releases the shard.
    pub(super) async fn release(mut self) -> Result<Finish, Stopped> {
        if self.is_ahead() {
            self.commit().await?;
        }
        let released = self.desk.holder.release(self.lease).await;
        released.map_err(|refusal| stopped_by(self.shard(), refusal))?;
        self.desk.unable.map_or(Ok(Finish::Ended(None)), |unable| Err(unable.into()))
    }
}

impl Holder<'_> {
    /// Releases the shard, and retries until the store answers.
    pub(super) async fn release(&self, cell: &LeaseCell) -> Result<(), ReleaseError> {
        let shared = self.shared;
        let op = OpId::from_raw(shared.env.random());
        let (shard, mut failures) = (cell.lease().key().shard, 0);
        cell.begin_to_end();
        loop {
            let lease = cell.lease();
            match shared.backend.release(shared.tenant, &lease, op).await {
                Ok(outcome) => {
                    self.note_replay(shard, &outcome);
                    break;
                }
                Err(ReleaseError::BackendError(error)) if error.is_retryable() => {
                    self.pause_after(&mut failures, &error).await;
                }
                Err(refusal) => return Err(refusal),
            }
        }
        self.report(WorkerEvent::Released { shard });
        Ok(())
    }

    /// Releases a shard that the worker does not process, as far as that succeeds while the lease
    /// is valid. A lease that expires would look as if the next item had killed the worker.
    pub(super) async fn abandon(&self, cell: &LeaseCell) {
        let env = &self.shared.env;
        let left = cell.usable_until().saturating_sub(env.monotonic());
        let mut expired = pin!(env.sleep(left).fuse());
        let mut released = pin!(self.release(cell).fuse());
        select_biased! {
            // The caller reports what stopped the work; this result adds nothing.
            _result = released => {}
            () = expired => {}
        }
    }
}
