//! Stops the worker when too many items of the run have failed, in this process or in others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use shardwright_contracts::RunId;
use shardwright_coordination::ShardStatus;
use shardwright_jobs::TENANT;
use shardwright_worker::extent::TokenEnvelope;
use shardwright_worker::{Observer, StopSignal, WorkerEvent};
use tokio::sync::Notify;

use crate::arguments::run::FailureLimit;
use crate::store::Coordinator;

/// A percentage applies only after this many items were tried, or after all items were.
const TRIED_MIN: u64 = 100;
/// The longest time between two checks. It covers failures in other processes.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The shortest time between two checks.
const CHECK_INTERVAL_MIN: Duration = Duration::from_millis(50);

/// Counts the failures of the whole run, and stops the worker above the limit. It passes all events
/// on to the next observer.
pub(crate) struct FailureWatch {
    limit: Option<FailureLimit>,
    stop: StopSignal,
    next: Arc<dyn Observer>,
    /// Notified when an item fails in this process.
    failed: Notify,
    is_over: AtomicBool,
}

impl FailureWatch {
    pub(crate) fn new(
        limit: Option<FailureLimit>,
        stop: StopSignal,
        next: Arc<dyn Observer>,
    ) -> Arc<Self> {
        let (failed, is_over) = (Notify::new(), AtomicBool::new(false));
        Arc::new(Self { limit, stop, next, failed, is_over })
    }

    /// Checks the run in the background until the limit is exceeded.
    pub(crate) fn follow(self: &Arc<Self>, coordinator: &Coordinator, run: RunId) {
        if self.limit.is_none() {
            return;
        }
        let (watch, coordinator) = (Arc::clone(self), coordinator.clone());
        tokio::spawn(async move {
            // A failed check is repeated.
            while !matches!(watch.is_over(&coordinator, run, false).await, Ok(true)) {
                tokio::time::sleep(CHECK_INTERVAL_MIN).await;
                let _early = tokio::time::timeout(CHECK_INTERVAL, watch.failed.notified()).await;
            }
        });
    }

    /// Whether too many items have failed. `all_tried` means that no item is left to try.
    pub(crate) async fn is_over(
        &self,
        coordinator: &Coordinator,
        run: RunId,
        all_tried: bool,
    ) -> anyhow::Result<bool> {
        let Some(limit) = self.limit else { return Ok(false) };
        if self.is_over.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let Count { failed, done } = Count::of(coordinator, run).await?;
        let tried_min = if all_tried { 1 } else { TRIED_MIN };
        let is_over = is_too_many(limit, failed, done, tried_min);
        if is_over {
            self.is_over.store(true, Ordering::Relaxed);
            self.stop.stop();
        }
        Ok(is_over)
    }
}

/// Committed items of a run.
#[derive(Default)]
struct Count {
    failed: u64,
    done: u64,
}

impl Count {
    async fn of(coordinator: &Coordinator, run: RunId) -> anyhow::Result<Self> {
        let mut count = Self::default();
        for shard in coordinator.inspect_shards(TENANT, run).await? {
            let envelope = TokenEnvelope::decode(shard.cursor.as_update().token())?;
            // With --at-dispatch a failed item is not parked: its result records the failure.
            count.failed += u64::from(shard.head.status == ShardStatus::Parked) + envelope.failed;
            count.done += envelope.items.saturating_sub(envelope.failed);
        }
        Ok(count)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a percentage need not be exact")]
fn is_too_many(limit: FailureLimit, failed: u64, done: u64, tried_min: u64) -> bool {
    match limit {
        FailureLimit::Items(max) => failed > max,
        FailureLimit::Percent(max) => {
            let tried = done + failed;
            tried >= tried_min && failed as f64 * 100.0 > max * tried as f64
        }
    }
}

impl Observer for FailureWatch {
    fn event(&self, slot: usize, event: WorkerEvent<'_>) {
        if let WorkerEvent::Parked { .. } | WorkerEvent::Failed { .. } = event {
            self.failed.notify_one();
        }
        self.next.event(slot, event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_limits_failed_items() {
        assert!(!is_too_many(FailureLimit::Items(2), 2, 0, TRIED_MIN));
        assert!(is_too_many(FailureLimit::Items(2), 3, 1_000_000, TRIED_MIN));
    }

    #[test]
    fn percentage_applies_after_enough_items_were_tried() {
        let limit = FailureLimit::Percent(10.0);
        assert!(!is_too_many(limit, 9, 90, TRIED_MIN));
        assert!(!is_too_many(limit, 10, 90, TRIED_MIN));
        assert!(is_too_many(limit, 11, 90, TRIED_MIN));
        // All items were tried.
        assert!(is_too_many(limit, 9, 0, 1));
        assert!(!is_too_many(limit, 0, 0, 1));
    }
}
