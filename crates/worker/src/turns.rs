//! Turns: how holds without a slot try items.
//!
//! A hold whose items all wait for retries goes on without a slot, and its slot works on another
//! shard. It needs a turn for each try, which a slot with room for one more batch lends to it. So
//! no more batches are in progress than the slots of the worker allow.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::stream::{FuturesUnordered, StreamExt};
use shardwright_contracts::WorkerId;
use tokio::sync::{Notify, oneshot};

/// The right to try one batch in a slot. Dropping it returns it.
#[derive(Debug)]
pub(crate) struct Turn {
    /// The slot's worker id, under which its programs run.
    pub(crate) worker: WorkerId,
    /// Closed when the turn is dropped.
    _loan: oneshot::Sender<Infallible>,
}

/// A request for a turn. Dropping it withdraws it.
pub(crate) type TurnRequest = oneshot::Receiver<Turn>;

/// The requests for turns, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    requests: Mutex<VecDeque<oneshot::Sender<Turn>>>,
    /// Number of requests, so that a slot without a request pays one load.
    count: AtomicUsize,
    wanted: Notify,
}

impl Turns {
    fn requests(&self) -> MutexGuard<'_, VecDeque<oneshot::Sender<Turn>>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests a turn.
    pub(crate) fn request(&self) -> TurnRequest {
        let (sender, request) = oneshot::channel();
        let mut requests = self.requests();
        requests.push_back(sender);
        self.count.store(requests.len(), Ordering::Release);
        drop(requests);
        self.wanted.notify_waiters();
        request
    }

    /// Whether there are requests. They may have been withdrawn.
    pub(crate) fn are_wanted(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// Waits for a request.
    pub(crate) async fn wanted(&self) {
        let mut wanted = pin!(self.wanted.notified());
        // Enqueued before the check, so that no request is missed in between.
        wanted.as_mut().enable();
        if !self.are_wanted() {
            wanted.await;
        }
    }

    /// Lends a turn to the oldest request that was not withdrawn.
    fn lend(&self, worker: WorkerId) -> Option<oneshot::Receiver<Infallible>> {
        let mut requests = self.requests();
        while let Some(request) = requests.pop_front() {
            self.count.store(requests.len(), Ordering::Release);
            let (sender, loan) = oneshot::channel();
            if request.send(Turn { worker, _loan: sender }).is_ok() {
                return Some(loan);
            }
        }
        None
    }
}

/// The turns that a slot has lent.
#[derive(Debug, Default)]
pub(crate) struct Loans(FuturesUnordered<oneshot::Receiver<Infallible>>);

impl Loans {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Lends a turn, if one is requested.
    pub(crate) fn lend(&mut self, turns: &Turns, worker: WorkerId) -> bool {
        let loan = if turns.are_wanted() { turns.lend(worker) } else { None };
        loan.is_some_and(|loan| {
            self.0.push(loan);
            true
        })
    }

    /// Waits until a turn is returned. Without end if none is lent.
    pub(crate) async fn returned(&mut self) {
        if self.0.next().await.is_none() {
            std::future::pending().await
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const WORKER: WorkerId = WorkerId::from_raw(7);

    #[test]
    fn turns_are_lent_in_the_order_of_requests() {
        let (turns, mut loans) = (Turns::default(), Loans::default());
        assert!(!loans.lend(&turns, WORKER));
        let [mut first, withdrawn, mut third] = [(); 3].map(|()| turns.request());
        drop(withdrawn);
        assert!(loans.lend(&turns, WORKER));
        assert!(first.try_recv().is_ok_and(|turn| turn.worker == WORKER));
        assert!(third.try_recv().is_err());
        assert!(loans.lend(&turns, WORKER));
        assert!(third.try_recv().is_ok());
        assert!(!loans.lend(&turns, WORKER) && !turns.are_wanted());
    }

    #[test]
    fn a_turn_is_returned_when_it_is_dropped() {
        let (turns, mut loans) = (Turns::default(), Loans::default());
        let mut request = turns.request();
        assert!(loans.lend(&turns, WORKER));
        let turn = request.try_recv().unwrap();
        assert!(loans.returned().now_or_never().is_none());
        drop(turn);
        assert!(loans.returned().now_or_never().is_some());
        assert_eq!(loans.len(), 0);
        assert!(loans.returned().now_or_never().is_none());
    }
}
