use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shardwright_contracts::{Env, InfraError, LogicalTime};
use shardwright_engine::floor::FenceFloor;
use shardwright_engine::transact::{self, Driver, Settled, Tries};
use shardwright_engine::{Operation, operation};
use shardwright_engine::{fault, listing, watch};
use shardwright_store::{AnyStore, Commit, CommitBuilder, Revision, Store, Write};
use tokio::sync::oneshot;

use super::existence::KnownExistence;
use super::options::ClusterOptions;
use super::state::{KeyChange, State, key_change};
use super::view::ClusterView;
use crate::keys::{ClusterKey, ClusterKeys};

/// State that all handles of a cluster share.
pub(super) struct Core {
    pub(super) store: AnyStore,
    pub(super) env: Arc<dyn Env>,
    pub(super) driver: Driver,
    pub(super) options: ClusterOptions,
    pub(super) keys: ClusterKeys,
    pub(super) floor: FenceFloor,
    pub(super) existence: KnownExistence,
    pub(super) plan_clock: PlanClock,
    pub(super) state: Mutex<State>,
    pub(super) views: watch::Sender<Arc<ClusterView>>,
    /// Dropping them stops the tasks that follow watches.
    pub(super) _alive: Vec<oneshot::Sender<()>>,
}

impl Core {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> LogicalTime {
        self.plan_clock.read(&*self.env)
    }

    /// Applies the state of some keys at a revision, without publishing a view.
    pub(super) fn learn(&self, changes: Vec<KeyChange>, as_of: Revision) {
        let now = self.now();
        self.lock().learn(changes, as_of, now);
    }

    /// Publishes all changes in one view.
    pub(super) fn publish(&self) -> Arc<ClusterView> {
        let mut state = self.lock();
        if let Some(view) = state.publish() {
            // Under the lock, so that views are published in order.
            self.views.send_replace(view);
        }
        let view = self.views.borrow();
        Arc::clone(&view)
    }

    /// Sends a commit until its outcome is known, and applies what is stored.
    pub(super) async fn commit(
        &self,
        operation: Operation,
        commit: CommitBuilder,
    ) -> Result<Settled, InfraError> {
        let commit = transact::build(operation, commit)?;
        match self.driver.settle(operation, &commit, Tries::UntilKnown).await? {
            Settled::Stored(revision) => {
                self.note(&commit, revision);
                Ok(Settled::Stored(revision))
            }
            Settled::Full(error) => Err(error),
            settled => Ok(settled),
        }
    }

    /// Applies what a transaction has stored, if anything.
    pub(super) fn note_stored(&self, stored: Option<(&Commit, Revision)>) {
        if let Some((commit, revision)) = stored {
            self.note(commit, revision);
        }
    }

    /// Applies the writes of a stored commit.
    pub(super) fn note(&self, commit: &Commit, revision: Revision) {
        let changes = commit.writes().iter().filter_map(|write| {
            let key = self.keys.parse(write.key())?;
            let value = match write {
                Write::Put { value, .. } => Some((value.clone(), revision)),
                Write::Delete { .. } => None,
            };
            Some(KeyChange { key, value })
        });
        let changes = changes.collect();
        self.learn(changes, revision);
    }

    /// Reloads some keys. Targets are always loaded together, because one version covers all of
    /// them.
    pub(super) async fn reload(
        &self,
        operation: Operation,
        keys: impl IntoIterator<Item = ClusterKey>,
    ) -> Result<(), InfraError> {
        let mut wanted = BTreeSet::new();
        for key in keys {
            let is_target = matches!(key, ClusterKey::TargetHead | ClusterKey::TargetChunk(_));
            wanted.insert(key);
            if is_target && !self.keys.is_text() {
                wanted.insert(ClusterKey::TargetHead);
                let chunks = self.lock().chunks().count();
                wanted.extend((0..chunks).map(ClusterKey::TargetChunk));
            }
        }
        let keys: Vec<_> = wanted.iter().map(|key| self.keys.key(key)).collect();
        let loaded = self.store.load(&keys).await;
        let snapshot = loaded.map_err(|error| fault::read(operation, &error))?;
        let values = snapshot.values.into_iter();
        let changes = wanted.into_iter().zip(values).map(|(key, found)| {
            let value = found.map(|found| (found.value, found.revision));
            KeyChange { key, value }
        });
        self.learn(changes.collect(), snapshot.revision);
        Ok(())
    }

    /// Lists a range, and returns the revision of the listing.
    pub(super) async fn relist(&self, range: usize) -> Result<Revision, InfraError> {
        let Some(keys) = self.keys.ranges().into_iter().nth(range) else {
            return Ok(Revision::ZERO);
        };
        let (revision, entries) =
            listing::list(&self.driver, &keys, operation!("cluster.list")).await?;
        let listed =
            entries.iter().filter_map(|(key, found)| key_change(&self.keys, key, Some(found)));
        let listed = listed.collect();
        let now = self.now();
        let mut state = self.lock();
        // A store may return an older state than before, which contains nothing new.
        if revision >= state.reached(range) {
            state.replace(range, listed, revision, now);
        }
        Ok(revision)
    }

    /// Lists all ranges.
    pub(super) async fn refresh(&self) -> Result<Arc<ClusterView>, InfraError> {
        for range in 0..self.keys.ranges().len() {
            self.relist(range).await?;
        }
        Ok(self.publish())
    }
}

/// The clock for plans: the wall clock at the start of the process, continued on the monotonic
/// clock. So setting the wall clock has no effect on deadlines and cooldowns.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlanClock {
    began: LogicalTime,
    began_at: Duration,
}

impl PlanClock {
    pub(super) fn new(env: &dyn Env) -> Self {
        Self { began: env.wall_clock(), began_at: env.monotonic() }
    }

    pub(super) fn read(&self, env: &dyn Env) -> LogicalTime {
        let passed = env.monotonic().saturating_sub(self.began_at).as_millis();
        self.began.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
    }
}
