//! Calls to whichever member of the cluster answers.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};
use tonic::{Response, Status};

use super::connection::Connection;
use super::failure::{Effect, EtcdFailure, Remedy};
use super::options::{EtcdOptions, EtcdTimeouts, EtcdTls};
use crate::error::{Fault, FaultKind};

const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// Whether a call may be made again when it is not known what has become of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// Yes: it only reads, or doing it twice is the same as once.
    Freely,
    /// Only if it surely was not applied.
    IfNothingHappened,
}

/// How long, and with which pauses, something is tried again.
#[derive(Debug)]
pub(crate) struct Patience {
    deadline: Option<Instant>,
    pause: Duration,
}

impl Patience {
    pub(crate) fn new(time: Duration) -> Self {
        Self { deadline: Some(Instant::now() + time), pause: FIRST_PAUSE }
    }

    pub(crate) const fn endless() -> Self {
        Self { deadline: None, pause: FIRST_PAUSE }
    }

    /// What comes of a try, if anything does in time.
    pub(crate) async fn within<T>(&self, attempt: impl Future<Output = T>) -> Option<T> {
        match self.deadline {
            Some(deadline) => timeout_at(deadline, attempt).await.ok(),
            None => Some(attempt.await),
        }
    }

    /// Waits before the next try, unless there is no time for one.
    pub(crate) async fn pause(&mut self) -> bool {
        if self.deadline.is_some_and(|deadline| Instant::now() + self.pause >= deadline) {
            return false;
        }
        sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        true
    }
}

/// The cluster. One connection at a time is in use, to one of the members; when it fails, the next
/// member has its turn.
#[derive(Debug)]
pub(crate) struct Client {
    endpoints: Vec<Endpoint>,
    options: EtcdOptions,
    current: Mutex<Current>,
    /// Where tasks run, also those of callers that run somewhere else.
    runtime: Handle,
}

#[derive(Debug, Default)]
struct Current {
    /// The endpoint that has its turn.
    turn: usize,
    opened: u64,
    connection: Option<Arc<Connection>>,
    /// When no member could be reached, and why.
    failed: Option<(Instant, EtcdFailure)>,
}

impl Client {
    pub(crate) fn new(options: EtcdOptions) -> Result<Self, Fault> {
        let endpoints = endpoints(&options)?;
        if endpoints.is_empty() {
            return Err(Fault::new(FaultKind::Other, "no endpoint of etcd is given"));
        }
        Ok(Self { endpoints, options, current: Mutex::default(), runtime: Handle::current() })
    }

    /// Runs something to its end beside everything else.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(task);
    }

    pub(crate) const fn timeouts(&self) -> &EtcdTimeouts {
        &self.options.timeouts
    }

    /// Makes a call on the connection that is in use, and if that fails and the call may be made
    /// again, on the next, until the time of a call is over.
    pub(crate) async fn call<T, F, Answer>(
        &self,
        what: &str,
        repeat: Repeat,
        call: F,
    ) -> Result<T, EtcdFailure>
    where
        F: Fn(Arc<Connection>, Duration) -> Answer + Send,
        Answer: Future<Output = Result<Response<T>, Status>> + Send,
    {
        self.call_within(self.options.timeouts.call, &|| (), what, repeat, call).await
    }

    /// The same, until some other time is over. It is notified when an answer takes unusually long,
    /// and by then others are sent elsewhere.
    pub(crate) async fn call_within<T, F, Answer>(
        &self,
        time: Duration,
        is_slow: &(dyn Fn() + Sync),
        what: &str,
        repeat: Repeat,
        call: F,
    ) -> Result<T, EtcdFailure>
    where
        F: Fn(Arc<Connection>, Duration) -> Answer + Send,
        Answer: Future<Output = Result<Response<T>, Status>> + Send,
    {
        let deadline = Instant::now() + time;
        let mut patience = Patience { deadline: Some(deadline), pause: FIRST_PAUSE };
        loop {
            let failure = match self.attempt(what, repeat, deadline, is_slow, &call).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            let again = failure.remedy == Remedy::AnotherConnection
                && (repeat == Repeat::Freely || failure.effect == Effect::Nothing);
            if !again || !patience.pause().await {
                return Err(failure);
            }
        }
    }

    async fn attempt<T, F, Answer>(
        &self,
        what: &str,
        repeat: Repeat,
        deadline: Instant,
        is_slow: &(dyn Fn() + Sync),
        call: &F,
    ) -> Result<T, EtcdFailure>
    where
        F: Fn(Arc<Connection>, Duration) -> Answer + Send,
        Answer: Future<Output = Result<Response<T>, Status>> + Send,
    {
        let connection = match timeout_at(deadline, self.connection()).await {
            Ok(connected) => connected?,
            Err(_late) => return Err(unreached()),
        };
        let rest = deadline.saturating_duration_since(Instant::now());
        let first = rest.min(self.options.timeouts.attempt);
        let time = match repeat {
            Repeat::Freely => first,
            Repeat::IfNothingHappened => rest,
        };
        let ends = Instant::now() + time;
        let mut calling = pin!(call(Arc::clone(&connection), time));
        let mut answer = timeout(first, &mut calling).await;
        if answer.is_err() && first < time {
            // It may still be answered. Later requests better go to another member, but an
            // answer must not wait until another member is found.
            let giving_up = async {
                self.retire(&connection).await;
                is_slow();
            };
            answer = timeout_at(ends, async {
                tokio::select! {
                    biased;
                    answer = &mut calling => answer,
                    () = giving_up => calling.await,
                }
            })
            .await;
        }
        let failure = match answer {
            Ok(Ok(response)) => return Ok(response.into_inner()),
            Ok(Err(status)) => connection.failure(status),
            Err(_late) => EtcdFailure::late(what),
        };
        if failure.remedy == Remedy::AnotherConnection {
            self.retire(&connection).await;
        }
        Err(failure)
    }

    /// The connection that is in use; a new one if there is none.
    pub(crate) async fn connection(&self) -> Result<Arc<Connection>, EtcdFailure> {
        let asked = Instant::now();
        let mut current = self.current.lock().await;
        if let Some(connection) = &current.connection {
            return Ok(Arc::clone(connection));
        }
        if let Some((when, failure)) = &current.failed
            && *when > asked
        {
            // One caller has tried for all that were waiting.
            return Err(failure.clone());
        }
        let connected = self.connect(&mut current).await;
        current.failed = connected.as_ref().err().map(|failure| (Instant::now(), failure.clone()));
        connected
    }

    /// Tries each member, beginning with the one that has its turn.
    async fn connect(&self, current: &mut Current) -> Result<Arc<Connection>, EtcdFailure> {
        let mut last = unreached();
        for _ in 0..self.endpoints.len() {
            let turn = current.turn % self.endpoints.len().max(1);
            let Some(endpoint) = self.endpoints.get(turn) else { break };
            current.opened += 1;
            // Before it is known how it ends: a caller may not wait for that.
            current.turn = turn + 1;
            match Connection::open(endpoint, current.opened, &self.options).await {
                Ok(connection) => {
                    let connection = Arc::new(connection);
                    current.turn = turn;
                    current.connection = Some(Arc::clone(&connection));
                    return Ok(connection);
                }
                // Another member would say the same.
                Err(failure) if failure.remedy != Remedy::AnotherConnection => return Err(failure),
                Err(failure) => last = failure,
            }
        }
        Err(last)
    }

    /// Gives up a connection that has failed, unless another caller has done so already.
    pub(crate) async fn retire(&self, failed: &Connection) {
        let mut current = self.current.lock().await;
        if current.connection.as_ref().is_some_and(|connection| connection.id == failed.id) {
            current.connection = None;
            current.turn += 1;
        }
    }
}

