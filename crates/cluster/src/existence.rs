//! Whether a cluster exists, and its creation.
//!
//! Two records decide it. The plan record exists from the creation to the last commit of a
//! deletion. The deletion record is written by every deletion, also by an unfinished one, and
//! remains after it. A join and an operator's write compare both at the revisions that show the
//! cluster, so a deleted cluster gets no members and no targets. Writes of members compare their
//! membership instead. A text cluster of another program may have no plan record. Its deletion
//! changes the deletion record all the same.

use std::sync::{Mutex, MutexGuard, PoisonError};

use shardwright_contracts::{FenceEpoch, InfraError};
use shardwright_engine::codec::Record;
use shardwright_engine::setup::set_up;
use shardwright_engine::transact::{Decided, Decision, Driver, Read, Transaction};
use shardwright_engine::{Operation, listing, operation};
use shardwright_store::{
    AnyStore, Commit, CommitBuilder, Conflict, Expect, Key, Revision, Store, Versioned,
};

use super::error::{ClusterCreateError, ClusterOpenError, Gone};
use super::handle::{Cluster, agree, plan_of};
use super::options::{ClusterOptions, FoundCluster, find};
use crate::keys::{ClusterKey, ClusterKeys};
use crate::records::{ClusterDeletionRecord, ClusterPlanRecord};

const OPEN: Operation = operation!("cluster.open");
const JOIN: Operation = operation!("cluster.join");

/// The two records that decide whether a cluster exists, with their revisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Existence {
    pub(super) plan: Option<(ClusterPlanRecord, Revision)>,
    pub(super) deletion: Option<(ClusterDeletionRecord, Revision)>,
}

impl Existence {
    /// Loads both at one revision, which may be outdated. Returns that revision as well.
    pub(super) async fn load(
        store: &AnyStore,
        keys: &ClusterKeys,
        operation: Operation,
    ) -> Result<(Self, Revision), InfraError> {
        let (found, revision) = listing::load_all(store, &both(keys), operation).await?;
        Ok((Self::decode(found.each_ref().map(Option::as_ref), operation)?, revision))
    }

    /// What a commit that compared both has found.
    pub(super) fn in_conflict(keys: &ClusterKeys, conflict: &Conflict) -> Result<Self, InfraError> {
        let found = both(keys).map(|key| {
            let found = conflict.found.iter().find(|(found, _)| *found == key);
            found.and_then(|(_, found)| found.as_ref())
        });
        Self::decode(found, JOIN)
    }

    fn decode(
        [plan, deletion]: [Option<&Versioned>; 2],
        operation: Operation,
    ) -> Result<Self, InfraError> {
        let plan = listing::decode_if_found(plan, operation)?;
        Ok(Self { plan, deletion: listing::decode_if_found(deletion, operation)? })
    }

    /// The lowest fence of the cluster. All fences of deleted clusters of its name are below.
    pub(super) fn floor(&self) -> FenceEpoch {
        self.deletion.map_or(FenceEpoch::INITIAL, |(deletion, _)| deletion.floor)
    }

    /// Whether a deletion has begun and not ended.
    pub(super) fn is_being_deleted(&self) -> bool {
        self.deletion.is_some_and(|(deletion, _)| deletion.unfinished)
    }

    /// Makes a commit compare both records.
    pub(super) fn compare_in(&self, keys: &ClusterKeys, commit: CommitBuilder) -> CommitBuilder {
        let [plan, deletion] = both(keys);
        let expect = |at: Option<Revision>| at.map_or(Expect::Absent, Expect::At);
        commit
            .expect(plan, expect(self.plan.map(|(_, at)| at)))
            .expect(deletion, expect(self.deletion.map(|(_, at)| at)))
    }
}

fn both(keys: &ClusterKeys) -> [Key; 2] {
    [ClusterKey::Plan, ClusterKey::Deletion].map(|key| keys.key(&key))
}

/// Looks a cluster up. Refused if it was deleted in part.
pub(super) async fn find_whole(
    store: &AnyStore,
    keys: &ClusterKeys,
) -> Result<(Existence, Option<FoundCluster>), ClusterOpenError> {
    let (existence, found) = find(store, keys).await?;
    if existence.is_being_deleted() {
        return Err(ClusterOpenError::Remains);
    }
    Ok((existence, found))
}

