//! Claiming shards.

use futures_util::Stream;
use shardwright_contracts::{FenceEpoch, InfraError, ShardId};
use shardwright_engine::fault;
use shardwright_engine::transact::{Decided, Decision, Read, Settled, Transaction};
use shardwright_engine::{Operation, operation};
use shardwright_placement::ops::ClaimRefused;
use shardwright_store::{Commit, Revision};

use super::error::ShardClaimError;
use super::membership::NodeMembership;
use super::session::Serving;
use super::state::ClaimDraft;
use crate::keys::ClusterKey;

const CLAIM: Operation = operation!("cluster.claim");

impl NodeMembership {
    /// Claims shards independently of each other. Returns for each, in the given order, its fence
    /// or why it was not claimed.
    ///
    /// The commit compares this membership and, if another node or incarnation held the shard, the
    /// end of that one. A claim with an unknown outcome may appear in the view later: the node
    /// holds every shard that the view shows as its own.
    pub async fn claim(
        &self,
        shards: &[ShardId],
    ) -> Vec<(ShardId, Result<FenceEpoch, ShardClaimError>)> {
        let claimed = self.core.each(shards.to_vec(), |shard| self.claim_one(shard)).await;
        self.core.publish();
        shards.iter().copied().zip(claimed).collect()
    }

    /// Like [`Self::claim`], but yields each result as soon as it is known. A claim whose answer is
    /// lost does not delay the others.
    pub fn claiming(
        &self,
        shards: Vec<ShardId>,
    ) -> impl Stream<Item = Vec<(ShardId, Result<FenceEpoch, ShardClaimError>)>> + Send + use<>
    {
        let claim = |shard| {
            let node = self.clone();
            async move { (shard, node.claim_one(shard).await) }
        };
        self.core.as_they_come(shards.into_iter().map(claim).collect())
    }

    async fn claim_one(&self, shard: ShardId) -> Result<FenceEpoch, ShardClaimError> {
        if self.lease.serving() == Serving::Ended {
            return Err(ShardClaimError::Over);
        }
        let mut claiming = Claiming { node: self, shard, is_overtaken: false };
        self.core.driver.transact(&mut claiming).await?
    }

    /// Reloads the claim of a shard and the membership of its holder and of this node.
    async fn reload_shard(&self, shard: ShardId) -> Result<(), InfraError> {
        let holder = {
            let state = self.core.lock();
            let current = state.map().info(shard).ok().and_then(|info| info.current);
            current.map(|current| ClusterKey::Member(current.address.clone()))
        };
        let own = ClusterKey::Member(self.holder.address.clone());
        let keys = [Some(ClusterKey::Shard(shard)), Some(own), holder];
        self.core.reload(CLAIM, keys.into_iter().flatten()).await
    }
}

/// The claim of one shard.
struct Claiming<'n> {
    node: &'n NodeMembership,
    shard: ShardId,
    is_overtaken: bool,
}

impl Transaction for Claiming<'_> {
    type Basis = ();
    type Answer = Option<FenceEpoch>;
    type Output = Result<FenceEpoch, ShardClaimError>;
    type Error = ShardClaimError;

    fn operation(&self) -> Operation {
        CLAIM
    }

    fn first_read(&self) -> Read {
        Read::Cached
    }

    async fn load(&mut self, read: Read) -> Result<((), Read), InfraError> {
        if read == Read::Fresh {
            self.node.reload_shard(self.shard).await?;
        }
        Ok(((), read))
    }

    async fn decide(&mut self, (): &()) -> Decided<Option<FenceEpoch>, ShardClaimError> {
        if self.node.lease.serving() == Serving::Ended {
            return Ok(Decision::Refuse(ShardClaimError::Over));
        }
        let draft = self.node.core.lock().draft_claim(self.shard, &self.node.holder);
        Ok(match draft {
            Ok(ClaimDraft { commit, fence }) => Decision::Commit(commit, fence),
            // An attempt with an unknown outcome was stored, and the key was written again later.
            Err(ShardClaimError::Refused(ClaimRefused::AlreadyHeld(fence)))
                if self.is_overtaken =>
            {
                Decision::Answer(Some(fence))
            }
            Err(refusal) => Decision::Refuse(refusal),
        })
    }

    fn not_stored(&mut self, _: Option<FenceEpoch>, settled: &Settled) {
        self.is_overtaken |= matches!(settled, Settled::Overtaken(_));
    }

    fn finish(
        &mut self,
        (): (),
        fence: Option<FenceEpoch>,
        stored: Option<(&Commit, Revision)>,
    ) -> Result<FenceEpoch, ShardClaimError> {
        self.node.core.note_stored(stored);
        // In text, the revision is the fence.
        let by_revision = stored.map_or(0, |(_, revision)| revision.get());
        let by_revision = || FenceEpoch::from_raw(by_revision);
        let fence = fence.map_or_else(by_revision, Ok);
        fence.map_err(|error| fault::corrupt(CLAIM, error.to_string()).into())
    }
}
