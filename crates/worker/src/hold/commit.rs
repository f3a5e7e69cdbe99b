//! Moving a shard's cursor, and ending.

use shardwright_contracts::{CursorSemantics, CursorUpdate, OpId};
use shardwright_coordination::{AsyncCoordinationBackend as _, CheckpointError, CompleteError};

use super::work::Work;
use super::{End, Stopped, stopped_by};
use crate::error::WorkerError;
use crate::event::WorkerEvent;

impl Work<'_> {
    /// A new operation id, to be kept for as long as one operation is repeated.
    pub(super) fn new_op(&self) -> OpId {
        OpId::from_raw(self.holder.shared.env.random())
    }

    /// Where the cursor may stand.
    fn cursor_key(&self) -> Option<&[u8]> {
        match self.semantics {
            CursorSemantics::Completed => self.ledger.done(),
            CursorSemantics::Dispatched => self.handed_out.as_deref(),
        }
    }

    /// Whether there is something to commit.
    pub(super) fn is_ahead(&self) -> bool {
        // Where the cursor moves before the work, results come later.
        self.cursor_key() != self.ledger.committed() || self.ledger.has_uncommitted()
    }

    /// Moves the cursor over what is done.
    pub(super) async fn commit(&mut self) -> Result<(), Stopped> {
        let shared = self.holder.shared;
        let Some(key) = self.cursor_key().map(<[u8]>::to_vec) else { return Ok(()) };
        let start = shared.env.monotonic();
        let token = self.ledger.seal(self.feed.token_at(&key)).await.map_err(WorkerError::from)?;
        let (cursor, op) = (CursorUpdate::new(Some(&key), Some(&token)), self.new_op());
        let mut failures = 0;
        let notice = loop {
            let lease = self.lease.lease();
            match shared.backend.checkpoint(shared.tenant, &lease, cursor, op).await {
                Ok(outcome) => {
                    self.holder.note_replay(self.shard(), &outcome);
                    break outcome.into_inner();
                }
                Err(CheckpointError::BackendError(error)) if error.is_retryable() => {
                    self.holder.pause_after(&mut failures, &error).await;
                }
                Err(refusal) => return Err(stopped_by(self.shard(), refusal)),
            }
        };
        self.lease.notice(notice);
        let now = shared.env.monotonic();
        self.ledger.note_committed(&key, now, now.saturating_sub(start));
        self.note_committed();
        shared.handler.committed(self.assignment, &key);
        let (envelope, shard) = (self.ledger.envelope(), self.shard());
        let (items, bytes) = (envelope.items, envelope.bytes);
        self.holder.tell(WorkerEvent::Committed { shard, key: &key, items, bytes });
        Ok(())
    }

    /// Ends the shard: everything in it is done.
    pub(super) async fn complete(mut self) -> Result<End, Stopped> {
        let shared = self.holder.shared;
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
                    self.holder.note_replay(self.shard(), &outcome);
                    break;
                }
                Err(CompleteError::BackendError(error)) if error.is_retryable() => {
                    self.holder.pause_after(&mut failures, &error).await;
                }
                Err(refusal) => return Err(stopped_by(self.shard(), refusal)),
            }
        }
        if let Some(key) = &key {
            shared.handler.committed(self.assignment, key);
        }
        self.holder.tell(WorkerEvent::Completed { shard: self.shard() });
        Ok(End::Completed)
    }

    /// Commits what is done and gives the shard back.
    pub(super) async fn release(mut self) -> Result<End, Stopped> {
        if self.is_ahead() {
            self.commit().await?;
        }
        let released = self.holder.give_back(self.lease).await;
        released.map_err(|refusal| stopped_by(self.shard(), refusal))?;
        self.unable.map_or(Ok(End::Released), |unable| Err(unable.into()))
    }
}
