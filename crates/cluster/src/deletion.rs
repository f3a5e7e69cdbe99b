//! Deleting a cluster.
//!
//! | step | commit | after it |
//! |---|---|---|
//! | 1 | marks the deletion as unfinished | no process can join |
//! | 2 | raises the floor above every fence of the cluster | no fence is granted again |
//! | 3 | several commits delete all records but two | |
//! | 4 | deletes the plan record and the mark | the cluster can be created again |
//!
//! If a process has joined before step 1, the mark is removed and nothing is deleted. A deletion
//! that ends between two steps is completed by the next one.

use std::collections::BTreeSet;

use shardwright_contracts::{FenceEpoch, InfraError};
use shardwright_engine::codec::Record;
use shardwright_engine::floor::FenceFloor;
use shardwright_engine::setup;
use shardwright_engine::transact::{self, Driver, Settled, Tries};
use shardwright_engine::{Operation, listing, operation};
use shardwright_placement::NodeAddress;
use shardwright_store::{AnyStore, Commit, CommitBuilder, Expect, Key, Revision, Store, Versioned};

use super::error::ClusterDeleteError;
use super::existence::Existence;
use super::handle::Cluster;
use super::options::ClusterOptions;
use crate::keys::{ClusterKey, ClusterKeys};
use crate::records::{ClusterDeletionRecord, ShardClaimRecord};

const DELETE: Operation = operation!("cluster.delete");
/// Keys per commit of a deletion.
const BATCH: usize = 64;

impl Cluster {
    /// Deletes a cluster. Refused while a node or a gate is a member.
    ///
    /// One record remains, so that the fences of the next cluster of this name are above all
    /// fences of this one. What objects have stored, with its fences, is kept.
    pub async fn delete(
        store: impl Store,
        options: &ClusterOptions,
    ) -> Result<(), ClusterDeleteError> {
        let store = AnyStore::new(store);
        let keys = options.cluster_keys()?;
        let store_floor = setup::look_up(&store, &options.keys).await?;
        let driver = Driver::new(store.clone(), None, options.conflict_retries);
        Deletion { store, driver, keys, store_floor }.run().await
    }
}

type Entry = (ClusterKey, Key, Versioned);

struct Deletion {
    store: AnyStore,
    driver: Driver,
    keys: ClusterKeys,
    store_floor: FenceFloor,
}

impl Deletion {
    /// Fails with contention if another process changes the cluster meanwhile. Without members,
    /// only an operator can.
    async fn run(&self) -> Result<(), ClusterDeleteError> {
        let (found, revision) = Existence::load(&self.store, &self.keys, DELETE).await?;
        if !found.is_being_deleted() {
            let (_, all) = self.list(revision).await?;
            if found.plan.is_none() && all.is_empty() {
                return Err(ClusterDeleteError::NotThere);
            }
            refuse_members(&all)?;
        }
        let floor = found.floor();
        let marked = match found.deletion.filter(|(deletion, _)| deletion.unfinished) {
            // An earlier deletion ended before its last step.
            Some((_, marked)) => marked,
            None => self.put(&found, floor, true).await?,
        };
        let mut found = with_deletion(found, floor, marked);
        let (listed, left) = self.list(marked).await?;
        if let Err(refused) = refuse_members(&left) {
            // A process joined just before the mark, so the cluster stays.
            self.put(&found, floor, false).await?;
            return Err(refused);
        }
        let floor = self.above(&left, floor, listed);
        found = with_deletion(found, floor, self.put(&found, floor, true).await?);
        for together in left.chunks(BATCH) {
            let commit = found.compare_in(&self.keys, Commit::builder());
            let commit = together.iter().fold(commit, |commit, (_, key, found)| {
                commit.expect(key.clone(), Expect::At(found.revision)).delete(key.clone())
            });
            self.commit(commit).await?;
        }
        let commit = found.compare_in(&self.keys, Commit::builder());
        let plan = found.plan.map(|_| self.keys.key(&ClusterKey::Plan));
        let commit = plan.into_iter().fold(commit, CommitBuilder::delete);
        self.commit(self.putting(commit, floor, false)).await?;
        Ok(())
    }

