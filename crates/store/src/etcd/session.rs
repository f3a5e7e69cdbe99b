//! Sessions are leases, all kept alive over one stream.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex as Lock, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::client::{Backoff, Client, Repeat};
use super::connection::Connection;
use super::failure::{EtcdFailure, Remedy, ServerMessage};
use super::store::{Shared, store_error};
use super::wire::{
    LeaseGrantRequest, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseRevokeRequest,
    LeaseTimeToLiveRequest,
};
use crate::error::SessionError;
use crate::store::{Session, SessionId};

/// The largest number of requests that wait for the stream.
const QUEUE: usize = 256;

/// The stream that keeps leases alive, opened on demand.
///
/// A stream can die silently. So each renewal has a deadline of its own. A renewal without an
/// answer closes the whole stream, because the others would get no answer either.
#[derive(Debug)]
pub(crate) struct KeepAlive {
    client: Arc<Client>,
    stream: Mutex<Option<Arc<Stream>>>,
}

#[derive(Debug)]
struct Stream {
    connection: Arc<Connection>,
    requests: mpsc::Sender<LeaseKeepAliveRequest>,
    waiting: Arc<Waiting>,
}

/// The waiting renewals of each lease, in order of their requests. `None` once the stream has
/// ended.
#[derive(Debug)]
struct Waiting(Lock<Option<HashMap<i64, VecDeque<oneshot::Sender<Answer>>>>>);

/// The remaining seconds of a lease, or the failure.
type Answer = Result<i64, EtcdFailure>;

impl KeepAlive {
    pub(crate) fn new(client: Arc<Client>) -> Self {
        Self { client, stream: Mutex::default() }
    }

    /// Renews a lease.
    pub(crate) async fn renew(&self, session: SessionId) -> Result<(), SessionError> {
        let mut backoff = Backoff::new(self.client.timeouts().call);
        loop {
            let attempt = backoff.within(self.attempt(session.get().cast_signed())).await;
            match attempt.unwrap_or_else(|| Err(EtcdFailure::late("a renewal"))) {
                Ok(1..) => return Ok(()),
                Ok(_) => return Err(SessionError::Gone(session)),
                Err(failure) => {
                    let again = failure.remedy == Remedy::AnotherConnection;
                    if !again || !backoff.pause().await {
                        return Err(store_error(failure).into());
                    }
                }
            }
        }
    }

    async fn attempt(&self, id: i64) -> Answer {
        let stream = self.stream().await?;
        let limit = self.client.timeouts().attempt;
        let answer = match timeout(limit, stream.ask(id)).await {
            Ok(answer) => answer,
            Err(_late) => Err(EtcdFailure::late("a renewal")),
        };
        if answer.is_err() {
            self.discard(&stream).await;
        }
        answer
    }

    async fn stream(&self) -> Result<Arc<Stream>, EtcdFailure> {
        let mut current = self.stream.lock().await;
        if let Some(stream) = &*current {
            return Ok(Arc::clone(stream));
        }
        let connection = self.client.connection().await?;
        let stream = Arc::new(Stream::open(&self.client, connection));
        *current = Some(Arc::clone(&stream));
        Ok(stream)
    }

    async fn discard(&self, failed: &Arc<Stream>) {
        let mut current = self.stream.lock().await;
        if current.as_ref().is_some_and(|stream| Arc::ptr_eq(stream, failed)) {
            *current = None;
            failed.waiting.end(&EtcdFailure::late("a renewal"));
            self.client.retire(&failed.connection).await;
        }
    }
}

impl Stream {
    fn open(client: &Client, connection: Arc<Connection>) -> Self {
        let (requests, outgoing) = mpsc::channel(QUEUE);
        let waiting = Arc::new(Waiting(Lock::new(Some(HashMap::new()))));
        let stream = Self { connection, requests, waiting };
        // A member sends nothing before its first answer, not even headers.
        let request = stream.connection.stream(ReceiverStream::new(outgoing));
        let mut leases = stream.connection.lease();
        let (waiting, connection) = (Arc::clone(&stream.waiting), Arc::clone(&stream.connection));
        client.spawn(async move {
            let ended = match leases.lease_keep_alive(request).await {
                Ok(response) => waiting.answer_from(response.into_inner()).await,
                Err(status) => status,
            };
            waiting.end(&connection.failure(ended));
        });
        stream
    }

