//! Giving a shard back.

use std::pin::pin;

use futures_util::{FutureExt, select_biased};
use shardwright_contracts::OpId;
use shardwright_coordination::{AsyncCoordinationBackend as _, ReleaseError};

use super::Holder;
use super::lease_cell::LeaseCell;
use crate::event::WorkerEvent;

impl Holder<'_> {
    /// Gives the shard back, however often that takes.
    pub(super) async fn give_back(&self, cell: &LeaseCell) -> Result<(), ReleaseError> {
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
        self.tell(WorkerEvent::Released { shard });
        Ok(())
    }

    /// Gives a shard back with which this worker cannot go on, if that can be done while the lease
    /// lasts. It was not the shard's fault, and whoever merely lets its lease end would have it
    /// look as if the next item had killed a worker.
    pub(super) async fn give_up(&self, cell: &LeaseCell) {
        let env = &self.shared.env;
        let left = cell.usable_until().saturating_sub(env.monotonic());
        let mut too_late = pin!(env.sleep(left).fuse());
        let mut given = pin!(self.give_back(cell).fuse());
        select_biased! {
            // What stopped the work is told; this would add nothing to it.
            _in_vain = given => {}
            () = too_late => {}
        }
    }
}
