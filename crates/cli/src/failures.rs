//! Stopping when too many items fail, whoever of the run's workers they fail with.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use shardwright_contracts::RunId;
use shardwright_coordination::ShardStatus;
use shardwright_jobs::TENANT;
use shardwright_worker::extent::TokenEnvelope;
use shardwright_worker::{Observer, StopSignal, WorkerEvent};
use tokio::sync::Notify;

use crate::arguments::FailureLimit;
use crate::store::Coordinator;

/// A percentage means nothing before so many items were tried, unless there are no more.
const LEAST_TRIED: u64 = 100;
/// How often others' failures are looked for.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long to wait at least between two looks.
const LEAST_INTERVAL: Duration = Duration::from_millis(50);

/// Counts what failed in the whole run, stops the worker when it is too much, and passes
/// everything on.
pub(crate) struct FailureWatch {
    limit: Option<FailureLimit>,
    stop: StopSignal,
    next: Arc<dyn Observer>,
    /// Something failed here.
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

    /// Looks at the run for as long as it goes on.
    pub(crate) fn follow(self: &Arc<Self>, coordinator: &Coordinator, run: RunId) {
        if self.limit.is_none() {
            return;
        }
        let (watch, coordinator) = (Arc::clone(self), coordinator.clone());
        tokio::spawn(async move {
            // A look that fails is followed by another one.
            while !matches!(watch.is_over(&coordinator, run, false).await, Ok(true)) {
                tokio::time::sleep(LEAST_INTERVAL).await;
                let _early = tokio::time::timeout(LOOK_INTERVAL, watch.failed.notified()).await;
            }
        });
    }

    /// Whether too much has failed, so far or now that everything `was_tried`.
    pub(crate) async fn is_over(
        &self,
        coordinator: &Coordinator,
        run: RunId,
        was_tried: bool,
    ) -> anyhow::Result<bool> {
        let Some(limit) = self.limit else { return Ok(false) };
        if self.is_over.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let Count { failed, done } = Count::of(coordinator, run).await?;
        let least_tried = if was_tried { 1 } else { LEAST_TRIED };
        let is_over = is_too_many(limit, failed, done, least_tried);
        if is_over {
            self.is_over.store(true, Ordering::Relaxed);
            self.stop.stop();
        }
        Ok(is_over)
    }
}

/// What is committed of a run.
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
            // One that cannot be set aside has a result that says so.
            count.failed += u64::from(shard.head.status == ShardStatus::Parked) + envelope.failed;
            count.done += envelope.items.saturating_sub(envelope.failed);
        }
        Ok(count)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a percentage need not be exact")]
fn is_too_many(limit: FailureLimit, failed: u64, done: u64, least_tried: u64) -> bool {
    match limit {
        FailureLimit::Items(most) => failed > most,
        FailureLimit::Percent(most) => {
            let tried = done + failed;
            tried >= least_tried && failed as f64 * 100.0 > most * tried as f64
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
    fn a_number_is_a_number_of_items() {
        assert!(!is_too_many(FailureLimit::Items(2), 2, 0, LEAST_TRIED));
        assert!(is_too_many(FailureLimit::Items(2), 3, 1_000_000, LEAST_TRIED));
    }

    #[test]
    fn a_percentage_counts_once_enough_were_tried() {
        let limit = FailureLimit::Percent(10.0);
        assert!(!is_too_many(limit, 9, 90, LEAST_TRIED));
        assert!(!is_too_many(limit, 10, 90, LEAST_TRIED));
        assert!(is_too_many(limit, 11, 90, LEAST_TRIED));
        // There were no more.
        assert!(is_too_many(limit, 9, 0, 1));
        assert!(!is_too_many(limit, 0, 0, 1));
    }
}
