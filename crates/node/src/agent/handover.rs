use std::sync::Arc;
use std::time::Duration;

use shardwright_cluster::ShardReleaseError;
use shardwright_contracts::{Env, FenceEpoch, ShardId};
use shardwright_placement::{HandoverAttempts, HandoverStep, HandoverTimeouts};

use super::SessionAgent;
use super::claims::AFTER_FAILED_RELEASE;
use super::leaving::Leaving;
use super::work::Done;
use crate::host::Slot;
use crate::notices::Activity;
use crate::object::Deactivation;

/// The attempts so far to hand over one shard.
#[derive(Clone, Copy)]
pub(super) struct Attempts {
    began_at: Duration,
    /// When the shard last started or stopped admitting calls.
    changed_at: Duration,
    tries: u32,
    refusals: u32,
    /// Whether the store has refused the release since the shard stopped admitting calls.
    is_refused: bool,
    timeouts: HandoverTimeouts,
}

impl Attempts {
    pub(super) const fn new(now: Duration, timeouts: HandoverTimeouts) -> Self {
        let (tries, refusals, is_refused) = (0, 0, false);
        Self { began_at: now, changed_at: now, tries, refusals, is_refused, timeouts }
    }

    pub(super) fn as_of(&self, now: Duration, leaving: Leaving) -> HandoverAttempts {
        let since =
            |at: Duration| u64::try_from(now.saturating_sub(at).as_millis()).unwrap_or(u64::MAX);
        HandoverAttempts {
            since_ms: since(self.began_at),
            as_it_is_ms: since(self.changed_at),
            tries: self.tries,
            refusals: self.refusals,
            is_refused: self.is_refused,
            leaves: leaving != Leaving::No,
            timeouts: self.timeouts,
        }
    }

    pub(super) fn set_admitting(&mut self, slot: &Slot, admitting: bool, now: Duration) {
        slot.set_admitting(admitting);
        self.changed_at = now;
        self.tries = self.tries.saturating_add(admitting.into());
        self.is_refused = false;
    }

    /// The same after the store has refused the release.
    pub(super) const fn refused(self) -> Self {
        Self { refusals: self.refusals.saturating_add(1), is_refused: true, ..self }
    }
}

impl SessionAgent {
    /// Empties a shard step by step, while the cluster's state moves it away.
    ///
    /// `attempts` are the earlier attempts, if any.
    pub(super) async fn empty(self, shard: ShardId, attempts: Option<Attempts>) -> Done {
        let settled = Done::Settled(shard);
        let Ok(slot) = self.host.slot(shard) else { return settled };
        let (mut changes, mut leaving) = (self.agent.cluster.changes(), self.leaving.subscribe());
        let holder = self.membership.holder();
        let mut attempts = attempts.unwrap_or_else(|| self.first_attempt());
        loop {
            let mut changed = std::pin::pin!(slot.changed().notified());
            changed.as_mut().enable();
            let view = changes.borrow_and_update().clone();
            let how = *leaving.borrow_and_update();
            let at_once = how.is_at_once();
            let Ok(info) = view.map.info(shard) else { return settled };
            let now = self.env().monotonic();
            let step = slot.handover().next_step(info, holder, at_once, attempts.as_of(now, how));
            let at_most_ms = match step {
                HandoverStep::Nothing => {
                    self.drop_shard(slot).await;
                    return settled;
                }
                HandoverStep::Serve => return settled,
                HandoverStep::Keep => {
                    // Only a held shard is kept, and it has a fence.
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
                () = changed => {}
                _ = changes.changed() => {}
                _ = leaving.changed() => {}
                () = self.at_most(at_most_ms) => {}
            }
        }
    }

    fn first_attempt(&self) -> Attempts {
        Attempts::new(self.env().monotonic(), self.agent.options.handover)
    }

    /// Waits for this time, or for ever.
    async fn at_most(&self, ms: Option<u64>) {
        match ms {
            Some(ms) => self.env().sleep(Duration::from_millis(ms)).await,
            None => std::future::pending().await,
        }
    }

    /// Deactivates the objects of a shard without running calls.
    async fn evict(&self, shard: ShardId, slot: &Arc<Slot>) {
        let _lock = self.host.locks().acquire_write(shard).await;
        let dropped = self.host.evict(slot, Deactivation::HandedOver).await;
        self.report_dropped(dropped, format_args!("shard {shard}"));
    }

    /// Cancels a release with unknown outcome.
    async fn keep(&self, shard: ShardId, fence: FenceEpoch, slot: &Slot) {
        match self.membership.keep(shard, fence).await {
            Ok(()) => slot.set_in_doubt(false),
            // The release was applied. The next round uses the cluster's new state.
            Err(ShardReleaseError::Refused(_)) => {}
            Err(error) => {
                self.agent.notice_log.record(Activity::Keep, error);
                self.env().sleep(AFTER_FAILED_RELEASE).await;
            }
        }
    }

    /// Drops a shard that the node has lost.
    async fn drop_shard(&self, slot: &Arc<Slot>) {
        slot.drop_claim();
        slot.idle().await;
        self.host.evict(slot, Deactivation::Lost).await;
    }
}
