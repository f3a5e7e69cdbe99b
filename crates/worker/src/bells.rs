//! Telling a holder in the same worker at once that somebody asks for a part of its shard.
//!
//! A holder hears of a request when it renews its lease or commits, which is late where an item
//! takes long. Whoever asks rings the bell of the shard, and a holder that is here renews at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shardwright_contracts::ShardId;
use tokio::sync::Notify;

/// The bells of all shards that are held here.
#[derive(Debug, Default)]
pub(crate) struct Bells {
    hung: Mutex<BTreeMap<ShardId, Arc<Notify>>>,
}

impl Bells {
    fn hung(&self) -> MutexGuard<'_, BTreeMap<ShardId, Arc<Notify>>> {
        self.hung.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hangs the bell of a shard up, for as long as it is held.
    pub(crate) fn hang(&self, shard: ShardId) -> Bell<'_> {
        let rung = Arc::new(Notify::new());
        self.hung().insert(shard, Arc::clone(&rung));
        Bell { bells: self, shard, rung }
    }

    /// Rings the bell of a shard, if it is held here.
    pub(crate) fn ring(&self, shard: ShardId) {
        if let Some(rung) = self.hung().get(&shard) {
            rung.notify_one();
        }
    }
}

/// The bell of one shard.
#[derive(Debug)]
pub(crate) struct Bell<'b> {
    bells: &'b Bells,
    shard: ShardId,
    rung: Arc<Notify>,
}

impl Bell<'_> {
    /// Waits until it is rung. A ring that nobody waited for is not lost.
    pub(crate) async fn rung(&self) {
        self.rung.notified().await;
    }
}

impl Drop for Bell<'_> {
    fn drop(&mut self) {
        let mut hung = self.bells.hung();
        // Another slot may hold the shard by now, with a bell of its own.
        if hung.get(&self.shard).is_some_and(|rung| Arc::ptr_eq(rung, &self.rung)) {
            hung.remove(&self.shard);
        }
    }
}
