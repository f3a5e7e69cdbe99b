//! What is done with each item.

use std::fmt;
use std::future::Future;

use shardwright_contracts::{FenceEpoch, RunId, ShardId, WorkerId};
use shardwright_coordination::ParkReason;

use crate::connector::Item;

/// Under which right items are worked on. Run, shard, fence and an item's sequence together name
/// one attempt of one owner, and make an idempotency key for effects outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The run.
    pub run: RunId,
    /// The shard.
    pub shard: ShardId,
    /// The fence of the lease.
    pub fence: FenceEpoch,
    /// Who works on it.
    pub worker: WorkerId,
}

/// Items to be worked on together.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// Under which right.
    pub assignment: &'a Assignment,
    /// The number of the first item, counted from the moment the shard was acquired.
    pub sequence: u64,
    /// The items, in key order.
    pub items: &'a [Item],
    /// Which try it is, counted from 1.
    pub attempt: u32,
}

/// What came of an item: the bytes to append to the results, which may be none.
pub type Outcome = Result<Vec<u8>, ItemFailure>;

/// An item could not be worked on.
#[derive(Clone, PartialEq, Eq)]
pub struct ItemFailure {
    /// Why, if it is to be parked for it.
    pub reason: ParkReason,
    /// What is known about it, for whoever looks at it later.
    pub detail: String,
    /// Whether another try may help.
    pub is_retryable: bool,
    /// Whose it is.
    pub cause: FailureCause,
}

/// Whose failure it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureCause {
    /// The item's, or that of something that was worked on with it. An item that failed in company
    /// is tried alone, however few tries there are.
    Unclear,
    /// The item's own.
    Item,
    /// The worker's: it lacks what any item would need. So none is set aside; when no more tries
    /// are left, the worker gives back what it has, and stops.
    Worker,
}

impl ItemFailure {
    /// Something went wrong that may go well another time.
    #[must_use]
    pub fn retryable(detail: impl Into<String>) -> Self {
        let (reason, detail) = (ParkReason::TooManyErrors, detail.into());
        Self { reason, detail, is_retryable: true, cause: FailureCause::Unclear }
    }

    /// Something went wrong that will go wrong every time.
    #[must_use]
    pub fn fatal(reason: ParkReason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into(), is_retryable: false, cause: FailureCause::Unclear }
    }

    /// The same, with nothing but the item itself as the cause.
    #[must_use]
    pub fn own(self) -> Self {
        Self { cause: FailureCause::Item, ..self }
    }

    /// The same, with nothing about the item as the cause.
    #[must_use]
    pub fn of_worker(self) -> Self {
        Self { cause: FailureCause::Worker, ..self }
    }
}

/// What went wrong may quote an item.
impl fmt::Debug for ItemFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ItemFailure")
            .field("reason", &self.reason)
            .field("detail_bytes", &self.detail.len())
            .field("is_retryable", &self.is_retryable)
            .field("cause", &self.cause)
            .finish()
    }
}

/// What is done with items.
///
/// A future that is dropped has lost its shard: whatever it does outside must stop.
pub trait Handler: Send + Sync + 'static {
    /// How many items to hand over at once.
    fn batch_size(&self) -> usize {
        1
    }

    /// What to append to the results for an item that failed for good and cannot be set aside,
    /// because its run's cursors move when items are handed out. If even that fails, the worker
    /// stops: it would lose the item.
    fn failure_record(&self, item: &Item, failure: &ItemFailure) -> Outcome {
        let _ = (item, failure);
        Ok(Vec::new())
    }

    /// Works on a batch, and says of each item, in order, what came of it.
    fn process(&self, batch: Batch<'_>) -> impl Future<Output = Vec<Outcome>> + Send;

    /// Everything of a shard up to `key` is committed and never comes again.
    fn committed(&self, assignment: &Assignment, key: &[u8]) {
        let _ = (assignment, key);
    }

    /// The rest of a shard from `end` on is a shard of its own now.
    fn divided(&self, assignment: &Assignment, end: &[u8]) {
        let _ = (assignment, end);
    }

    /// Nothing more comes.
    fn close(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

/// A handler made of a function of one item; see [`each`].
pub struct Each<F>(F);

/// Makes a handler of a function of one item.
pub fn each<F, R>(function: F) -> Each<F>
where
    F: Fn(Item) -> R + Send + Sync + 'static,
    R: Future<Output = Outcome> + Send,
{
    Each(function)
}

impl<F, R> Handler for Each<F>
where
    F: Fn(Item) -> R + Send + Sync + 'static,
    R: Future<Output = Outcome> + Send,
{
    async fn process(&self, batch: Batch<'_>) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(batch.items.len());
        for item in batch.items {
            outcomes.push((self.0)(item.clone()).await);
        }
        outcomes
    }
}
