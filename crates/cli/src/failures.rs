//! Stopping when too many items fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use shardwright_worker::{Observer, Stop, WorkerEvent};

use crate::arguments::FailureLimit;

/// A percentage means nothing before so many items were tried.
const LEAST_TRIED: u64 = 100;

/// Counts failures, stops the worker when there are too many, and passes everything on.
pub(crate) struct FailureWatch {
    limit: Option<FailureLimit>,
    stop: Stop,
    next: Arc<dyn Observer>,
    done: AtomicU64,
    failed: AtomicU64,
    is_over: AtomicBool,
}

impl FailureWatch {
    pub(crate) fn new(
        limit: Option<FailureLimit>,
        stop: Stop,
        next: Arc<dyn Observer>,
    ) -> Arc<Self> {
        let (done, failed, is_over) =
            (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
        Arc::new(Self { limit, stop, next, done, failed, is_over })
    }

    /// Whether there were too many.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    #[expect(clippy::cast_precision_loss, reason = "a percentage need not be exact")]
    fn is_too_many(&self, failed: u64) -> bool {
        match self.limit {
            None => false,
            Some(FailureLimit::Items(most)) => failed > most,
            Some(FailureLimit::Percent(most)) => {
                let tried = self.done.load(Ordering::Relaxed) + failed;
                tried >= LEAST_TRIED && failed as f64 * 100.0 > most * tried as f64
            }
        }
    }
}

impl Observer for FailureWatch {
    fn event(&self, slot: usize, event: WorkerEvent<'_>) {
        match event {
            WorkerEvent::Done { .. } => {
                self.done.fetch_add(1, Ordering::Relaxed);
            }
            WorkerEvent::Parked { .. } | WorkerEvent::Failed { .. } => {
                let failed = self.failed.fetch_add(1, Ordering::Relaxed) + 1;
                if self.is_too_many(failed) {
                    self.is_over.store(true, Ordering::Relaxed);
                    self.stop.stop();
                }
            }
            _ => {}
        }
        self.next.event(slot, event);
    }
}

#[cfg(test)]
mod tests {
    use shardwright_contracts::ShardId;

    use super::*;

    const FAILED: WorkerEvent<'_> =
        WorkerEvent::Failed { shard: ShardId::from_raw(1), key: b"k", detail: "" };
    const DONE: WorkerEvent<'_> =
        WorkerEvent::Done { shard: ShardId::from_raw(1), key: b"k", bytes: 0, retries: 0 };

    #[test]
    fn a_number_is_a_number_of_items() {
        let stop = Stop::default();
        let watch = FailureWatch::new(Some(FailureLimit::Items(2)), stop.clone(), Arc::new(()));
        watch.event(0, FAILED);
        watch.event(0, FAILED);
        assert!(!watch.is_over() && !stop.is_stopped());
        watch.event(0, FAILED);
        assert!(watch.is_over() && stop.is_stopped());
    }

    #[test]
    fn a_percentage_counts_once_enough_were_tried() {
        let watch =
            FailureWatch::new(Some(FailureLimit::Percent(10.0)), Stop::default(), Arc::new(()));
        (0..9).for_each(|_| watch.event(0, FAILED));
        (0..90).for_each(|_| watch.event(0, DONE));
        assert!(!watch.is_over());
        (0..2).for_each(|_| watch.event(0, FAILED));
        assert!(watch.is_over());
    }
}
