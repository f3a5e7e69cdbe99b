//! Calls to any member of the cluster that answers.

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

/// Whether a call with unknown outcome may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// Always: it only reads, or is idempotent.
    Freely,
    /// Only if it surely was not applied.
    IfNotApplied,
}

/// The deadline and the pauses of retries.
#[derive(Debug)]
pub(crate) struct Backoff {
    deadline: Option<Instant>,
    pause: Duration,
}

impl Backoff {
    pub(crate) fn new(time: Duration) -> Self {
        Self { deadline: Some(Instant::now() + time), pause: FIRST_PAUSE }
    }

    pub(crate) const fn endless() -> Self {
        Self { deadline: None, pause: FIRST_PAUSE }
    }

    /// The result of an attempt, if it ends in time.
    pub(crate) async fn within<T>(&self, attempt: impl Future<Output = T>) -> Option<T> {
        match self.deadline {
            Some(deadline) => timeout_at(deadline, attempt).await.ok(),
            None => Some(attempt.await),
        }
    }

    /// Waits before the next attempt. Returns false if there is no time for one.
    pub(crate) async fn pause(&mut self) -> bool {
        if self.deadline.is_some_and(|deadline| Instant::now() + self.pause >= deadline) {
            return false;
        }
        sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        true
    }
}

/// The client of a cluster. It uses one connection at a time. When that fails, it connects to the
/// next member.
#[derive(Debug)]
pub(crate) struct Client {
    endpoints: Vec<Endpoint>,
    options: EtcdOptions,
    current: Mutex<Current>,
    /// The runtime of all tasks, even for callers on another runtime.
    runtime: Handle,
}

#[derive(Debug, Default)]
struct Current {
    /// The endpoint to connect to.
    turn: usize,
    opened: u64,
    connection: Option<Arc<Connection>>,
    /// When and why no member could be reached.
    failed: Option<(Instant, EtcdFailure)>,
}

impl Client {
    pub(crate) fn new(options: EtcdOptions) -> Result<Self, Fault> {
        let endpoints = endpoints(&options)?;
        if endpoints.is_empty() {
            return Err(Fault::new(FaultKind::Other, "no etcd endpoint is configured"));
        }
        Ok(Self { endpoints, options, current: Mutex::default(), runtime: Handle::current() })
    }

    /// Runs a task to its end in the background.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(task);
    }

    pub(crate) const fn timeouts(&self) -> &EtcdTimeouts {
        &self.options.timeouts
    }

    /// Makes a call on the current connection. If it fails and may be repeated, the next connection
    /// is used, until the timeout of a call.
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

    /// The same with another timeout. `is_slow` is called when an answer takes unusually long. By
    /// then, new requests use another connection.
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
        let mut backoff = Backoff { deadline: Some(deadline), pause: FIRST_PAUSE };
        loop {
            let failure = match self.attempt(what, repeat, deadline, is_slow, &call).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            let again = failure.remedy == Remedy::AnotherConnection
                && (repeat == Repeat::Freely || failure.effect == Effect::Nothing);
            if !again || !backoff.pause().await {
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
            Repeat::IfNotApplied => rest,
        };
        let ends = Instant::now() + time;
        let mut calling = pin!(call(Arc::clone(&connection), time));
        let mut answer = timeout(first, &mut calling).await;
        if answer.is_err() && first < time {
            // The call may still be answered. Later requests better go to another member, but this
            // answer must not wait for the new connection.
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

    /// The current connection, or a new one.
    pub(crate) async fn connection(&self) -> Result<Arc<Connection>, EtcdFailure> {
        let asked = Instant::now();
        let mut current = self.current.lock().await;
        if let Some(connection) = &current.connection {
            return Ok(Arc::clone(connection));
        }
        if let Some((when, failure)) = &current.failed
            && *when > asked
        {
            // One caller has tried on behalf of all that were waiting.
            return Err(failure.clone());
        }
        let connected = self.connect(&mut current).await;
        current.failed = connected.as_ref().err().map(|failure| (Instant::now(), failure.clone()));
        connected
    }

    /// Tries each member, starting with the current endpoint.
    async fn connect(&self, current: &mut Current) -> Result<Arc<Connection>, EtcdFailure> {
        let mut last = unreached();
        for _ in 0..self.endpoints.len() {
            let turn = current.turn % self.endpoints.len().max(1);
            let Some(endpoint) = self.endpoints.get(turn) else { break };
            current.opened += 1;
            // Advanced first, because the caller may be dropped while it connects.
            current.turn = turn + 1;
            match Connection::open(endpoint, current.opened, &self.options).await {
                Ok(connection) => {
                    let connection = Arc::new(connection);
                    current.turn = turn;
                    current.connection = Some(Arc::clone(&connection));
                    return Ok(connection);
                }
                // Another member would report the same.
                Err(failure) if failure.remedy != Remedy::AnotherConnection => return Err(failure),
                Err(failure) => last = failure,
            }
        }
        Err(last)
    }

    /// Drops a failed connection, unless another caller has already done so.
    pub(crate) async fn retire(&self, failed: &Connection) {
        let mut current = self.current.lock().await;
        if current.connection.as_ref().is_some_and(|connection| connection.id == failed.id) {
            current.connection = None;
            current.turn += 1;
        }
    }
}

fn unreached() -> EtcdFailure {
    let text = "no etcd member can be reached";
    EtcdFailure::unconnected(Fault::new(FaultKind::Unreachable, text))
}

/// The endpoints of a cluster in tonic's form.
pub(crate) fn endpoints(options: &EtcdOptions) -> Result<Vec<Endpoint>, Fault> {
    options.endpoints.iter().map(|address| endpoint(address, options)).collect()
}

fn endpoint(address: &str, options: &EtcdOptions) -> Result<Endpoint, Fault> {
    let timeouts = &options.timeouts;
    let wrong = |error: tonic::transport::Error| {
        Fault::new(FaultKind::Other, format!("{address} is no etcd endpoint")).because(error)
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
            let text = format!("{address} needs the certificate of its authority");
            Err(Fault::new(FaultKind::Other, text))
        }
        None => Ok(endpoint),
    }
}

/// Large enough that a page of a scan arrives without window updates.
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
    async fn a_call_after_a_timeout_tries_the_next_member() {
        // Both accept connections, and neither ever answers.
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
