//! Releasing shards.

use futures_util::Stream;
use shardwright_contracts::{FenceEpoch, InfraError, ShardId};
use shardwright_engine::transact::{Decided, Decision, Read, Settled, Transaction};
use shardwright_engine::{Operation, operation};
use shardwright_placement::ops::{ReleaseReason, ReleaseRefused};
use shardwright_store::{Commit, Revision};

use super::error::ShardReleaseError;
use super::membership::NodeMembership;
use crate::keys::ClusterKey;

const RELEASE: Operation = operation!("cluster.release");
const KEEP: Operation = operation!("cluster.keep");

/// A shard to release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardRelease {
    /// The shard.
    pub shard: ShardId,
    /// Fence of its claim.
    pub fence: FenceEpoch,
    /// Number of its objects that are still on the node. The release is refused unless it is 0.
    pub objects: u64,
    /// The reason.
    pub why: ReleaseReason,
}

impl NodeMembership {
    /// Releases shards independently of each other. Returns for each, in the given order, whether
    /// it is released.
    pub async fn release(
        &self,
        shards: &[ShardRelease],
    ) -> Vec<(ShardId, Result<(), ShardReleaseError>)> {
        let released = self.core.each(shards.to_vec(), |release| self.release_one(release)).await;
        self.core.publish();
        shards.iter().map(|release| release.shard).zip(released).collect()
    }

    /// Like [`Self::release`], but yields each result as soon as it is known. A release whose
    /// answer is lost does not delay the others.
    pub fn releasing(
        &self,
        shards: Vec<ShardRelease>,
    ) -> impl Stream<Item = Vec<(ShardId, Result<(), ShardReleaseError>)>> + Send + use<> {
        let release = |release: ShardRelease| {
            let node = self.clone();
            async move { (release.shard, node.release_one(release).await) }
        };
        self.core.as_they_come(shards.into_iter().map(release).collect())
    }

    /// Writes the claim of a shard again. Afterwards no release with an unknown outcome can be
    /// applied.
    pub async fn keep(&self, shard: ShardId, fence: FenceEpoch) -> Result<(), ShardReleaseError> {
        let kept = self.change_claim(ClaimChange::Keep(shard, fence)).await;
        self.core.publish();
        kept
    }

    async fn release_one(&self, release: ShardRelease) -> Result<(), ShardReleaseError> {
        self.change_claim(ClaimChange::Release(release)).await
    }

    async fn change_claim(&self, change: ClaimChange) -> Result<(), ShardReleaseError> {
        let mut changing = Changing { node: self, change, is_overtaken: false };
        self.core.driver.transact(&mut changing).await
    }
}

/// What a node does with the claim of a shard that it holds.
#[derive(Clone, Copy)]
enum ClaimChange {
    /// Write it again.
    Keep(ShardId, FenceEpoch),
    Release(ShardRelease),
}

/// Changes the claim of one shard.
struct Changing<'n> {
    node: &'n NodeMembership,
    change: ClaimChange,
    is_overtaken: bool,
}

impl Transaction for Changing<'_> {
    type Basis = ();
    type Answer = ();
    type Output = ();
    type Error = ShardReleaseError;

    fn operation(&self) -> Operation {
        match self.change {
            ClaimChange::Keep(..) => KEEP,
            ClaimChange::Release(_) => RELEASE,
        }
    }

    /// A release whose answer was lost may have been stored, so that nothing is left to keep.
    fn first_read(&self) -> Read {
        match self.change {
            ClaimChange::Keep(..) => Read::Fresh,
            ClaimChange::Release(_) => Read::Cached,
        }
    }

    async fn load(&mut self, read: Read) -> Result<((), Read), InfraError> {
        let (ClaimChange::Keep(shard, _) | ClaimChange::Release(ShardRelease { shard, .. })) =
            self.change;
        if read == Read::Fresh {
            self.node.core.reload(self.operation(), [ClusterKey::Shard(shard)]).await?;
        }
        Ok(((), read))
    }

    async fn decide(&mut self, (): &()) -> Decided<(), ShardReleaseError> {
        let (state, holder) = (self.node.core.lock(), &self.node.holder);
        let draft = match &self.change {
            ClaimChange::Keep(shard, fence) => state.draft_keep(*shard, *fence, holder),
            ClaimChange::Release(release) => match state.draft_release(release, holder) {
                // An attempt with an unknown outcome was stored, and the key was written again
                // later.
                Err(ShardReleaseError::Refused(refused))
                    if self.is_overtaken && is_over(&refused) =>
                {
                    return Ok(Decision::Answer(()));
                }
                draft => draft,
            },
        };
        Ok(draft.map_or_else(Decision::Refuse, |commit| Decision::Commit(commit, ())))
    }

    fn not_stored(&mut self, (): (), settled: &Settled) {
        self.is_overtaken |= matches!(settled, Settled::Overtaken(_));
    }

    fn finish(&mut self, (): (), (): (), stored: Option<(&Commit, Revision)>) {
        self.node.core.note_stored(stored);
    }
}

/// Whether the refusal shows that the shard is no longer held under the fence to release.
const fn is_over(refused: &ReleaseRefused) -> bool {
    match refused {
        ReleaseRefused::NotHeld
        | ReleaseRefused::HeldByAnother(_)
        | ReleaseRefused::StaleFence { .. } => true,
        ReleaseRefused::MeantToStay | ReleaseRefused::NotEvicted(_) => false,
    }
}
