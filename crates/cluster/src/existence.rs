//! Creating and deleting a cluster.
//!
//! The plan record decides whether a cluster exists. Every join compares it. So once it is deleted,
//! no node and no gate can become a member. A new plan is written only where nothing of an earlier
//! cluster is left.

use std::collections::BTreeSet;

use shardwright_contracts::InfraError;
use shardwright_engine::codec::Record;
use shardwright_engine::setup::{self, ensure, load, set_up};
use shardwright_engine::transact::{self, Driver, Settled, Tries};
use shardwright_engine::{Operation, fault, listing, operation};
use shardwright_placement::NodeAddress;
use shardwright_store::{AnyStore, Commit, CommitBuilder, Expect, Key, Store, Versioned};

use super::error::{ClusterCreateError, ClusterDeleteError, ClusterOpenError};
use super::handle::{Cluster, agree, plan_of};
use super::options::{ClusterOptions, FoundCluster, find};
use crate::keys::{ClusterKey, ClusterKeys};
use crate::records::ClusterPlanRecord;

const DELETE: Operation = operation!("cluster.delete");
/// Keys per commit of a deletion.
const BATCH: usize = 64;

impl Cluster {
    /// Creates a cluster without opening it. Refused if it exists.
    pub async fn create(
        store: impl Store,
        options: &ClusterOptions,
    ) -> Result<(), ClusterCreateError> {
        let store = AnyStore::new(store);
        options.validate().map_err(ClusterOpenError::from)?;
        let keys = options.cluster_keys().map_err(ClusterOpenError::from)?;
        set_up(&store, &options.keys).await.map_err(ClusterOpenError::from)?;
        let found = find(&store, &keys).await.map_err(ClusterOpenError::from)?;
        match found {
            Some(FoundCluster::Decided(plan)) => {
                return Err(ClusterCreateError::Exists { sharding: plan.sharding });
            }
            // A cluster of another program. Creating it states its number of shards.
            Some(found @ FoundCluster::Text(_)) => agree(found, options)?,
            None => {}
        }
        Ok(write_plan(&store, &keys, options).await?)
    }

    /// Deletes a cluster with all its records. Refused while a node or a gate is a member.
    ///
    /// Objects keep what they have stored, and its fences. The fences of a new cluster begin again,
    /// so delete that state as well, or create the new cluster under another name.
    pub async fn delete(
        store: impl Store,
        options: &ClusterOptions,
    ) -> Result<(), ClusterDeleteError> {
        let store = AnyStore::new(store);
        let keys = options.cluster_keys()?;
        setup::look_up(&store, &options.keys).await?;
        let driver = Driver::new(store, None, options.conflict_retries);
        Deletion { driver, keys }.run().await
    }
}

/// Writes the plan record of a cluster, unless there is one by now.
pub(super) async fn write_plan(
    store: &AnyStore,
    keys: &ClusterKeys,
    options: &ClusterOptions,
) -> Result<(), ClusterOpenError> {
    let key = keys.key(&ClusterKey::Plan);
    // Other programs store text without a plan record.
    if !keys.is_text() && load::<ClusterPlanRecord>(store, &key).await?.is_none() {
        let driver = Driver::new(store.clone(), None, options.conflict_retries);
        let left = everything(&driver, keys).await?;
        // If the plan is there now, another process was faster.
        if !left.is_empty() && !left.iter().any(|(found, _)| *found == key) {
            return Err(ClusterOpenError::Remains);
        }
    }
    let plan = ensure(store, key, plan_of(options)).await?.0;
    agree(FoundCluster::Decided(plan), options)
}

/// Every key of a cluster.
async fn everything(
    driver: &Driver,
    keys: &ClusterKeys,
) -> Result<Vec<(Key, Versioned)>, InfraError> {
    let mut all = Vec::new();
    for range in keys.ranges() {
        all.extend(listing::list(driver, &range, DELETE).await?.1);
    }
    all.retain(|(key, _)| keys.parse(key).is_some());
    Ok(all)
}

