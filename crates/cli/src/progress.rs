//! Measures periodically how much of a run is left, in all processes together.

use std::sync::Arc;
use std::time::Duration;

use shardwright_contracts::RunId;
use shardwright_coordination::{ShardRecord, ShardStatus};
use shardwright_jobs::TENANT;
use shardwright_jobs::description::Description;
use shardwright_jobs::source::AnyConnector;
use shardwright_worker::connector::{Connector, KeyRange, Quantity};

use crate::store::Coordinator;
use crate::view::{Amount, RunMonitor, View};

/// The interval grows with the run, so that a short run has an estimate, too.
const MEASURE_INTERVALS: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(2)];
/// The interval is this part of the time since the start.
const INTERVAL_DIVISOR: u32 = 8;
/// The pause after a measurement is at least this many times its duration.
const PAUSE_FACTOR: u32 = 20;

/// Measures how much of a run is left.
#[derive(Clone)]
pub(crate) struct Progress {
    coordinator: Coordinator,
    run: RunId,
    connector: Arc<AnyConnector>,
}

impl Progress {
    pub(crate) fn new(
        coordinator: &Coordinator,
        run: RunId,
        connector: &Arc<AnyConnector>,
    ) -> Self {
        Self { coordinator: coordinator.clone(), run, connector: Arc::clone(connector) }
    }

    /// Measures once, for a view that shows progress.
    pub(crate) async fn update(&self, view: &View) {
        if view.has_progress() {
            self.measure(view.monitor()).await;
        }
    }

    async fn measure(&self, monitor: &RunMonitor) {
        monitor.ask_store();
        // After a failed measurement the monitor keeps the last one.
        if let Ok(shards) = self.coordinator.inspect_shards(TENANT, self.run).await {
            monitor.store_answered();
            monitor.set_left(amount(&self.connector, shards.iter().filter_map(left_of)).await);
        }
    }
}

/// Measures in the background until the view ends, if the view shows progress.
pub(crate) fn follow(
    view: &View,
    progress: &Progress,
    description: &Description,
) -> anyhow::Result<()> {
    if !view.has_progress() {
        return Ok(());
    }
    let monitor = Arc::clone(view.monitor());
    let (progress, ranges) = (progress.clone(), description.ranges()?);
    tokio::spawn(async move {
        let whole = ranges.into_iter().map(|range| (range, None));
        monitor.set_total(amount(&progress.connector, whole).await);
        let start = tokio::time::Instant::now();
        let [least, most] = MEASURE_INTERVALS;
        while !monitor.has_ended() {
            let begin = tokio::time::Instant::now();
            progress.measure(&monitor).await;
            let interval = (start.elapsed() / INTERVAL_DIVISOR).clamp(least, most);
            tokio::time::sleep(interval.max(begin.elapsed() * PAUSE_FACTOR)).await;
        }
    });
    Ok(())
}

/// The rest of an active shard: its range and its cursor. A parked item is handled: no worker tries
/// it again by itself.
fn left_of(shard: &ShardRecord) -> Option<(KeyRange, Option<Vec<u8>>)> {
    if shard.head.status != ShardStatus::Active {
        return None;
    }
    let spec = shard.spec.as_spec_ref();
    let range = KeyRange { start: spec.start().to_vec(), end: spec.end().to_vec() };
    Some((range, shard.cursor.as_update().last_key().map(<[u8]>::to_vec)))
}

/// The total amount in several ranges. It is unknown if the amount in one of them is.
async fn amount(
    connector: &AnyConnector,
    ranges: impl Iterator<Item = (KeyRange, Option<Vec<u8>>)>,
) -> Amount {
    let mut sum = Amount { items: Some(0), bytes: Some(0) };
    for (range, after) in ranges {
        let Ok(left) = connector.estimate(&range, after.as_deref()).await else {
            return Amount::default();
        };
        sum.items = sum.items.zip(counted(left.items)).map(|(sum, more)| sum + more);
        sum.bytes = sum.bytes.zip(counted(left.bytes)).map(|(sum, more)| sum + more);
    }
    sum
}

/// A quantity that is precise enough for percentages.
const fn counted(quantity: Quantity) -> Option<u64> {
    match quantity {
        Quantity::Exact(count) | Quantity::About(count) => Some(count),
        Quantity::AtLeast(_) | Quantity::Unknown => None,
    }
}