    async fn ask(&self, id: i64) -> Answer {
        let (sender, receiver) = oneshot::channel();
        if !self.waiting.add(id, sender) {
            return Err(ended());
        }
        if self.requests.send(LeaseKeepAliveRequest { id }).await.is_err() {
            return Err(ended());
        }
        receiver.await.unwrap_or_else(|_dropped| Err(ended()))
    }
}

fn ended() -> EtcdFailure {
    EtcdFailure::of(Status::unavailable("the stream of renewals has ended"))
}

impl Waiting {
    fn add(&self, id: i64, sender: oneshot::Sender<Answer>) -> bool {
        match &mut *self.lock() {
            Some(waiting) => {
                waiting.entry(id).or_default().push_back(sender);
                true
            }
            None => false,
        }
    }

    async fn answer_from(&self, mut answers: tonic::Streaming<LeaseKeepAliveResponse>) -> Status {
        loop {
            match answers.message().await {
                Ok(Some(answer)) => self.answer(&answer),
                Ok(None) => return Status::unavailable("the stream of renewals has ended"),
                Err(status) => return status,
            }
        }
    }

    fn answer(&self, answer: &LeaseKeepAliveResponse) {
        let mut waiting = self.lock();
        let Some(queues) = &mut *waiting else { return };
        let Some(queue) = queues.get_mut(&answer.id) else { return };
        let first = queue.pop_front();
        if queue.is_empty() {
            queues.remove(&answer.id);
        }
        if let Some(sender) = first {
            // A dropped caller needs no answer.
            let _gone = sender.send(Ok(answer.ttl));
        }
    }

    fn end(&self, failure: &EtcdFailure) {
        let queues = self.lock().take().unwrap_or_default();
        for sender in queues.into_values().flatten() {
            let _gone = sender.send(Err(failure.clone()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<HashMap<i64, VecDeque<oneshot::Sender<Answer>>>>> {
        // Nothing panics while it holds the lock. Even then the map would be consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens a session of whole seconds, at least one. The server may grant more.
pub(crate) async fn open(shared: &Shared, ttl: Duration) -> Result<Session, SessionError> {
    let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
    let ttl = i64::try_from(seconds.max(1)).unwrap_or(i64::MAX);
    let send = |connection: Arc<Connection>, limit| {
        let request = connection.request(LeaseGrantRequest { ttl, id: 0 }, limit);
        async move { connection.lease().lease_grant(request).await }
    };
    // An unused session expires by itself.
    let granted = shared.client.call("a new session", Repeat::Freely, send).await;
    let granted = granted.map_err(store_error)?;
    Ok(Session {
        id: SessionId::new(granted.id.cast_unsigned()),
        ttl: Duration::from_secs(granted.ttl.unsigned_abs()),
    })
}

/// Ends a session.
pub(crate) async fn close(shared: &Shared, session: SessionId) -> Result<(), SessionError> {
    let asked_before = AtomicBool::new(false);
    let asked_twice = AtomicBool::new(false);
    let send = |connection: Arc<Connection>, limit| {
        if asked_before.swap(true, Ordering::Relaxed) {
            asked_twice.store(true, Ordering::Relaxed);
        }
        let id = session.get().cast_signed();
        let request = connection.request(LeaseRevokeRequest { id }, limit);
        async move { connection.lease().lease_revoke(request).await }
    };
    match shared.client.call("a close of a session", Repeat::Freely, send).await {
        Ok(_) => Ok(()),
        // The first attempt may have ended it, and only the answer was lost.
        Err(failure) if failure.message == Some(ServerMessage::LeaseNotFound) => {
            if asked_twice.load(Ordering::Relaxed) {
                Ok(())
            } else {
                Err(SessionError::Gone(session))
            }
        }
        Err(failure) => Err(store_error(failure).into()),
    }
}

/// Whether a session has ended, as far as the server reports it.
pub(crate) async fn is_gone(shared: &Shared, session: SessionId) -> bool {
    let send = |connection: Arc<Connection>, limit| {
        let id = session.get().cast_signed();
        let request = connection.request(LeaseTimeToLiveRequest { id }, limit);
        async move { connection.lease().lease_time_to_live(request).await }
    };
    match shared.client.call("a check of a session", Repeat::Freely, send).await {
        Ok(answer) => answer.ttl < 0,
        Err(failure) => failure.message == Some(ServerMessage::LeaseNotFound),
    }
}
