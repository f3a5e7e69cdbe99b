//! Signals between the tasks of a worker: stop, and wake-ups of holders.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shardwright_contracts::ShardId;
use tokio::sync::Notify;

/// Stops workers: they finish the items in progress, commit, and release their shards. Failed
/// items are not retried, unless the cursor is past them. Clones share one state.
#[derive(Clone, Debug, Default)]
pub struct StopSignal {
    state: Arc<StopState>,
}

/// `Notify` wakes waiters in the order in which they began to wait, which tokio's `watch` does not
/// promise. So a simulated run with the same seed is the same run.
#[derive(Debug, Default)]
struct StopState {
    is_stopped: AtomicBool,
    stopped: Notify,
}

impl StopSignal {
    /// Stops all workers that share the signal.
    pub fn stop(&self) {
        self.state.is_stopped.store(true, Ordering::Release);
        self.state.stopped.notify_waiters();
    }

    /// Whether the signal was given.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.state.is_stopped.load(Ordering::Acquire)
    }

    /// Waits for the signal.
    pub async fn stopped(&self) {
        let mut stopped = pin!(self.state.stopped.notified());
        // Enqueued before the check, so that no signal is missed in between.
        stopped.as_mut().enable();
        if !self.is_stopped() {
            stopped.await;
        }
    }
}

/// Wakes the holder of a shard in the same worker when a split of its shard was requested.
///
/// A holder learns of a request when it renews its lease or commits, which is late where an item
/// takes long. A wake-up makes it renew at once.
#[derive(Debug, Default)]
pub(crate) struct WakeUps {
    held: Mutex<BTreeMap<ShardId, Arc<Notify>>>,
}

impl WakeUps {
    fn held(&self) -> MutexGuard<'_, BTreeMap<ShardId, Arc<Notify>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers the holder of a shard until the wake-up is dropped.
    pub(crate) fn register(&self, shard: ShardId) -> WakeUp<'_> {
        let notify = Arc::new(Notify::new());
        self.held().insert(shard, Arc::clone(&notify));
        WakeUp { wake_ups: self, shard, notify }
    }

    /// Wakes the holder of a shard, if this worker holds it.
    pub(crate) fn wake(&self, shard: ShardId) {
        if let Some(notify) = self.held().get(&shard) {
            notify.notify_one();
        }
    }
}

/// The wake-up of one shard's holder.
#[derive(Debug)]
pub(crate) struct WakeUp<'w> {
    wake_ups: &'w WakeUps,
    shard: ShardId,
    notify: Arc<Notify>,
}

impl WakeUp<'_> {
    /// Waits for a wake-up. One that came before the call counts.
    pub(crate) async fn woken(&self) {
        self.notify.notified().await;
    }
}

impl Drop for WakeUp<'_> {
    fn drop(&mut self) {
        let mut held = self.wake_ups.held();
        // Another slot may have registered the shard since.
        if held.get(&self.shard).is_some_and(|notify| Arc::ptr_eq(notify, &self.notify)) {
            held.remove(&self.shard);
        }
    }
}
