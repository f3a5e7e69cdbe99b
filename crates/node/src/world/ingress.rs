//! Accepts connections, within limits.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use shardwright_api::limits::{ListenLimits, RESERVED_FILES};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::connection::Connection;
use crate::quota::{Peer, Quota};

/// Pauses after an error of `accept`, for example because no file descriptor is free.
const PAUSE: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The processes that a listener accepts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Accepted {
    /// Clients. Each connection has a part of the share of its address.
    Clients,
    /// Members of the cluster. A gate sends the calls of all its clients on one connection, so a
    /// connection may use the whole share.
    Members,
}

/// The limits of a process that listens, and what its connections use of them.
#[derive(Debug)]
pub struct Ingress {
    limits: ListenLimits,
    connections: Arc<Quota>,
    bytes: Arc<Quota>,
    next: AtomicU64,
}

impl Ingress {
    /// Starts with nothing in use. The number of connections is lowered to what the limit of open
    /// files leaves.
    #[must_use]
    pub fn new(mut limits: ListenLimits) -> Arc<Self> {
        if let Some(files) = getrlimit(Resource::Nofile).current {
            limits.connections.all = limits.connections.all.min(leaves(files));
        }
        Arc::new(Self {
            limits,
            connections: Quota::new(limits.connections),
            bytes: Quota::new(limits.bytes),
            next: AtomicU64::new(0),
        })
    }

    /// The limits in effect.
    #[must_use]
    pub const fn limits(&self) -> &ListenLimits {
        &self.limits
    }

    /// The number of open connections.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.connections.used()
    }

    /// The bytes of requests and unsent answers.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.used()
    }

    pub(super) const fn byte_quota(&self) -> &Arc<Quota> {
        &self.bytes
    }

    /// Registers a connection, unless its peer has too many.
    fn admit(
        self: &Arc<Self>,
        stream: &TcpStream,
        from: SocketAddr,
        accepted: Accepted,
    ) -> Option<Connection> {
        let network = network_of(from.ip());
        let charge = self.connections.take(Some(Peer { network, connection: None }), 1).ok()?;
        let connection = match accepted {
            Accepted::Clients => Some(self.next.fetch_add(1, Ordering::Relaxed)),
            Accepted::Members => None,
        };
        let local = stream.local_addr().ok()?;
        stream.set_nodelay(true).ok()?;
        Some(Connection::new(Arc::clone(self), Peer { network, connection }, local, charge))
    }
}

/// The number of connections that a limit of open files leaves.
fn leaves(files: u64) -> u64 {
    files.saturating_sub(RESERVED_FILES.min(files / 2)).max(1)
}

/// The part of an address that identifies a peer: a host has a whole IPv6 network of 64 bits.
fn network_of(address: IpAddr) -> u128 {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits() >> 64 << 64,
    }
}

/// Accepts connections until `stop` is ready, and waits for them to end.
///
/// `serve` runs one connection. Its receiver changes when the listener stops.
pub(super) async fn accept<F: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    accepted: Accepted,
    ingress: Arc<Ingress>,
    stop: impl Future<Output = ()>,
    serve: impl Fn(TcpStream, Arc<Connection>, watch::Receiver<()>) -> F,
) {
    let (closing, closed) = watch::channel(());
    let mut running = JoinSet::new();
    let mut stop = pin!(stop);
    let mut pause = PAUSE;
    loop {
        let next = tokio::select! {
            biased;
            () = &mut stop => break,
            Some(_) = running.join_next() => continue,
            next = listener.accept() => next,
        };
        match next {
            Ok((stream, from)) => {
                pause = PAUSE;
                if let Some(connection) = ingress.admit(&stream, from, accepted) {
                    running.spawn(serve(stream, Arc::new(connection), closed.clone()));
                }
            }
            // The peer gave up.
            Err(error) if is_of_the_peer(&error) => {}
            Err(_) => {
                tokio::select! {
                    biased;
                    () = &mut stop => break,
                    () = sleep(pause) => pause = (pause * 2).min(PAUSE_MAX),
                }
            }
        }
    }
    drop((listener, closing));
    let ended = async { while running.join_next().await.is_some() {} };
    // The remaining connections are closed with their tasks.
    let _ = timeout(ingress.limits.shutdown_timeout, ended).await;
}

fn is_of_the_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_the_rest_of_the_process() {
        assert_eq!(leaves(1_024), 896);
        assert_eq!(leaves(20_000), 19_872);
        assert_eq!((leaves(64), leaves(1), leaves(0)), (32, 1, 1));
    }

    #[test]
    fn a_host_is_one_peer() {
        let network = |text: &str| network_of(text.parse().unwrap());
        assert_eq!(network("127.0.0.1"), network("::ffff:127.0.0.1"));
        assert_ne!(network("127.0.0.1"), network("127.0.0.2"));
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:1"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
    }
}
