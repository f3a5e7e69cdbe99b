//! One connection: its requests in flight, and when it is closed.

use std::future::{Future, pending};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, interval_at, sleep, sleep_until};

use super::ingress::Ingress;
use crate::call::Origin;
use crate::quota::{Charge, Peer};

/// A connection and its requests.
pub(super) struct Connection {
    ingress: Arc<Ingress>,
    peer: Peer,
    local: SocketAddr,
    _charge: Charge,
    /// All requests so far.
    begun: AtomicU64,
    /// Requests of which no answer is sent yet.
    in_flight: AtomicU64,
    /// Complete requests of which no answer is sent yet.
    calls: AtomicU64,
    no_call: Notify,
    /// Held by the answers that progressed in the current period.
    period: Mutex<Arc<()>>,
    /// Since when the head of an HTTP request is incomplete.
    head: watch::Sender<Option<Instant>>,
}

/// A request in flight.
pub(super) struct Turn {
    connection: Arc<Connection>,
    origin: Arc<Origin>,
    is_call: AtomicBool,
}

/// An answer, or a part of it, that is being sent. Until then it counts for its peer.
#[derive(Clone)]
pub(super) struct Answering {
    turn: Arc<Turn>,
    /// The period of the last progress.
    period: Arc<()>,
}

impl Connection {
    pub(super) fn new(
        ingress: Arc<Ingress>,
        peer: Peer,
        local: SocketAddr,
        charge: Charge,
    ) -> Self {
        Self {
            ingress,
            peer,
            local,
            _charge: charge,
            begun: AtomicU64::new(0),
            in_flight: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            no_call: Notify::new(),
            period: Mutex::default(),
            head: watch::Sender::new(None),
        }
    }

    pub(super) fn ingress(&self) -> &Ingress {
        &self.ingress
    }

    /// The address that the peer has reached.
    pub(super) const fn local(&self) -> SocketAddr {
        self.local
    }

    /// Begins a request.
    pub(super) fn begin(self: &Arc<Self>) -> Arc<Turn> {
        self.head.send_if_modified(|since| since.take().is_some());
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        let origin = Arc::new(Origin::new(self.peer, self.ingress.byte_quota()));
        Arc::new(Turn { connection: Arc::clone(self), origin, is_call: AtomicBool::new(false) })
    }

    /// The head of an HTTP request begins, unless the received bytes belong to an earlier request.
    pub(super) fn head_begins(&self) {
        if self.in_flight.load(Ordering::Relaxed) == 0 {
            self.head.send_if_modified(|since| {
                let is_first = since.is_none();
                since.get_or_insert_with(Instant::now);
                is_first
            });
        }
    }

    /// Waits until the head of a request is late.
    async fn head_late(&self) {
        let timeout = self.ingress.limits().header_timeout;
        let mut head = self.head.subscribe();
        loop {
            let since = *head.borrow_and_update();
            let late = async {
                match since {
                    Some(since) => sleep_until(since + timeout).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                // The sender lives as long as this connection.
                _ = head.changed() => {}
                () = late => return,
            }
        }
    }

    /// Waits until no call is in progress.
    async fn no_call(&self) {
        loop {
            let mut ended = pin!(self.no_call.notified());
            ended.as_mut().enable();
            if self.calls.load(Ordering::Relaxed) == 0 {
                return;
            }
            ended.await;
        }
    }

    /// Starts a period, and returns the one before. Answers that hold it have not progressed since.
    fn next_period(&self) -> Arc<()> {
        std::mem::replace(&mut *self.period(), Arc::new(()))
    }

    fn period(&self) -> MutexGuard<'_, Arc<()>> {
        self.period.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the connection when it should end early: without requests, with late headers, with
    /// answers that are not read, or some time after `stop`.
    pub(super) async fn run<C, T>(
        self: Arc<Self>,
        connection: C,
        close: fn(Pin<&mut C>),
        mut stop: watch::Receiver<()>,
    ) where
        C: Future<Output = T>,
    {
        let limits = *self.ingress.limits();
        let mut connection = pin!(connection);
        tokio::select! {
            biased;
            _ = &mut connection => return,
            () = self.stalled() => return,
            () = self.head_late() => return,
            // The sender is dropped.
            _ = stop.changed() => {}
            () = self.idle() => {}
        }
        close(connection.as_mut());
        let half_open = async {
            sleep(limits.half_open_timeout).await;
            self.no_call().await;
        };
        tokio::select! {
            biased;
            _ = &mut connection => {}
            () = self.stalled() => {}
            () = half_open => {}
        }
    }

    /// Waits until the peer has accepted no part of an answer for a whole period.
    async fn stalled(&self) {
        let period = self.ingress.limits().answer_timeout;
        let mut ticks = interval_at(Instant::now() + period, period);
        let mut before = self.next_period();
        loop {
            ticks.tick().await;
            if Arc::strong_count(&before) > 1 {
                return;
            }
            before = self.next_period();
        }
    }

    /// Waits until there was no request for a whole period.
    async fn idle(&self) {
        let period = self.ingress.limits().idle_timeout;
        let mut ticks = interval_at(Instant::now() + period, period);
        let mut before = self.begun.load(Ordering::Relaxed);
        loop {
            ticks.tick().await;
            let begun = self.begun.load(Ordering::Relaxed);
            if begun == before && self.in_flight.load(Ordering::Relaxed) == 0 {
                return;
            }
            before = begun;
        }
    }
}

impl Turn {
    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(super) const fn origin(&self) -> &Arc<Origin> {
        &self.origin
    }

    /// The request was read to its end. From here on it is a call.
    pub(super) fn is_complete(&self) {
        if !self.is_call.swap(true, Ordering::Relaxed) {
            self.connection.calls.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Begins to send the answer.
    pub(super) fn answer(self: Arc<Self>) -> Answering {
        let period = self.connection.period().clone();
        Answering { turn: self, period }
    }
}

impl Answering {
    /// The peer accepts the next part.
    pub(super) fn progress(&mut self) {
        self.period = self.turn.connection.period().clone();
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.connection.in_flight.fetch_sub(1, Ordering::Relaxed);
        let is_call = self.is_call.load(Ordering::Relaxed);
        if is_call && self.connection.calls.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.connection.no_call.notify_waiters();
        }
    }
}