    /// Every record of the cluster except the two that decide whether it exists, at `since` or
    /// later. Returns the revision of the listing as well.
    async fn list(&self, since: Revision) -> Result<(Revision, Vec<Entry>), InfraError> {
        let (mut latest, mut all) = (since, Vec::new());
        for range in self.keys.ranges() {
            let (revision, entries) =
                listing::list_since(&self.driver, &range, since, DELETE).await?;
            latest = latest.max(revision);
            all.extend(entries.into_iter().filter_map(|(key, found)| {
                let parsed = self.keys.parse(&key)?;
                let decides = matches!(parsed, ClusterKey::Plan | ClusterKey::Deletion);
                (!decides).then_some((parsed, key, found))
            }));
        }
        Ok((latest, all))
    }

    /// The lowest fence above `floor` and all claims. The revisions of a text cluster's keys are
    /// its fences, and they never fall.
    ///
    /// A claim that cannot be read has a fence of at most the floor plus the revision: every claim
    /// raises the fence of a shard by one above the floor, and the revision by one at least.
    fn above(&self, left: &[Entry], floor: FenceEpoch, listed: Revision) -> FenceEpoch {
        let lowest = floor.max(self.store_floor.get());
        let most = FenceEpoch::from_raw(lowest.as_raw().saturating_add(listed.get()));
        let most = most.unwrap_or(lowest);
        let claims = left.iter().filter(|(key, ..)| matches!(key, ClusterKey::Shard(_)));
        let claims = claims.filter(|_| !self.keys.is_text());
        let fences = claims.map(|(_, _, found)| {
            let claim = ShardClaimRecord::decode(&found.value);
            claim.map_or(most, |record| record.claim.fence)
        });
        fences.fold(floor, |floor, fence| floor.max(fence.next().unwrap_or(fence)))
    }

    /// Writes the deletion record if both records are as found, and returns its revision.
    async fn put(
        &self,
        found: &Existence,
        floor: FenceEpoch,
        unfinished: bool,
    ) -> Result<Revision, InfraError> {
        let commit = self.store_floor.compare_in(Commit::builder());
        let commit = found.compare_in(&self.keys, commit);
        self.commit(self.putting(commit, floor, unfinished)).await
    }

    fn putting(&self, commit: CommitBuilder, floor: FenceEpoch, unfinished: bool) -> CommitBuilder {
        let record = ClusterDeletionRecord { floor, unfinished };
        commit.put(self.keys.key(&ClusterKey::Deletion), record.encode())
    }

    async fn commit(&self, commit: CommitBuilder) -> Result<Revision, InfraError> {
        let commit = transact::build(DELETE, commit)?;
        match self.driver.settle(DELETE, &commit, Tries::UntilKnown).await? {
            Settled::Stored(revision) => Ok(revision),
            settled => Err(settled.into_failure(DELETE)),
        }
    }
}

/// The existence after the deletion record was written.
fn with_deletion(found: Existence, floor: FenceEpoch, at: Revision) -> Existence {
    let deletion = ClusterDeletionRecord { floor, unfinished: true };
    Existence { deletion: Some((deletion, at)), ..found }
}

fn refuse_members(all: &[Entry]) -> Result<(), ClusterDeleteError> {
    let member = |(key, ..): &Entry| match key {
        ClusterKey::Member(node) | ClusterKey::Gate(node) => Some(node.clone()),
        _ => None,
    };
    let members: BTreeSet<NodeAddress> = all.iter().filter_map(member).collect();
    match members.is_empty() {
        true => Ok(()),
        false => Err(ClusterDeleteError::Members(members.into_iter().collect())),
    }
}
