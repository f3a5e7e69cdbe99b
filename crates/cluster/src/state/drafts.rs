//! Commits of operations, based on the known state.

use shardwright_contracts::{FenceEpoch, ShardId};
use shardwright_placement::{Claim, NodeAddress, NodeInstance, NodeInstanceRef, ShardInfo, ops};
use shardwright_store::{Commit, CommitBuilder, Expect, Revision};

use super::State;
use crate::error::{LeadError, ShardClaimError, ShardReleaseError};
use crate::format::Format;
use crate::keys::ClusterKey;
use crate::release::ShardRelease;

/// A claim to store.
pub(crate) struct ClaimDraft {
    pub(crate) commit: CommitBuilder,
    /// Its fence; none if the revision will be the fence.
    pub(crate) fence: Option<FenceEpoch>,
}

impl State {
    pub(crate) fn draft_claim(
        &self,
        shard: ShardId,
        claimer: &NodeInstance,
    ) -> Result<ClaimDraft, ShardClaimError> {
        let info = self.map.info(shard)?;
        if self.is_quarantined(shard) {
            return Err(ShardClaimError::Unreadable(shard));
        }
        let claim = ops::claim(info, claimer, &self.members, self.floor)?;
        let commit = self
            .expecting_members(info.current, claimer)
            .map_err(ShardClaimError::HolderUnreadable)?;
        let commit = self.writing(commit, info, &claim);
        let fence = (self.format == Format::Records).then_some(claim.fence);
        Ok(ClaimDraft { commit, fence })
    }

    pub(crate) fn draft_release(
        &self,
        release: &ShardRelease,
        holder: &NodeInstance,
    ) -> Result<CommitBuilder, ShardReleaseError> {
        let ShardRelease { shard, fence, objects, why } = *release;
        let info = self.map.info(shard)?;
        if self.is_unreadable(&ClusterKey::Shard(shard)) {
            return Err(ShardReleaseError::Unreadable(shard));
        }
        let fence = self.fence_now(info, holder, fence);
        let released = ops::release(info, holder, fence, objects, why)?;
        Ok(self.writing(Commit::builder(), info, &released))
    }

    pub(crate) fn draft_keep(
        &self,
        shard: ShardId,
        fence: FenceEpoch,
        holder: &NodeInstance,
    ) -> Result<CommitBuilder, ShardReleaseError> {
        let info = self.map.info(shard)?;
        if self.is_unreadable(&ClusterKey::Shard(shard)) {
            return Err(ShardReleaseError::Unreadable(shard));
        }
        let kept = ops::keep(info, holder, self.fence_now(info, holder, fence))?;
        Ok(self.writing(self.expecting_member(holder), info, &kept))
    }

    /// Makes a commit write the claim of a shard, if the claim is unchanged.
    pub(crate) fn writing(
        &self,
        commit: CommitBuilder,
        info: ShardInfo<'_>,
        claim: &Claim,
    ) -> CommitBuilder {
        let key = ClusterKey::Shard(info.shard);
        commit
            .expect(self.keys.key(&key), self.expect(&key))
            .put(self.keys.key(&key), self.format.claimed(info, claim))
    }

    /// The current fence of a claim. In the text format it rises with every write while the shard
    /// is held.
    fn fence_now(
        &self,
        info: ShardInfo<'_>,
        holder: &NodeInstance,
        fence: FenceEpoch,
    ) -> FenceEpoch {
        match (self.format, info.fence) {
            (Format::Text, Some(at)) if info.current == Some(holder.borrowed()) => fence.max(at),
            _ => fence,
        }
    }

    pub(crate) fn draft_lead(&self, candidate: &NodeInstance) -> Result<CommitBuilder, LeadError> {
        let leader = self.leader();
        let leader = leader.as_ref().map(NodeInstance::borrowed);
        let next = ops::lead(leader, candidate, &self.members)?;
        let commit =
            self.expecting_members(leader, candidate).map_err(LeadError::LeaderUnreadable)?;
        let key = self.keys.key(&ClusterKey::Leader);
        Ok(commit
            .expect(key.clone(), self.expect(&ClusterKey::Leader))
            .put(key, self.format.leader(&next)))
    }

    /// Expects that a node is still a member in this incarnation.
    fn expecting_member(&self, own: &NodeInstance) -> CommitBuilder {
        let key = self.keys.key(&ClusterKey::Member(own.address.clone()));
        Commit::builder().expect(key, Expect::At(Revision::new(own.incarnation.as_raw())))
    }

    /// Expects that `own` is still a member and that the membership key of `former` is unchanged.
    /// Returns the address of `former` if its record is unreadable.
    fn expecting_members(
        &self,
        former: Option<NodeInstanceRef<'_>>,
        own: &NodeInstance,
    ) -> Result<CommitBuilder, NodeAddress> {
        let commit = self.expecting_member(own);
        let Some(former) = former.filter(|former| *former.address != own.address) else {
            return Ok(commit);
        };
        let key = ClusterKey::Member(former.address.clone());
        if self.is_unreadable(&key) {
            return Err(former.address.clone());
        }
        Ok(commit.expect(self.keys.key(&key), self.expect(&key)))
    }
}
