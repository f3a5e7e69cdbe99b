//! Releasing shards.

use futures_util::Stream;
use shardwright_contracts::{FenceEpoch, InfraError, ShardId};
use shardwright_engine::transact::{Decided, Decision, Read, Settled, Transaction};
use shardwright_placement::ops::{ReleaseReason, ReleaseRefused};
use shardwright_store::{Commit, Revision};

use super::error::ShardReleaseError;
use super::membership::NodeMembership;
use crate::keys::ClusterKey;

const RELEASE: &str = "cluster.release";
const KEEP: &str = "cluster.keep";

/// A shard that a node gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardRelease {
    /// Which.
    pub shard: ShardId,
    /// With which fence it was claimed.
    pub fence: FenceEpoch,
    /// How many of its objects are still on the node: none, or the release is refused.
    pub objects: u64,
    /// Why.
    pub why: ReleaseReason,
}

impl NodeMembership {
    /// Releases shards, each for itself, and tells for each whether it is released, in the order in
    /// which they were asked for.
    pub async fn release(
        &self,
        shards: &[ShardRelease],
    ) -> Vec<(ShardId, Result<(), ShardReleaseError>)> {
        let released = self.core.each(shards.to_vec(), |release| self.release_one(release)).await;
        self.core.publish();
        shards.iter().map(|release| release.shard).zip(released).collect()
    }

    /// The same, and tells of each as soon as it is known: one whose answer got lost holds up no
    /// other.
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

    /// Writes the claim of a shard once more. When that is done, no release of it comes any more
    /// whose outcome was not known.
    pub async fn keep(&self, shard: ShardId, fence: FenceEpoch) -> Result<(), ShardReleaseError> {
        let kept = self.keep_one(shard, fence).await;
        self.core.publish();
        kept
    }

    async fn keep_one(&self, shard: ShardId, fence: FenceEpoch) -> Result<(), ShardReleaseError> {
        self.core.driver.transact(&mut Keeping { node: self, shard, fence }).await
    }

    async fn release_one(&self, release: ShardRelease) -> Result<(), ShardReleaseError> {
        let mut releasing = Discharge { node: self, release, is_overtaken: false };
        self.core.driver.transact(&mut releasing).await
    }
}

/// The claim of one shard, written once more. It is always decided on a fresh read: a release may
/// have been stored whose answer was lost.
struct Keeping<'n> {
    node: &'n NodeMembership,
    shard: ShardId,
    fence: FenceEpoch,
}

impl Transaction for Keeping<'_> {
    type Basis = ();
    type Answer = ();
    type Output = ();
    type Error = ShardReleaseError;

    fn operation(&self) -> &'static str {
        KEEP
    }

    async fn load(&mut self, read: Read) -> Result<((), Read), InfraError> {
        self.node.core.reload(KEEP, [ClusterKey::Shard(self.shard)]).await?;
        Ok(((), read))
    }

    async fn decide(&mut self, (): &()) -> Decided<(), ShardReleaseError> {
        let state = self.node.core.lock();
        Ok(match state.draft_keep(self.shard, self.fence, &self.node.holder) {
            Ok(commit) => Decision::Commit(commit, ()),
            Err(refusal) => Decision::Refuse(refusal),
        })
    }

    fn finish(&mut self, (): (), (): (), stored: Option<(&Commit, Revision)>) {
        if let Some((commit, revision)) = stored {
            self.node.core.note(commit, revision);
        }
    }
}

/// The release of one shard.
struct Discharge<'n> {
    node: &'n NodeMembership,
    release: ShardRelease,
    is_overtaken: bool,
}

impl Transaction for Discharge<'_> {
    type Basis = ();
    type Answer = ();
    type Output = ();
    type Error = ShardReleaseError;

    fn operation(&self) -> &'static str {
        RELEASE
    }

    fn first_read(&self) -> Read {
        Read::Cached
    }

    async fn load(&mut self, read: Read) -> Result<((), Read), InfraError> {
        if read == Read::Fresh {
            let shard = ClusterKey::Shard(self.release.shard);
            self.node.core.reload(RELEASE, [shard]).await?;
        }
        Ok(((), read))
    }

    async fn decide(&mut self, (): &()) -> Decided<(), ShardReleaseError> {
        let draft = self.node.core.lock().draft_release(&self.release, &self.node.holder);
        Ok(match draft {
            Ok(commit) => Decision::Commit(commit, ()),
            // An attempt whose outcome was unknown has been stored, and others came after.
            Err(ShardReleaseError::Refused(refused)) if self.is_overtaken && is_over(&refused) => {
                Decision::Answer(())
            }
            Err(refusal) => Decision::Refuse(refusal),
        })
    }

    fn not_stored(&mut self, (): (), settled: &Settled) {
        self.is_overtaken |= matches!(settled, Settled::Overtaken(_));
    }

    fn finish(&mut self, (): (), (): (), stored: Option<(&Commit, Revision)>) {
        if let Some((commit, revision)) = stored {
            self.node.core.note(commit, revision);
        }
    }
}

/// Whether the shard is not held with the fence that was to be released.
const fn is_over(refused: &ReleaseRefused) -> bool {
    match refused {
        ReleaseRefused::NotHeld
        | ReleaseRefused::HeldByAnother(_)
        | ReleaseRefused::StaleFence { .. } => true,
        ReleaseRefused::MeantToStay | ReleaseRefused::NotEvicted(_) => false,
    }
}
