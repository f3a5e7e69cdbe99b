//! Releasing shards.

use futures_util::Stream;
use shardwright_contracts::{FenceEpoch, ShardId};
use shardwright_placement::ops::{ReleaseRefused, Releasing};

use super::attempt::Tried;
use super::error::ReleaseError;
use super::membership::NodeMembership;
use crate::fault;
use crate::keyspace::ClusterKey;
use crate::operate::back_off;

const RELEASE: &str = "cluster.release";
const KEEP: &str = "cluster.keep";

/// A shard that a node gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// Which.
    pub shard: ShardId,
    /// With which fence it was claimed.
    pub fence: FenceEpoch,
    /// How many of its objects are still on the node: none, or the release is refused.
    pub objects: u64,
    /// Why.
    pub why: Releasing,
}

impl NodeMembership {
    /// Releases shards, each for itself, and tells for each whether it is released, in the order in
    /// which they were asked for.
    pub async fn release(&self, shards: &[Release]) -> Vec<(ShardId, Result<(), ReleaseError>)> {
        let released = self.core.each(shards.to_vec(), |release| self.release_one(release)).await;
        self.core.publish();
        shards.iter().map(|release| release.shard).zip(released).collect()
    }

    /// The same, and tells of each as soon as it is known: one whose answer got lost holds up no
    /// other.
    pub fn releasing(
        &self,
        shards: Vec<Release>,
    ) -> impl Stream<Item = Vec<(ShardId, Result<(), ReleaseError>)>> + Send + use<> {
        let release = |release: Release| {
            let node = self.clone();
            async move { (release.shard, node.release_one(release).await) }
        };
        self.core.as_they_come(shards.into_iter().map(release).collect())
    }

    /// Writes the claim of a shard once more. When that is done, no release of it comes any more
    /// whose outcome was not known.
    pub async fn keep(&self, shard: ShardId, fence: FenceEpoch) -> Result<(), ReleaseError> {
        let kept = self.keep_one(shard, fence).await;
        self.core.publish();
        kept
    }

    async fn keep_one(&self, shard: ShardId, fence: FenceEpoch) -> Result<(), ReleaseError> {
        for tries in 0..=self.core.options.conflict_retries {
            back_off(&self.core.env, tries).await;
            // The release may have come already, and nobody may have heard of it.
            self.core.reload(KEEP, [ClusterKey::Shard(shard)]).await?;
            let commit = self.core.lock().draft_keep(shard, fence, &self.holder)?;
            if let Tried::Stored(_) = self.core.commit(KEEP, commit).await? {
                return Ok(());
            }
        }
        Err(fault::contention(KEEP).into())
    }

    async fn release_one(&self, release: Release) -> Result<(), ReleaseError> {
        let mut is_overtaken = false;
        match self.try_release(release, &mut is_overtaken).await {
            // It may have been stored, and the shard be another's by now.
            Err(ReleaseError::Store(error)) if is_overtaken => Err(fault::unknown(error).into()),
            released => released,
        }
    }

    async fn try_release(
        &self,
        release: Release,
        is_overtaken: &mut bool,
    ) -> Result<(), ReleaseError> {
        let mut is_fresh = false;
        for tries in 0..=self.core.options.conflict_retries {
            back_off(&self.core.env, tries).await;
            let draft = self.core.lock().draft_release(&release, &self.holder);
            let commit = match draft {
                Ok(commit) => commit,
                Err(_) if !is_fresh => {
                    self.core.reload(RELEASE, [ClusterKey::Shard(release.shard)]).await?;
                    is_fresh = true;
                    continue;
                }
                // An attempt whose outcome was not known has been stored, and others came after.
                Err(ReleaseError::Refused(refused)) if *is_overtaken && is_over(&refused) => {
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            match self.core.commit(RELEASE, commit).await? {
                Tried::Stored(_) => return Ok(()),
                tried @ (Tried::Conflict | Tried::Overtaken | Tried::SessionGone) => {
                    *is_overtaken |= tried == Tried::Overtaken;
                    self.core.reload(RELEASE, [ClusterKey::Shard(release.shard)]).await?;
                    is_fresh = true;
                }
            }
        }
        Err(fault::contention(RELEASE).into())
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
