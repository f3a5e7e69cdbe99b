//! Trying a batch once.

use crate::connector::Item;
use crate::handler::{Assignment, Batch, Handler, ItemFailure, Outcome};

/// A batch to try.
pub(crate) struct Try {
    pub(crate) assignment: Assignment,
    /// Sequence number of the first item.
    pub(crate) sequence: u64,
    /// Number of the try, from 1.
    pub(crate) attempt: u32,
    pub(crate) items: Vec<Item>,
}

/// An item with the outcome of one try.
pub(crate) type Tried = (Item, Outcome);

/// An item with its final outcome.
#[derive(Debug)]
pub(crate) struct Attempted {
    pub(crate) item: Item,
    pub(crate) outcome: Outcome,
    pub(crate) retries: u32,
}

/// Tries a batch once, and returns the outcome of each item.
pub(crate) async fn try_once<H: Handler>(handler: &H, batch: Try) -> Vec<Tried> {
    let Try { assignment, sequence, attempt, items } = batch;
    let batch = Batch { assignment: &assignment, sequence, items: &items, attempt };
    let mut outcomes = handler.process(batch).await.into_iter();
    let outcome = |item| (item, outcomes.next().unwrap_or_else(|| Err(unanswered())));
    items.into_iter().map(outcome).collect()
}

fn unanswered() -> ItemFailure {
    ItemFailure::retryable("the handler returned no outcome for this item")
}