fn unreached() -> EtcdFailure {
    let text = "no member of etcd could be reached";
    EtcdFailure::unconnected(Fault::new(FaultKind::Unreachable, text))
}

/// The endpoints of a cluster, as tonic sees them.
pub(crate) fn endpoints(options: &EtcdOptions) -> Result<Vec<Endpoint>, Fault> {
    options.endpoints.iter().map(|address| endpoint(address, options)).collect()
}

fn endpoint(address: &str, options: &EtcdOptions) -> Result<Endpoint, Fault> {
    let timeouts = &options.timeouts;
    let wrong = |error: tonic::transport::Error| {
        Fault::new(FaultKind::Other, format!("{address} is no endpoint of etcd")).because(error)
    };
    let endpoint = Endpoint::from_shared(Bytes::from(address.to_owned()))
        .map_err(wrong)?
        .connect_timeout(timeouts.connect)
        .tcp_nodelay(true)
        // etcd closes a connection that pings while it is idle.
        .keep_alive_while_idle(false)
        .http2_keep_alive_interval(timeouts.ping)
        .keep_alive_timeout(timeouts.attempt)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
    match &options.tls {
        Some(tls) => endpoint.tls_config(tls_config(tls)).map_err(wrong),
        None if address.starts_with("https:") => {
            let text = format!("{address} needs the certificate of who vouches for it");
            Err(Fault::new(FaultKind::Other, text))
        }
        None => Ok(endpoint),
    }
}

/// A page of a scan arrives without waiting for us to say that we want more.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 8 << 20;

fn tls_config(tls: &EtcdTls) -> ClientTlsConfig {
    let authority = Certificate::from_pem(&tls.certificate_authority);
    let mut config = ClientTlsConfig::new().ca_certificate(authority);
    if let Some((certificate, key)) = &tls.identity {
        config = config.identity(Identity::from_pem(certificate, key));
    }
    if let Some(name) = &tls.server_name {
        config = config.domain_name(name);
    }
    config
}

#[cfg(test)]
#[cfg(feature = "test-support")]
mod tests {
    use tokio::net::TcpListener;
    use tokio::select;

    use super::*;

    #[tokio::test]
    async fn who_gives_up_on_a_member_that_does_not_answer_asks_the_next_one_later() {
        // Both take connections, and neither ever says a word.
        let listeners = [
            TcpListener::bind("127.0.0.1:0").await.unwrap(),
            TcpListener::bind("127.0.0.1:0").await.unwrap(),
        ];
        let address = |listener: &TcpListener| format!("http://{}", listener.local_addr().unwrap());
        let patient = EtcdTimeouts { connect: Duration::from_secs(60), ..EtcdTimeouts::default() };
        let options = EtcdOptions::new(listeners.iter().map(address)).timeouts(patient);
        let client = Client::new(options).unwrap();
        for expected in [0, 1, 0] {
            let [first, second] = &listeners;
            let asked = select! {
                connected = client.connection() => panic!("{connected:?}"),
                _ = first.accept() => 0,
                _ = second.accept() => 1,
            };
            assert_eq!(asked, expected);
        }
    }
}
