use std::sync::Arc;
use std::time::Duration;

use shardwright_contracts::{Env, ShardId};
use shardwright_engine::cluster::{Release, ReleaseError};
use shardwright_placement::HandoverStep;
use shardwright_placement::ops::Releasing;
use shardwright_store::Store;

use super::LifeOf;
use super::shards::Done;
use crate::host::Slot;
use crate::object::Deactivation;
use crate::planted::{self, Defect};

/// How long to wait after a release that failed.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

impl<S: Store, E: Env> LifeOf<S, E> {
    /// Empties a shard step by step, for as long as the cluster says that it should go.
    pub(super) async fn empty(self, shard: ShardId, leaving: bool) -> Done {
        let settled = Done::Settled(vec![shard]);
        let Ok(slot) = self.host.slot(shard) else { return settled };
        let mut changes = self.agent.cluster.changes();
        let holder = self.membership.holder();
        loop {
            let mut bell = std::pin::pin!(slot.bell().notified());
            bell.as_mut().enable();
            let view = changes.borrow_and_update().clone();
            let Ok(info) = view.map.info(shard) else { return settled };
            match slot.handover().next_step(info, holder, leaving) {
                HandoverStep::Nothing => {
                    self.let_go(slot).await;
                    return settled;
                }
                HandoverStep::Serve => return settled,
                HandoverStep::AdmitAgain => slot.set_admitting(true),
                HandoverStep::StopAdmitting => slot.set_admitting(false),
                HandoverStep::AwaitCalls => tokio::select! {
                    biased;
                    () = bell => {}
                    _ = changes.changed() => {}
                },
                HandoverStep::Evict if planted::is_active(Defect::ReleasedBeforeEvicted) => {
                    self.clone().release(vec![shard], leaving).await;
                    self.env().sleep(AFTER_FAILURE).await;
                    self.host.evict(slot, Deactivation::HandedOver).await;
                }
                HandoverStep::Evict => {
                    let _lock = self.host.locks().acquire_write(shard).await;
                    self.host.evict(slot, Deactivation::HandedOver).await;
                }
                HandoverStep::Release => return Done::Emptied(shard),
            }
        }
    }

    /// Releases shards that are empty, under their locks. What the cluster says next tells what is
    /// to be done about those that could not be released.
    pub(super) async fn release(self, shards: Vec<ShardId>, leaving: bool) -> Done {
        let why = if leaving { Releasing::Leaving } else { Releasing::Moved };
        let locked = self.host.locks().acquire_write_multiple(shards.iter().copied()).await;
        let Ok(locks) = locked else { return Done::Settled(shards) };
        let view = self.agent.cluster.view();
        let release = |shard: &ShardId| {
            let fence = view.map.info(*shard).ok()?.fence?;
            let objects = self.host.slot(*shard).ok()?.handover().objects;
            let blind = planted::is_active(Defect::ReleasedBeforeEvicted);
            let objects = if blind { 0 } else { objects };
            Some(Release { shard: *shard, fence, objects, why })
        };
        let releases: Vec<_> = shards.iter().filter_map(release).collect();
        let mut failed = false;
        for (shard, released) in self.membership.release(&releases).await {
            match (released, self.host.slot(shard)) {
                (Ok(()), Ok(slot)) => slot.give_up(),
                (Err(ReleaseError::Store(_)), _) => failed = true,
                // The cluster has changed since; what it says now is looked at next.
                (Err(_), _) | (Ok(()), Err(_)) => {}
            }
        }
        drop(locks);
        if failed {
            self.env().sleep(AFTER_FAILURE).await;
        }
        Done::Settled(shards)
    }

    /// Lets go of a shard that is not the node's any more, whoever has taken it.
    async fn let_go(&self, slot: &Arc<Slot>) {
        slot.give_up();
        slot.idle().await;
        self.host.evict(slot, Deactivation::Lost).await;
    }
}
