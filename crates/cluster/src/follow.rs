//! Following the changes of other processes.

use std::sync::Weak;

use shardwright_contracts::InfraError;
use shardwright_engine::follow::Follower;
use shardwright_store::{AnyStore, ChangeSet, Revision};

use super::shared::Core;
use super::state::key_change;

/// The part of a cluster's state that follows one range of its keys.
pub(super) struct FollowedRange {
    pub(super) core: Weak<Core>,
    pub(super) range: usize,
}

impl Follower for FollowedRange {
    fn store(&self) -> Option<AnyStore> {
        Some(self.core.upgrade()?.store.clone())
    }

    /// All sets become one view, because thousands of claims may arrive at once.
    fn apply(&self, sets: &[ChangeSet]) -> Option<()> {
        let core = self.core.upgrade()?;
        for set in sets {
            self.learn(&core, set);
        }
        core.publish();
        Some(())
    }

    async fn relist(&self) -> Option<Result<Revision, InfraError>> {
        let core = self.core.upgrade()?;
        let listed = core.relist(self.range).await;
        if listed.is_ok() {
            core.publish();
        }
        Some(listed)
    }
}

impl FollowedRange {
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
