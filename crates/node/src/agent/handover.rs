use std::sync::Arc;
use std::time::Duration;

use shardwright_cluster::ReleaseError;
use shardwright_contracts::{Env, FenceEpoch, ShardId};
use shardwright_placement::HandoverStep;

use super::SessionAgent;
use super::attempts::Attempts;
use super::releases::AFTER_FAILURE;
use super::work::Done;
use crate::host::Slot;
use crate::notices::Activity;
use crate::object::Deactivation;

impl SessionAgent {
    /// Empties a shard step by step, for as long as the cluster says that it should go.
    ///
    /// `attempts` tells how that has gone so far, if it did not just begin.
    pub(super) async fn empty(self, shard: ShardId, attempts: Option<Attempts>) -> Done {
        let settled = Done::Settled(shard);
        let Ok(slot) = self.host.slot(shard) else { return settled };
        let (mut changes, mut leaving) = (self.agent.cluster.changes(), self.leaving.subscribe());
        let holder = self.membership.holder();
        let mut attempts = attempts.unwrap_or_else(|| self.first_attempt());
        loop {
            let mut bell = std::pin::pin!(slot.bell().notified());
            bell.as_mut().enable();
            let view = changes.borrow_and_update().clone();
            let how = *leaving.borrow_and_update();
            let at_once = how.is_at_once();
            let Ok(info) = view.map.info(shard) else { return settled };
            let now = self.env().monotonic();
            let step = slot.handover().next_step(info, holder, at_once, attempts.as_of(now, how));
            let at_most_ms = match step {
                HandoverStep::Nothing => {
                    self.let_go(slot).await;
                    return settled;
                }
                HandoverStep::Serve => return settled,
                HandoverStep::Keep => {
                    // Only what is held is kept, and that has a fence.
                    let Some(fence) = info.fence else { return settled };
                    self.keep(shard, fence, slot).await;
                    continue;
                }
                HandoverStep::AdmitAgain => {
                    attempts.set_admitting(slot, true, now);
                    continue;
                }
                HandoverStep::StopAdmitting => {
                    attempts.set_admitting(slot, false, now);
                    continue;
                }
                HandoverStep::ServeOn { at_most_ms } => Some(at_most_ms),
                HandoverStep::AwaitCalls { at_most_ms } => at_most_ms,
                HandoverStep::Evict => {
                    self.evict(shard, slot).await;
                    continue;
                }
                HandoverStep::Release => return Done::Emptied(shard, attempts),
            };
            tokio::select! {
                biased;
                () = bell => {}
                _ = changes.changed() => {}
                _ = leaving.changed() => {}
                () = self.at_most(at_most_ms) => {}
            }
        }
    }

    fn first_attempt(&self) -> Attempts {
        Attempts::new(self.env().monotonic(), self.agent.options.handover)
    }

    /// Waits for so long, or for ever.
    async fn at_most(&self, ms: Option<u64>) {
        match ms {
            Some(ms) => self.env().sleep(Duration::from_millis(ms)).await,
            None => std::future::pending().await,
        }
    }

    /// Takes leave of the objects of a shard in which no call runs.
    async fn evict(&self, shard: ShardId, slot: &Arc<Slot>) {
        let _lock = self.host.locks().acquire_write(shard).await;
        let dropped = self.host.evict(slot, Deactivation::HandedOver).await;
        self.tell_dropped(dropped, format_args!("shard {shard}"));
    }

    /// Makes sure that a release that is on its way comes too late.
    async fn keep(&self, shard: ShardId, fence: FenceEpoch, slot: &Slot) {
        match self.membership.keep(shard, fence).await {
            Ok(()) => slot.set_in_doubt(false),
            // It has come. What the cluster says now is looked at next.
            Err(ReleaseError::Refused(_)) => {}
            Err(error) => {
                self.agent.notice_log.record(Activity::Keep, error);
                self.env().sleep(AFTER_FAILURE).await;
            }
        }
    }

    /// Lets go of a shard that is not the node's any more, whoever has taken it.
    async fn let_go(&self, slot: &Arc<Slot>) {
        slot.give_up();
        slot.idle().await;
        self.host.evict(slot, Deactivation::Lost).await;
    }
}
