use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt};
use shardwright_cluster::{ShardClaimError, ShardRelease, ShardReleaseError};
use shardwright_contracts::{FenceEpoch, InfraError, ShardId};
use shardwright_placement::ops::ReleaseReason;

use super::handover::Attempts;
use super::work::{Done, deliver};
use super::{AFTER_FAILURE, SessionAgent};
use crate::locks::by_shard;
use crate::notices::Activity;

impl SessionAgent {
    /// Claims shards, each under its lock, so that a call that arrives before the result waits
    /// instead of being refused. Each result is delivered, and its lock released, as soon as it is
    /// known.
    pub(super) fn claim(self, shards: Vec<ShardId>) -> BoxStream<'static, Done> {
        let claiming = async move {
            let locked = self.host.locks().acquire_write_multiple(shards.iter().copied()).await;
            let Ok(locks) = locked else {
                return stream::iter(shards.into_iter().map(Done::Settled)).left_stream();
            };
            let mut locks = by_shard(locks);
            let claimed = self.membership.claiming(shards).flat_map_unordered(None, move |some| {
                let (mut settled, mut failed) = (Vec::new(), Vec::new());
                for (shard, claimed) in some {
                    let list = if self.take(shard, claimed) { &mut settled } else { &mut failed };
                    list.push(Done::Settled(shard));
                    locks.remove(&shard);
                }
                deliver(self.env(), settled, AFTER_FAILURE, failed)
            });
            claimed.right_stream()
        };
        claiming.flatten_stream().boxed()
    }

    /// Records the result of a claim. Returns false if the claim failed and has to be retried.
    fn take(&self, shard: ShardId, claimed: Result<FenceEpoch, ShardClaimError>) -> bool {
        match (claimed, self.host.slot(shard)) {
            (Ok(fence), Ok(slot)) => slot.take(Some(fence)),
            // The cluster has changed. The next round uses its new state.
            (Err(ShardClaimError::Refused(_) | ShardClaimError::Over), _) | (Ok(_), Err(_)) => {}
            (Err(error), _) => {
                self.agent.notice_log.record(Activity::Claim, error);
                return false;
            }
        }
        true
    }
}

/// The pause after a failed release.
pub(super) const AFTER_FAILED_RELEASE: Duration = Duration::from_millis(100);

/// The outcome of a release.
enum Released {
    /// It is released, or the next round uses the cluster's new state.
    Settled,
    /// The store has refused it, and it surely is not applied.
    Refused,
    /// It may have been applied, or may still be.
    InDoubt,
}

impl SessionAgent {
    /// Releases empty shards, each under its lock. Each result is delivered, and its lock released,
    /// as soon as it is known.
    pub(super) fn release(
        self,
        emptied: Vec<(ShardId, Attempts)>,
        leaving: bool,
    ) -> BoxStream<'static, Done> {
        let mut attempts: BTreeMap<ShardId, Attempts> = emptied.into_iter().collect();
        let releasing = async move {
            let settled = |shard: &ShardId| Done::Settled(*shard);
            let locked = self.host.locks().acquire_write_multiple(attempts.keys().copied()).await;
            let Ok(locks) = locked else {
                let all: Vec<_> = attempts.keys().map(settled).collect();
                return stream::iter(all).left_stream();
            };
            let mut locks = by_shard(locks);
            let releases: BTreeMap<_, _> =
                attempts.keys().filter_map(|shard| self.draft(*shard, leaving)).collect();
            let others = attempts.keys().filter(|shard| !releases.contains_key(shard));
            let others: Vec<_> = others.map(settled).collect();
            locks.retain(|shard, _| releases.contains_key(shard));
            let released = self.membership.releasing(releases.into_values().collect());
            let released = released.flat_map_unordered(None, move |some| {
                let (mut at_once, mut later) = (Vec::new(), Vec::new());
                for (shard, released) in some {
                    let attempts = attempts.remove(&shard);
                    match (self.note_release(shard, released), attempts) {
                        (Released::Settled, _) | (_, None) => at_once.push(Done::Settled(shard)),
                        // A node that leaves at once does not serve meanwhile.
                        (Released::Refused, Some(attempts)) => {
                            let list = if leaving { &mut later } else { &mut at_once };
                            list.push(Done::NotReleased(shard, attempts.refused()));
                        }
                        (Released::InDoubt, Some(attempts)) => {
                            later.push(Done::NotReleased(shard, attempts));
                        }
                    }
                    locks.remove(&shard);
                }
                deliver(self.env(), at_once, AFTER_FAILED_RELEASE, later)
            });
            stream::iter(others).chain(released).right_stream()
        };
        releasing.flatten_stream().boxed()
    }

    /// The release of a shard, if the node holds it.
    fn draft(&self, shard: ShardId, leaving: bool) -> Option<(ShardId, ShardRelease)> {
        let view = self.agent.cluster.view();
        let fence = view.map.info(shard).ok()?.fence?;
        let objects = self.host.slot(shard).ok()?.handover().objects;
        let why = if leaving { ReleaseReason::Leaving } else { ReleaseReason::Moved };
        Some((shard, ShardRelease { shard, fence, objects, why }))
    }

    /// Records the result of a release.
    fn note_release(&self, shard: ShardId, released: Result<(), ShardReleaseError>) -> Released {
        let Ok(slot) = self.host.slot(shard) else { return Released::Settled };
        let error = match released {
            Ok(()) => {
                slot.drop_claim();
                return Released::Settled;
            }
            // The cluster has changed. The next round uses its new state.
            Err(ShardReleaseError::Refused(_)) => return Released::Settled,
            Err(error) => error,
        };
        if matches!(error, ShardReleaseError::Store(InfraError::Unknown { .. })) {
            slot.set_in_doubt(true);
        }
        self.agent.notice_log.record(Activity::Release, error);
        // A refused release does not settle an earlier one.
        if slot.handover().in_doubt { Released::InDoubt } else { Released::Refused }
    }
}