impl Cluster {
    /// Creates a cluster without opening it. Refused if it exists.
    ///
    /// Its fences are above all fences of deleted clusters of its name.
    pub async fn create(
        store: impl Store,
        options: &ClusterOptions,
    ) -> Result<(), ClusterCreateError> {
        let store = AnyStore::new(store);
        options.validate().map_err(ClusterOpenError::from)?;
        let keys = options.cluster_keys().map_err(ClusterOpenError::from)?;
        set_up(&store, &options.keys).await.map_err(ClusterOpenError::from)?;
        match find_whole(&store, &keys).await?.1 {
            Some(FoundCluster::Decided(plan)) => {
                return Err(ClusterCreateError::Exists { sharding: plan.sharding });
            }
            // A cluster of another program. Creating it states its number of shards.
            Some(found @ FoundCluster::Text(_)) => agree(found, options)?,
            None => {}
        }
        write_plan(&store, &keys, options).await?;
        Ok(())
    }
}

/// Writes the plan record of a cluster, unless there is one by now.
pub(super) async fn write_plan(
    store: &AnyStore,
    keys: &ClusterKeys,
    options: &ClusterOptions,
) -> Result<Existence, ClusterOpenError> {
    let driver = Driver::new(store.clone(), None, options.conflict_retries);
    driver.transact(&mut Creating { store, keys, options }).await
}

/// The creation of a cluster.
struct Creating<'c> {
    store: &'c AnyStore,
    keys: &'c ClusterKeys,
    options: &'c ClusterOptions,
}

impl Transaction for Creating<'_> {
    type Basis = Existence;
    type Answer = ();
    type Output = Existence;
    type Error = ClusterOpenError;

    fn operation(&self) -> Operation {
        OPEN
    }

    async fn load(&mut self, read: Read) -> Result<(Existence, Read), InfraError> {
        Ok((Existence::load(self.store, self.keys, OPEN).await?.0, read))
    }

    async fn decide(&mut self, found: &Existence) -> Decided<(), ClusterOpenError> {
        if found.is_being_deleted() {
            return Ok(Decision::Refuse(ClusterOpenError::Remains));
        }
        if let Some((plan, _)) = found.plan {
            return Ok(match agree(FoundCluster::Decided(plan), self.options) {
                Ok(()) => Decision::Answer(()),
                Err(refused) => Decision::Refuse(refused),
            });
        }
        let commit = found.compare_in(self.keys, Commit::builder());
        let plan = plan_of(self.options).encode();
        Ok(Decision::Commit(commit.put(self.keys.key(&ClusterKey::Plan), plan), ()))
    }

    fn finish(
        &mut self,
        found: Existence,
        (): (),
        stored: Option<(&Commit, Revision)>,
    ) -> Existence {
        let created = stored.map(|(_, revision)| (plan_of(self.options), revision));
        Existence { plan: found.plan.or(created), ..found }
    }
}

/// The existence of a cluster as a process last saw it.
pub(super) struct KnownExistence(Mutex<Existence>);

impl KnownExistence {
    pub(super) const fn new(existence: Existence) -> Self {
        Self(Mutex::new(existence))
    }

    pub(super) fn get(&self) -> Existence {
        *self.lock()
    }

    /// Adopts what a refused commit has found, if the cluster is still the process's. A conflict is
    /// never outdated, unlike a read, so only a conflict shows that a cluster was deleted.
    pub(super) fn learn(
        &self,
        keys: &ClusterKeys,
        options: &ClusterOptions,
        conflict: &Conflict,
    ) -> Result<(), Gone> {
        let found = Existence::in_conflict(keys, conflict).map_err(Gone::Store)?;
        let mut known = self.lock();
        let is_same = found == *known;
        if found.is_being_deleted() {
            return Err(Gone::BeingDeleted);
        }
        if !is_same && found.plan.is_none_or(|(plan, _)| plan != plan_of(options)) {
            return Err(Gone::Deleted);
        }
        *known = found;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Existence> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
