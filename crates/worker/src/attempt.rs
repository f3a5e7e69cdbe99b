//! Processing a batch until each of its items is done or has failed permanently.

use std::pin::pin;

use futures_util::{FutureExt, select_biased};
use shardwright_contracts::Env;

use crate::connector::Item;
use crate::handler::{Assignment, Batch, FailureCause, Handler, ItemFailure, Outcome};
use crate::options::RetryPolicy;
use crate::signals::StopSignal;

/// An item with its final outcome.
#[derive(Debug)]
pub(crate) struct Attempted {
    pub(crate) item: Item,
    pub(crate) outcome: Outcome,
    pub(crate) retries: u32,
}

/// A batch to process, and the retry policy.
pub(crate) struct Attempts<'a> {
    pub(crate) env: &'a dyn Env,
    pub(crate) policy: &'a RetryPolicy,
    /// Ends the retries early, if set.
    pub(crate) stop: Option<&'a StopSignal>,
    pub(crate) assignment: &'a Assignment,
    /// Sequence number of the first item.
    pub(crate) sequence: u64,
    pub(crate) items: Vec<Item>,
}

/// Processes a batch. Failed items are retried one by one, so that an item is not charged for
/// another of its batch. An item that failed in a batch for an unclear cause is first tried alone
/// once. This try does not count against the policy. A failure of the worker itself is retried with
/// one item only, because all others would fail alike.
///
/// After `stop`, nothing is retried. The first item that needs a retry, and all after it, are left
/// out as not started.
pub(crate) async fn attempt<H: Handler>(handler: &H, attempts: Attempts<'_>) -> Vec<Attempted> {
    let Attempts { env, policy, stop, assignment, sequence, items } = attempts;
    let mut outcomes = handler
        .process(Batch { assignment, sequence, items: &items, attempt: 1 })
        .await
        .into_iter();
    let is_alone = items.len() == 1;
    let mut attempted = Vec::with_capacity(items.len());
    let mut is_worker_unable = false;
    for (item, sequence) in items.into_iter().zip(sequence..) {
        let mut outcome = outcomes.next().unwrap_or_else(|| Err(unanswered()));
        let mut retries = 0;
        let beside_policy = match &outcome {
            Err(failure) => u32::from(!is_alone && failure.cause == FailureCause::Unclear),
            Ok(_) => 0,
        };
        while let Err(ItemFailure { is_retryable: true, cause, .. }) = &outcome
            && !(is_worker_unable && *cause == FailureCause::Worker)
            && retries < policy.retries.saturating_add(beside_policy)
        {
            if stop.is_some_and(StopSignal::is_stopped) {
                return attempted;
            }
            retries += 1;
            if let Some(retry @ 1..) = retries.checked_sub(beside_policy) {
                let mut waited = pin!(env.sleep(policy.wait(retry, env.random())).fuse());
                let mut stopped = pin!(stopped(stop).fuse());
                select_biased! {
                    () = stopped => return attempted,
                    () = waited => {}
                }
            }
            let items = std::slice::from_ref(&item);
            let batch = Batch { assignment, sequence, items, attempt: retries + 1 };
            let again = handler.process(batch).await.into_iter().next();
            outcome = again.unwrap_or_else(|| Err(unanswered()));
        }
        is_worker_unable |=
            outcome.as_ref().is_err_and(|failure| failure.cause == FailureCause::Worker);
        attempted.push(Attempted { item, outcome, retries });
    }
    attempted
}

async fn stopped(stop: Option<&StopSignal>) {
    match stop {
        Some(stop) => stop.stopped().await,
        None => std::future::pending().await,
    }
}

fn unanswered() -> ItemFailure {
    ItemFailure::retryable("the handler returned no outcome for this item")
}
