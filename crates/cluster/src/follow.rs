//! Keeping up with what others store.

use std::future::ready;
use std::sync::{Arc, Weak};
use std::time::Duration;

use shardwright_contracts::Env;
use shardwright_store::{ChangeSet, Changes, Revision, Store, StoreRange, WatchError};
use tokio::sync::oneshot;

use super::shared::Core;
use super::state::news;

/// How long to wait before a watch that broke is set up again.
const PAUSE: Duration = Duration::from_millis(50);
/// Most sets of changes that become one view: one that is never told is of no use.
const SETS_MAX: usize = 1_024;

/// The task that follows one range of a cluster's keys.
pub(super) struct Follow {
    pub(super) core: Weak<Core>,
    pub(super) range: usize,
    pub(super) keys: StoreRange,
    pub(super) env: Arc<dyn Env>,
}

impl Follow {
    pub(super) async fn run(self, mut revision: Revision, mut gone: oneshot::Receiver<()>) {
        loop {
            let Some(core) = self.core.upgrade() else { return };
            let watching = tokio::select! {
                biased;
                _ = &mut gone => return,
                watching = core.store.watch(&self.keys, revision) => watching,
            };
            drop(core);
            match watching {
                Ok(changes) => {
                    if self.follow(changes, &mut gone).await.is_none() {
                        return;
                    }
                }
                Err(_) => self.env.sleep(PAUSE).await,
            }
            // Something was missed: read everything anew and go on from there.
            let Some(core) = self.core.upgrade() else { return };
            match core.relist(self.range).await {
                Ok(at) => {
                    core.publish();
                    revision = at;
                }
                Err(_) => {
                    drop(core);
                    self.env.sleep(PAUSE).await;
                }
            }
        }
    }

    /// Follows a watch until it breaks; none if nobody looks at the cluster any more.
    async fn follow(&self, mut changes: Changes, gone: &mut oneshot::Receiver<()>) -> Option<()> {
        loop {
            let next = tokio::select! {
                biased;
                _ = &mut *gone => return None,
                next = changes.next() => next,
            };
            let core = self.core.upgrade()?;
            let mut next = Some(next);
            // Whatever is there already goes into the same view: thousands of claims come at once.
            for _ in 0..SETS_MAX {
                match next {
                    Some(Ok(set)) => self.learn(&core, &set),
                    Some(Err(WatchError::Gap | WatchError::Store(_))) => {
                        core.publish();
                        return Some(());
                    }
                    None => break,
                }
                next = tokio::select! {
                    biased;
                    next = changes.next() => Some(next),
                    () = ready(()) => None,
                };
            }
            if let Some(Ok(set)) = next {
                self.learn(&core, &set);
            }
            core.publish();
        }
    }

    fn learn(&self, core: &Core, set: &ChangeSet) {
        let changes = set.changes.iter();
        let told = changes.filter_map(|change| news(&core.keys, &change.key, change.now.as_ref()));
        let told = told.collect();
        let now = core.now();
        let mut state = core.lock();
        state.learn(told, set.revision, now);
        state.reach(self.range, set.revision);
    }
}