struct Deletion {
    driver: Driver,
    keys: ClusterKeys,
}

impl Deletion {
    /// Fails with contention if another process changes the cluster meanwhile. Without members
    /// none does, except an operator.
    async fn run(&self) -> Result<(), ClusterDeleteError> {
        let plan_key = self.keys.key(&ClusterKey::Plan);
        let all = everything(&self.driver, &self.keys).await?;
        if all.is_empty() {
            return Err(ClusterDeleteError::NotThere);
        }
        self.refuse_members(&all)?;
        // An earlier deletion may have ended after this step.
        let plan = all.iter().find(|(key, _)| *key == plan_key);
        if let Some((_, plan)) = plan {
            let commit = Commit::builder().expect(plan_key.clone(), Expect::At(plan.revision));
            if !self.commit(commit.delete(plan_key.clone())).await? {
                return Err(fault::contention(DELETE).into());
            }
        }
        let left = everything(&self.driver, &self.keys).await?;
        if let Err(refused) = self.refuse_members(&left) {
            // A process joined just before the plan was deleted, so the cluster stays.
            if let Some((_, plan)) = plan {
                self.restore(&plan_key, plan).await?;
            }
            return Err(refused);
        }
        match self.delete_all(&left).await? {
            true => Ok(()),
            false => Err(fault::contention(DELETE).into()),
        }
    }

    fn refuse_members(&self, all: &[(Key, Versioned)]) -> Result<(), ClusterDeleteError> {
        let member = |(key, _): &(Key, Versioned)| match self.keys.parse(key) {
            Some(ClusterKey::Member(node) | ClusterKey::Gate(node)) => Some(node),
            _ => None,
        };
        let members: BTreeSet<NodeAddress> = all.iter().filter_map(member).collect();
        match members.is_empty() {
            true => Ok(()),
            false => Err(ClusterDeleteError::Members(members.into_iter().collect())),
        }
    }

    /// Writes the plan record again. A new one can exist only if the late member has left.
    async fn restore(&self, key: &Key, plan: &Versioned) -> Result<(), InfraError> {
        let commit = Commit::builder().expect(key.clone(), Expect::Absent);
        self.commit(commit.put(key.clone(), plan.value.clone())).await.map(|_is_stored| ())
    }

    /// Deletes keys, and returns whether all of them were as they had been read.
    async fn delete_all(&self, all: &[(Key, Versioned)]) -> Result<bool, InfraError> {
        let mut is_whole = true;
        for together in all.chunks(BATCH) {
            let commit = together.iter().fold(Commit::builder(), |commit, (key, found)| {
                commit.expect(key.clone(), Expect::At(found.revision)).delete(key.clone())
            });
            is_whole &= self.commit(commit).await?;
        }
        Ok(is_whole)
    }

    /// Whether a commit is stored.
    async fn commit(&self, commit: CommitBuilder) -> Result<bool, InfraError> {
        let commit = transact::build(DELETE, commit)?;
        match self.driver.settle(DELETE, &commit, Tries::UntilKnown).await? {
            Settled::Stored(_) => Ok(true),
            Settled::Full(error) => Err(error),
            Settled::Conflict(_) | Settled::Overtaken(_) | Settled::SessionGone(_) => Ok(false),
        }
    }
}

/// The condition under which a process may join: the cluster is as this process has opened it.
/// `None` if it was deleted, or created again with other numbers.
pub(super) async fn join_condition(
    store: &AnyStore,
    keys: &ClusterKeys,
    options: &ClusterOptions,
) -> Result<Option<(Key, Expect)>, InfraError> {
    let key = keys.key(&ClusterKey::Plan);
    let found = load::<ClusterPlanRecord>(store, &key).await?;
    Ok(match found {
        Some((plan, found)) if plan.encode() == plan_of(options).encode() => {
            Some((key, Expect::At(found.revision)))
        }
        // A cluster of another program, stored as text.
        None if keys.is_text() => Some((key, Expect::Absent)),
        Some(_) | None => None,
    })
}
