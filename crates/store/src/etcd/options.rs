use std::fmt;
use std::time::Duration;

use bytes::Bytes;

/// The address of an etcd cluster and the options of its clients.
#[derive(Clone, Debug)]
#[must_use]
pub struct EtcdOptions {
    pub(crate) endpoints: Vec<String>,
    pub(crate) namespace: Bytes,
    pub(crate) credentials: Option<Credentials>,
    pub(crate) tls: Option<EtcdTls>,
    pub(crate) timeouts: EtcdTimeouts,
    pub(crate) server_limits: EtcdServerLimits,
    pub(crate) watch_capacity: usize,
}

impl EtcdOptions {
    /// A cluster with these members, each as `http://host:port` or `https://host:port`.
    pub fn new(endpoints: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            endpoints: endpoints.into_iter().map(Into::into).collect(),
            namespace: Bytes::from_static(b"shardwright/"),
            credentials: None,
            tls: None,
            timeouts: EtcdTimeouts::default(),
            server_limits: EtcdServerLimits::default(),
            watch_capacity: 4_096,
        }
    }

    /// The prefix of every key in etcd, so that several users can share a cluster. It must not be
    /// empty, and no user's prefix may be a prefix of another's. The default is `shardwright/`.
    pub fn namespace(mut self, prefix: impl Into<Bytes>) -> Self {
        self.namespace = prefix.into();
        self
    }

    /// The user and password of this client.
    pub fn credentials(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.credentials = Some(Credentials { user: user.into(), password: password.into() });
        self
    }

    /// The certificates for endpoints that begin with `https`.
    pub fn tls(mut self, tls: EtcdTls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// The timeouts of calls.
    pub const fn timeouts(mut self, timeouts: EtcdTimeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// The limits of the members, if they are not the default.
    pub const fn server_limits(mut self, limits: EtcdServerLimits) -> Self {
        self.server_limits = limits;
        self
    }

    /// How many revisions the reader of a watch may lag. The default is 4,096.
    pub const fn watch_capacity(mut self, revisions: usize) -> Self {
        self.watch_capacity = revisions;
        self
    }
}

/// A user and a password.
#[derive(Clone)]
pub(crate) struct Credentials {
    pub(crate) user: String,
    pub(crate) password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

/// Certificates, each in PEM.
#[derive(Clone)]
pub struct EtcdTls {
    /// The certificate authority of the members.
    pub certificate_authority: Vec<u8>,
    /// The client certificate and its private key, if the members require one.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// The name in the members' certificates, if it differs from that of the endpoints.
    pub server_name: Option<String>,
}

impl fmt::Debug for EtcdTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdTls").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

/// The timeouts of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EtcdTimeouts {
    /// To open a connection and get an answer to a first read. Must be less than for a call.
    pub connect: Duration,
    /// For one member to answer a read, a renewal or a ping. Then the next member is tried.
    pub attempt: Duration,
    /// For a whole call, including time in the queue. A write is sent once and may use all of it.
    pub call: Duration,
    /// For a silent watch, before the client requests a progress report.
    pub silence: Duration,
    /// Between two pings of a connection in use. By default, etcd closes a connection that pings
    /// more often than every five seconds.
    pub ping: Duration,
}

impl Default for EtcdTimeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(2),
            attempt: Duration::from_secs(2),
            call: Duration::from_secs(5),
            silence: Duration::from_secs(3),
            ping: Duration::from_secs(6),
        }
    }
}

/// What a member accepts in one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EtcdServerLimits {
    /// Its `--max-txn-ops`. The client uses at most 128.
    pub operations: usize,
    /// Its `--max-request-bytes`.
    pub bytes: usize,
}

impl EtcdServerLimits {
    /// The least limits that the client supports. Below them, commits of a useful size do not fit.
    pub const LEAST: Self = Self { operations: 32, bytes: 524_288 };
}

impl Default for EtcdServerLimits {
    fn default() -> Self {
        Self { operations: 128, bytes: 1_572_864 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_printed() {
        let tls = EtcdTls {
            certificate_authority: b"public".to_vec(),
            identity: Some((b"ours".to_vec(), b"SECRET".to_vec())),
            server_name: None,
        };
        let options = EtcdOptions::new(["http://member"]).credentials("NAME", "SECRET").tls(tls);
        let text = format!("{options:?}");
        assert!(text.contains("http://member"), "{text}");
        // As text and as a list of bytes.
        assert!(!text.contains("SECRET") && !text.contains("83, 69, 67"), "{text}");
        assert!(!text.contains("NAME"), "{text}");
    }
}
