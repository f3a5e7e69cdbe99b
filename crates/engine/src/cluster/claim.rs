//! Claiming shards.

use futures_util::Stream;
use shardwright_contracts::{FenceEpoch, ShardId};
use shardwright_placement::ops::ClaimRefused;

use super::attempt::Tried;
use super::error::ClaimError;
use super::membership::NodeMembership;
use super::session::Serving;
use crate::fault;
use crate::keyspace::ClusterKey;
use crate::operate::back_off;

const CLAIM: &str = "cluster.claim";

impl NodeMembership {
    /// Claims shards, each for itself, and tells for each the fence or why it was not claimed, in
    /// the order in which they were asked for.
    ///
    /// A claim needs this membership and, where another node or life had the shard, the end of
    /// that one's. A claim whose outcome stays unknown may show in the view later: whatever the
    /// view says that this node holds, it holds.
    pub async fn claim(
        &self,
        shards: &[ShardId],
    ) -> Vec<(ShardId, Result<FenceEpoch, ClaimError>)> {
        let claimed = self.core.each(shards.to_vec(), |shard| self.claim_one(shard)).await;
        self.core.publish();
        shards.iter().copied().zip(claimed).collect()
    }

    /// The same, and tells of each as soon as it is known: one whose answer got lost holds up no
    /// other.
    pub fn claiming(
        &self,
        shards: Vec<ShardId>,
    ) -> impl Stream<Item = Vec<(ShardId, Result<FenceEpoch, ClaimError>)>> + Send + use<> {
        let claim = |shard| {
            let node = self.clone();
            async move { (shard, node.claim_one(shard).await) }
        };
        self.core.as_they_come(shards.into_iter().map(claim).collect())
    }

    async fn claim_one(&self, shard: ShardId) -> Result<FenceEpoch, ClaimError> {
        let (mut is_fresh, mut is_overtaken) = (false, false);
        for tries in 0..=self.core.options.conflict_retries {
            back_off(&self.core.env, tries).await;
            if self.lease.serving() == Serving::Ended {
                return Err(ClaimError::Over);
            }
            let draft = self.core.lock().draft_claim(shard, &self.holder);
            let draft = match draft {
                Ok(draft) => draft,
                // What is known may be out of date: decide again on what is stored.
                Err(_) if !is_fresh => {
                    self.reload_shard(shard).await?;
                    is_fresh = true;
                    continue;
                }
                // An attempt whose outcome was not known has been stored, and others came after.
                Err(ClaimError::Refused(ClaimRefused::AlreadyHeld(fence))) if is_overtaken => {
                    return Ok(fence);
                }
                Err(error) => return Err(error),
            };
            match self.core.commit(CLAIM, draft.commit).await? {
                Tried::Stored(revision) => {
                    let by_revision = || FenceEpoch::from_raw(revision.get());
                    return match draft.fence {
                        Some(fence) => Ok(fence),
                        None => by_revision()
                            .map_err(|error| fault::corrupt(CLAIM, error.to_string()).into()),
                    };
                }
                tried @ (Tried::Conflict | Tried::Overtaken | Tried::SessionGone) => {
                    is_overtaken |= tried == Tried::Overtaken;
                    self.reload_shard(shard).await?;
                    is_fresh = true;
                }
            }
        }
        Err(fault::contention(CLAIM).into())
    }

    /// Reads anew who has a shard, and whether that one and this node are members.
    async fn reload_shard(&self, shard: ShardId) -> Result<(), ClaimError> {
        let holder = {
            let state = self.core.lock();
            let current = state.map().info(shard)?.current;
            current.map(|current| ClusterKey::Member(current.address.clone()))
        };
        let own = ClusterKey::Member(self.holder.address.clone());
        let keys = [Some(ClusterKey::Shard(shard)), Some(own), holder];
        Ok(self.core.reload(CLAIM, keys.into_iter().flatten()).await?)
    }
}
