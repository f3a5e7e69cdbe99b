use std::sync::Arc;
use std::time::Duration;

use shardwright_contracts::{Env, FenceEpoch, ShardId};
use shardwright_engine::cluster::Release;
use shardwright_placement::HandoverStep;
use shardwright_placement::ops::Releasing;
use shardwright_store::Store;

use super::LifeOf;
use crate::host::Slot;
use crate::object::Deactivation;
use crate::planted::{self, Defect};

/// How long to wait after a release that failed.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

impl<S: Store, E: Env> LifeOf<S, E> {
    /// Hands a shard over, step by step, for as long as the cluster says that it should go.
    pub(super) async fn hand_over(self, shard: ShardId, leaving: bool) -> Vec<ShardId> {
        let Ok(slot) = self.host.slot(shard) else { return vec![shard] };
        let mut changes = self.agent.cluster.changes();
        let holder = self.membership.holder();
        loop {
            let mut bell = std::pin::pin!(slot.bell().notified());
            bell.as_mut().enable();
            let view = changes.borrow_and_update().clone();
            let Ok(info) = view.map.info(shard) else { return vec![shard] };
            match slot.handover().next_step(info, holder, leaving) {
                HandoverStep::Nothing => {
                    self.let_go(slot).await;
                    return vec![shard];
                }
                HandoverStep::Serve => return vec![shard],
                HandoverStep::AdmitAgain => slot.set_admitting(true),
                HandoverStep::StopAdmitting => slot.set_admitting(false),
                HandoverStep::AwaitCalls => tokio::select! {
                    biased;
                    () = bell => {}
                    _ = changes.changed() => {}
                },
                HandoverStep::Evict if planted::is_active(Defect::ReleasedBeforeEvicted) => {
                    let Some(fence) = info.fence else { return vec![shard] };
                    self.release(shard, fence, slot, leaving).await;
                    self.env().sleep(AFTER_FAILURE).await;
                    self.host.evict(slot, Deactivation::HandedOver).await;
                }
                HandoverStep::Evict => {
                    let _lock = self.host.locks().acquire_write(shard).await;
                    self.host.evict(slot, Deactivation::HandedOver).await;
                }
                HandoverStep::Release => {
                    let Some(fence) = info.fence else { return vec![shard] };
                    self.release(shard, fence, slot, leaving).await;
                }
            }
        }
    }

    /// Releases a shard that is empty.
    async fn release(&self, shard: ShardId, fence: FenceEpoch, slot: &Arc<Slot>, leaving: bool) {
        let _lock = self.host.locks().acquire_write(shard).await;
        let why = if leaving { Releasing::Leaving } else { Releasing::Moved };
        let objects = match slot.handover().objects {
            _ if planted::is_active(Defect::ReleasedBeforeEvicted) => 0,
            objects => objects,
        };
        let release = Release { shard, fence, objects, why };
        let released = self.membership.release(&[release]).await;
        if released.into_iter().all(|(_, result)| result.is_ok()) {
            slot.give_up();
        } else {
            // What the cluster says next tells whether it was released after all.
            self.env().sleep(AFTER_FAILURE).await;
        }
    }

    /// Lets go of a shard that is not the node's any more, whoever has taken it.
    async fn let_go(&self, slot: &Arc<Slot>) {
        if slot.held().is_some() {
            slot.set_admitting(false);
            slot.give_up();
        }
        slot.idle().await;
        self.host.evict(slot, Deactivation::Lost).await;
    }
}
