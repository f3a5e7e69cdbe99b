//! Handlers: what processes items.

use std::fmt;
use std::future::Future;

use shardwright_contracts::{FenceEpoch, RunId, ShardId, WorkerId};
use shardwright_coordination::ParkReason;

use crate::connector::Item;

/// The lease under which items are processed. Run and item key identify an item across attempts. A
/// system that keeps the highest fence of a shard can reject a replaced holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The run.
    pub run: RunId,
    /// The shard.
    pub shard: ShardId,
    /// The fence of the lease.
    pub fence: FenceEpoch,
    /// The holder.
    pub worker: WorkerId,
}

/// Items to process together.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// The lease.
    pub assignment: &'a Assignment,
    /// Sequence number of the first item, counted from the acquisition of the shard.
    pub sequence: u64,
    /// The items, in key order.
    pub items: &'a [Item],
    /// Number of the try, from 1.
    pub attempt: u32,
}

/// The outcome of an item: bytes to append to the results, which may be empty, or a failure.
pub type Outcome = Result<Vec<u8>, ItemFailure>;

/// Why an item failed.
#[derive(Clone, PartialEq, Eq)]
pub struct ItemFailure {
    /// Reason to record if the item is parked.
    pub reason: ParkReason,
    /// Message for the operator.
    pub detail: String,
    /// Whether a retry may succeed.
    pub is_retryable: bool,
    /// What caused it.
    pub cause: FailureCause,
    /// The result line of the failed try, which ends with a newline. Empty if there is none.
    pub record: Vec<u8>,
}

/// What caused a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureCause {
    /// The item, or another of its batch. An item that failed in a batch is tried alone once,
    /// beside the tries of the retry policy.
    Unclear,
    /// The item itself.
    Item,
    /// The worker, which lacks something that every item needs. No item is parked for it: after
    /// the last try, the worker releases its shards and stops.
    Worker,
}

impl ItemFailure {
    /// A failure that a retry may fix.
    #[must_use]
    pub fn retryable(detail: impl Into<String>) -> Self {
        let (reason, detail) = (ParkReason::TooManyErrors, detail.into());
        let (cause, record) = (FailureCause::Unclear, Vec::new());
        Self { reason, detail, is_retryable: true, cause, record }
    }

    /// A failure that no retry fixes.
    #[must_use]
    pub fn permanent(reason: ParkReason, detail: impl Into<String>) -> Self {
        let (cause, record) = (FailureCause::Unclear, Vec::new());
        Self { reason, detail: detail.into(), is_retryable: false, cause, record }
    }

    /// The same failure, caused by the item itself.
    #[must_use]
    pub fn own(self) -> Self {
        Self { cause: FailureCause::Item, ..self }
    }

    /// The same failure, caused by the worker.
    #[must_use]
    pub fn of_worker(self) -> Self {
        Self { cause: FailureCause::Worker, ..self }
    }

    /// The same failure, with the result line of the failed try.
    #[must_use]
    pub fn with_record(self, record: Vec<u8>) -> Self {
        Self { record, ..self }
    }
}

/// The detail may quote an item.
impl fmt::Debug for ItemFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ItemFailure")
            .field("reason", &self.reason)
            .field("detail_bytes", &self.detail.len())
            .field("is_retryable", &self.is_retryable)
            .field("cause", &self.cause)
            .field("record_bytes", &self.record.len())
            .finish()
    }
}

/// Processes items.
///
/// A dropped future means that the shard was lost: external effects must stop then.
pub trait Handler: Send + Sync + 'static {
    /// Most items per batch.
    fn batch_size(&self) -> usize {
        1
    }

    /// The result of an item that failed permanently and cannot be parked, because the cursors of
    /// its run move at dispatch. If this fails too, the worker stops, so as not to lose the item.
    fn failure_record(&self, item: &Item, failure: &ItemFailure) -> Outcome {
        let _ = (item, failure);
        Ok(Vec::new())
    }

    /// Processes a batch, and returns the outcome of each item, in order.
    fn process(&self, batch: Batch<'_>) -> impl Future<Output = Vec<Outcome>> + Send;

    /// Called when all items of a shard up to `key` are committed, and will not be repeated.
    fn committed(&self, assignment: &Assignment, key: &[u8]) {
        let _ = (assignment, key);
    }

    /// Called when the rest of a shard from `end` on was split off.
    fn divided(&self, assignment: &Assignment, end: &[u8]) {
        let _ = (assignment, end);
    }

    /// Called after the last batch.
    fn close(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

/// A handler that calls a function for each item; see [`each`].
pub struct Each<F>(F);

/// Makes a handler of a function that processes one item.
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
