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

/// Writes the claim of one shard again. It is always decided on a fresh read, because a release
/// whose answer was lost may have been stored.
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

    fn operation(&self) -> Operation {
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
        self.node.core.note_stored(stored);
    }
}

/// Releases one shard.
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

    fn operation(&self) -> Operation {
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
            // An attempt with an unknown outcome was stored, and the key was written again later.
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
