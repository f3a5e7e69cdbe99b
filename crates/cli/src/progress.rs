//! Looking now and then at how much is left of a run, whoever works on it.

use std::sync::Arc;
use std::time::Duration;

use shardwright_contracts::RunId;
use shardwright_coordination::{ShardRecord, ShardStatus};
use shardwright_jobs::TENANT;
use shardwright_jobs::description::Description;
use shardwright_jobs::source::AnyConnector;
use shardwright_worker::connector::{Connector, KeyRange, Quantity};

use crate::store::Coordinator;
use crate::view::{Amount, Board, View};

const LOOK_INTERVAL: Duration = Duration::from_secs(2);
/// A look takes at most this part of the time.
const SHARE: u32 = 20;

/// What can tell how much is left of a run.
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

    /// Tells a view how much is left now, if it shows that.
    pub(crate) async fn look(&self, view: &View) {
        if let Some(board) = view.board() {
            self.tell(&board).await;
        }
    }

    async fn tell(&self, board: &Board) {
        // A look that fails is followed by another one, or nothing new is known.
        if let Ok(shards) = self.coordinator.inspect_shards(TENANT, self.run).await {
            board.look(amount(&self.connector, shards.iter().filter_map(left_of)).await);
        }
    }
}

/// Tells a view how much is left, until it has ended, if it shows that.
pub(crate) fn follow(
    view: &View,
    progress: &Progress,
    description: &Description,
) -> anyhow::Result<()> {
    let Some(board) = view.board() else { return Ok(()) };
    let (progress, ranges) = (progress.clone(), description.ranges()?);
    tokio::spawn(async move {
        let whole = ranges.into_iter().map(|range| (range, None));
        board.expect(amount(&progress.connector, whole).await);
        while !board.has_ended() {
            let begin = tokio::time::Instant::now();
            progress.tell(&board).await;
            tokio::time::sleep(LOOK_INTERVAL.max(begin.elapsed() * SHARE)).await;
        }
    });
    Ok(())
}

/// What is left of a shard that can be worked on, or will not be until somebody has looked at it.
fn left_of(shard: &ShardRecord) -> Option<(KeyRange, Option<Vec<u8>>)> {
    if !matches!(shard.head.status, ShardStatus::Active | ShardStatus::Parked) {
        return None;
    }
    let spec = shard.spec.as_spec_ref();
    let range = KeyRange { start: spec.start().to_vec(), end: spec.end().to_vec() };
    Some((range, shard.cursor.as_update().last_key().map(<[u8]>::to_vec)))
}

/// How much some ranges hold; what is not known of one is not known of all.
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

/// A number that percentages can be made of.
const fn counted(quantity: Quantity) -> Option<u64> {
    match quantity {
        Quantity::Exact(count) | Quantity::About(count) => Some(count),
        Quantity::AtLeast(_) | Quantity::Unknown => None,
    }
}
