//! One connection: its requests in flight, and when it is closed.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, interval_at, sleep};

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
    /// Held by the answers of the current period.
    period: Mutex<Arc<()>>,
}

/// A request in flight.
pub(super) struct Turn {
    connection: Arc<Connection>,
    origin: Arc<Origin>,
    is_call: AtomicBool,
}

/// An answer that is being sent. Until then it counts for its peer.
#[derive(Clone)]
pub(super) struct Answering {
    _turn: Arc<Turn>,
    _period: Arc<()>,
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
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        let origin = Arc::new(Origin::new(self.peer, self.ingress.byte_quota()));
        Arc::new(Turn { connection: Arc::clone(self), origin, is_call: AtomicBool::new(false) })
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

    /// Starts a period, and returns the one before. It is stalled as long as answers hold it.
    fn next_period(&self) -> Arc<()> {
        let mut period = self.period.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *period, Arc::new(()))
    }

    /// Closes the connection when it should end early: without requests, with answers that are not
    /// read, or some time after `stop`.
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

    /// Waits until an answer was not read for a whole period.
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
        let period = self.connection.period.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Answering { _turn: self, _period: period }
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
