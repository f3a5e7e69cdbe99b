use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shardwright_contracts::{Env, InfraError, LogicalTime};
use shardwright_engine::floor::FenceFloor;
use shardwright_engine::transact::{self, Driver, Settled, Tries};
use shardwright_engine::{fault, listing, watch};
use shardwright_store::{AnyStore, Commit, CommitBuilder, Revision, Store, Write};
use tokio::sync::oneshot;

use super::options::ClusterOptions;
use super::state::{News, State, news};
use super::view::ClusterView;
use crate::keys::{ClusterKey, ClusterKeys};

/// What all handles of a cluster share.
pub(super) struct Core {
    pub(super) store: AnyStore,
    pub(super) env: Arc<dyn Env>,
    pub(super) driver: Driver,
    pub(super) options: ClusterOptions,
    pub(super) keys: ClusterKeys,
    pub(super) floor: FenceFloor,
    pub(super) calendar: Calendar,
    pub(super) state: Mutex<State>,
    pub(super) views: watch::Sender<Arc<ClusterView>>,
    /// When these go, so do the tasks that follow watches.
    pub(super) _alive: Vec<oneshot::Sender<()>>,
}

impl Core {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> LogicalTime {
        self.calendar.read(&*self.env)
    }

    /// Learns what was under some keys at a moment, and does not tell it yet.
    pub(super) fn learn(&self, news: Vec<News>, as_of: Revision) {
        let now = self.now();
        self.lock().learn(news, as_of, now);
    }

    /// Tells what is new, in one view.
    pub(super) fn publish(&self) -> Arc<ClusterView> {
        let mut state = self.lock();
        if let Some(view) = state.publish() {
            // Under the lock, so that views come in their order.
            self.views.send_replace(view);
        }
        let view = self.views.borrow();
        Arc::clone(&view)
    }

    /// Sends a commit until its outcome is known, and takes note of what is stored then.
    pub(super) async fn commit(
        &self,
        operation: &'static str,
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

    /// Takes note of what was just stored.
    pub(super) fn note(&self, commit: &Commit, revision: Revision) {
        let news = commit.writes().iter().filter_map(|write| {
            let key = self.keys.parse(write.key())?;
            let value = match write {
                Write::Put { value, .. } => Some((value.clone(), revision)),
                Write::Delete { .. } => None,
            };
            Some(News { key, value })
        });
        let news = news.collect();
        self.learn(news, revision);
    }

    /// Reads some keys anew. Targets are read all or not at all: one version is one whole.
    pub(super) async fn reload(
        &self,
        operation: &'static str,
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
        let news = wanted.into_iter().zip(values).map(|(key, found)| {
            let value = found.map(|found| (found.value, found.revision));
            News { key, value }
        });
        self.learn(news.collect(), snapshot.revision);
        Ok(())
    }

    /// Reads everything of a range anew, and tells at which moment that was.
    pub(super) async fn relist(&self, range: usize) -> Result<Revision, InfraError> {
        let Some(keys) = self.keys.ranges().into_iter().nth(range) else {
            return Ok(Revision::ZERO);
        };
        let (revision, entries) = listing::list(&self.store, &keys, "cluster.list").await?;
        let listed = entries.iter().filter_map(|(key, found)| news(&self.keys, key, Some(found)));
        let listed = listed.collect();
        let now = self.now();
        let mut state = self.lock();
        // A store may show an older state than it did before; that has nothing new.
        if revision >= state.reached(range) {
            state.replace(range, listed, revision, now);
        }
        Ok(revision)
    }

    /// Reads everything anew.
    pub(super) async fn refresh(&self) -> Result<Arc<ClusterView>, InfraError> {
        for range in 0..self.keys.ranges().len() {
            self.relist(range).await?;
        }
        Ok(self.publish())
    }
}

/// The time that plans are made by: what the calendar said when the process came, and from then on
/// a clock that does not jump. So a calendar that is set makes nothing late, and nothing cool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calendar {
    began: LogicalTime,
    began_at: Duration,
}

impl Calendar {
    pub(super) fn new(env: &dyn Env) -> Self {
        Self { began: env.wall_clock(), began_at: env.monotonic() }
    }

    pub(super) fn read(&self, env: &dyn Env) -> LogicalTime {
        let passed = env.monotonic().saturating_sub(self.began_at).as_millis();
        self.began.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
    }
}
