//! Following the changes of other processes.

use std::future::ready;
use std::sync::{Arc, Weak};
use std::time::Duration;

use shardwright_contracts::Env;
use shardwright_store::{ChangeSet, Changes, Revision, Store, StoreRange, WatchError};
use tokio::sync::oneshot;

use super::shared::Core;
use super::state::key_change;

/// Pause before a broken watch is opened again.
const PAUSE: Duration = Duration::from_millis(50);
/// Most change sets per view, so that a steady stream of changes cannot delay a view forever.
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
            // The watch has missed changes: list the range and continue from there.
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

    /// Follows a watch until it breaks; none if the cluster's handles are dropped.
    async fn follow(&self, mut changes: Changes, gone: &mut oneshot::Receiver<()>) -> Option<()> {
        loop {
            let next = tokio::select! {
                biased;
                _ = &mut *gone => return None,
                next = changes.next() => next,
            };
            let core = self.core.upgrade()?;
            let mut next = Some(next);
            // All pending change sets become one view, because thousands of claims may arrive at
            // once.
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
        let changes =
            changes.filter_map(|change| key_change(&core.keys, &change.key, change.now.as_ref()));
        let changes = changes.collect();
        let now = core.now();
        let mut state = core.lock();
        state.learn(changes, set.revision, now);
        state.reach(self.range, set.revision);
    }
}
