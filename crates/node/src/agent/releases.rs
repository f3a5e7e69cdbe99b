use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt};
use shardwright_cluster::{Release, ReleaseError};
use shardwright_contracts::ShardId;
use shardwright_coordination::InfraError;
use shardwright_placement::ops::ReleaseReason;

use super::SessionAgent;
use super::attempts::Attempts;
use super::work::{Done, tell};
use crate::locks::by_shard;
use crate::notices::Activity;

/// How long to wait after a release that failed, where nothing else is to be done meanwhile.
pub(super) const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// What came of a release.
enum Released {
    /// It is released, or what the cluster says is looked at next.
    Settled,
    /// The store has refused it, and it surely is not done.
    Refused,
    /// It may have been done, or be done later.
    InDoubt,
}

impl SessionAgent {
    /// Releases shards that are empty, each under its lock. What became of one is told, and its
    /// lock given back, as soon as it is known.
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
                    match (self.let_others_have(shard, released), attempts) {
                        (Released::Settled, _) | (_, None) => at_once.push(Done::Settled(shard)),
                        // Who leaves at once does not serve on meanwhile.
                        (Released::Refused, Some(attempts)) => {
                            let told = if leaving { &mut later } else { &mut at_once };
                            told.push(Done::NotReleased(shard, attempts.refused()));
                        }
                        (Released::InDoubt, Some(attempts)) => {
                            later.push(Done::NotReleased(shard, attempts));
                        }
                    }
                    locks.remove(&shard);
                }
                tell(self.env(), at_once, AFTER_FAILURE, later)
            });
            stream::iter(others).chain(released).right_stream()
        };
        releasing.flatten_stream().boxed()
    }

    /// How a shard is released, if the node has it.
    fn draft(&self, shard: ShardId, leaving: bool) -> Option<(ShardId, Release)> {
        let view = self.agent.cluster.view();
        let fence = view.map.info(shard).ok()?.fence?;
        let objects = self.host.slot(shard).ok()?.handover().objects;
        let why = if leaving { ReleaseReason::Leaving } else { ReleaseReason::Moved };
        Some((shard, Release { shard, fence, objects, why }))
    }

    /// Takes note of what came of a release.
    fn let_others_have(&self, shard: ShardId, released: Result<(), ReleaseError>) -> Released {
        let Ok(slot) = self.host.slot(shard) else { return Released::Settled };
        let error = match released {
            Ok(()) => {
                slot.give_up();
                return Released::Settled;
            }
            // The cluster has changed since; what it says now is looked at next.
            Err(ReleaseError::Refused(_)) => return Released::Settled,
            Err(error) => error,
        };
        if matches!(error, ReleaseError::Store(InfraError::Unknown { .. })) {
            slot.set_in_doubt(true);
        }
        self.agent.notice_log.record(Activity::Release, error);
        // One that was refused says nothing of one before it.
        if slot.handover().in_doubt { Released::InDoubt } else { Released::Refused }
    }
}
