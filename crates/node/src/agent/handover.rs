use std::sync::Arc;
use std::time::Duration;

use shardwright_contracts::{Env, FenceEpoch, ShardId};
use shardwright_coordination::InfraError;
use shardwright_engine::cluster::{Release, ReleaseError};
use shardwright_placement::ops::Releasing;
use shardwright_placement::{Effort, HandoverStep, Patience};
use shardwright_store::Store;

use super::LifeOf;
use super::shards::{Done, Leaving};
use crate::host::Slot;
use crate::notices::Trying;
use crate::object::Deactivation;
use crate::planted::{self, Defect};

/// How long to wait after a release that failed.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// How it has gone so far with one shard.
struct Attempts {
    began_at: Duration,
    /// When the shard began to admit calls, or ceased to.
    changed_at: Duration,
    tries: u32,
    patience: Patience,
}

impl Attempts {
    const fn new(now: Duration, patience: Patience) -> Self {
        Self { began_at: now, changed_at: now, tries: 0, patience }
    }

    fn effort(&self, now: Duration, leaving: Leaving) -> Effort {
        let since =
            |at: Duration| u64::try_from(now.saturating_sub(at).as_millis()).unwrap_or(u64::MAX);
        Effort {
            since_ms: since(self.began_at),
            as_it_is_ms: since(self.changed_at),
            tries: self.tries,
            leaves: leaving != Leaving::No,
            patience: self.patience,
        }
    }

    fn set_admitting(&mut self, slot: &Slot, admitting: bool, now: Duration) {
        slot.set_admitting(admitting);
        self.changed_at = now;
        self.tries = self.tries.saturating_add(admitting.into());
    }
}

impl<S: Store, E: Env> LifeOf<S, E> {
    /// Empties a shard step by step, for as long as the cluster says that it should go.
    pub(super) async fn empty(self, shard: ShardId) -> Done {
        let settled = Done::Settled(vec![shard]);
        let Ok(slot) = self.host.slot(shard) else { return settled };
        let (mut changes, mut leaving) = (self.agent.cluster.changes(), self.leaving.subscribe());
        let holder = self.membership.holder();
        let mut attempts = Attempts::new(self.env().monotonic(), self.agent.options.handover);
        loop {
            let mut bell = std::pin::pin!(slot.bell().notified());
            bell.as_mut().enable();
            let view = changes.borrow_and_update().clone();
            let how = *leaving.borrow_and_update();
            let at_once = how == Leaving::AtOnce;
            let Ok(info) = view.map.info(shard) else { return settled };
            let now = self.env().monotonic();
            let step = slot.handover().next_step(info, holder, at_once, attempts.effort(now, how));
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
                    self.evict(shard, slot, at_once).await;
                    continue;
                }
                HandoverStep::Release => return Done::Emptied(shard),
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

    /// Waits for so long, or for ever.
    async fn at_most(&self, ms: Option<u64>) {
        match ms {
            Some(ms) => self.env().sleep(Duration::from_millis(ms)).await,
            None => std::future::pending().await,
        }
    }

    /// Takes leave of the objects of a shard in which no call runs.
    async fn evict(&self, shard: ShardId, slot: &Arc<Slot>, at_once: bool) {
        if planted::is_active(Defect::ReleasedBeforeEvicted) {
            self.clone().release(vec![shard], at_once).await;
            self.env().sleep(AFTER_FAILURE).await;
            self.host.evict(slot, Deactivation::HandedOver).await;
            return;
        }
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
                self.agent.teller.tell(Trying::Keep, error);
                self.env().sleep(AFTER_FAILURE).await;
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
                // The cluster has changed since; what it says now is looked at next.
                (Err(ReleaseError::Refused(_)), _) | (Ok(()), Err(_)) => {}
                (Err(error), slot) => {
                    let is_unknown =
                        matches!(error, ReleaseError::Store(InfraError::Unknown { .. }));
                    if let (true, Ok(slot)) = (is_unknown, slot) {
                        slot.set_in_doubt(true);
                    }
                    self.agent.teller.tell(Trying::Release, error);
                    failed = true;
                }
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
        if planted::is_active(Defect::LossPanics) {
            std::panic::resume_unwind(Box::new("a shard was lost"));
        }
        slot.give_up();
        slot.idle().await;
        self.host.evict(slot, Deactivation::Lost).await;
    }
}
