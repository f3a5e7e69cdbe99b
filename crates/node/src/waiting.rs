use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use shardwright_api::CallError;
use shardwright_contracts::Env;

/// The calls of a process that wait for a shard, up to a limit.
#[derive(Debug)]
pub(crate) struct Queue {
    waiting: AtomicU64,
    limit: u64,
}

/// A slot in the queue.
pub(crate) struct QueueSlot(Arc<Queue>);

impl Queue {
    pub(crate) const fn new(limit: u64) -> Self {
        Self { waiting: AtomicU64::new(0), limit }
    }

    /// Takes a slot, if one is free.
    pub(crate) fn enter(self: &Arc<Self>) -> Result<QueueSlot, CallError> {
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let queue_slot = QueueSlot(Arc::clone(self));
        if before < self.limit {
            Ok(queue_slot)
        } else {
            Err(CallError::QueueFull { limit: self.limit })
        }
    }

    /// The number of waiting calls.
    pub(crate) fn len(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }
}

impl Drop for QueueSlot {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The output of a future, or `None` if it is not ready at a time of the monotonic clock.
pub(crate) async fn within<T>(
    env: &dyn Env,
    deadline: Duration,
    future: impl Future<Output = T>,
) -> Option<T> {
    let left = deadline.saturating_sub(env.monotonic());
    tokio::select! {
        biased;
        value = future => Some(value),
        () = env.sleep(left) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_has_a_limit() {
        let queue = Arc::new(Queue::new(2));
        let (one, other) = (queue.enter().unwrap(), queue.enter().unwrap());
        assert_eq!(queue.enter().err(), Some(CallError::QueueFull { limit: 2 }));
        drop(one);
        assert!(queue.enter().is_ok());
        drop(other);
        assert_eq!(queue.len(), 0);
    }
}
