//! What it means for a request that the answer is not the wanted one.
//!
//! A write that may have been applied must differ from one that surely was not: only the second
//! may be sent again. etcd says which by the text of its errors (its codes are too coarse, and
//! some errors reach us under a wrong one), and most of what goes wrong on the way says nothing
//! either way. Whatever is not in [`SERVER_MESSAGES`] is therefore unknown.
//!
//! | what we hear | the write | and then |
//! |---|---|---|
//! | the connection could not be made | not applied | another member is asked |
//! | no leader; proposal dropped; not capable; learner | not applied | another member is asked |
//! | token invalid or outdated | not applied | sent again after authenticating |
//! | too many requests | not applied | busy |
//! | too large, too many operations, key twice or empty | not applied | our own limits are wrong |
//! | wrong password, no user, no permission | not applied | denied |
//! | no name given, though we have one | not applied | asked again, with our name |
//! | lease not found | not applied | the session is gone |
//! | method not known | not applied | not an etcd that we can use |
//! | cluster corrupt | not applied | damaged |
//! | database space exceeded | applied **or** not, but settled | a read shows, see below |
//! | request timed out, leader changed, server stopped | unknown | |
//! | our deadline has passed | unknown | |
//! | the connection broke, the stream was reset | unknown | |
//! | anything else | unknown | |
//!
//! A server that runs out of space while requests are on their way applies the first of them and
//! then answers that there was no space. Nothing more comes of such a request, so that what is
//! stored shows what has become of it.

use std::error::Error as StdError;

use tonic::{Code, ConnectError, Status, TimeoutExpired};

use crate::error::{Fault, FaultKind};

/// What has become of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It surely was not and will not be applied.
    Nothing,
    /// It was applied or it was not, and nothing more will come of it.
    Settled,
    /// It may have been applied, or may still be.
    Unknown,
}

/// What may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// A new connection, to another member if there is one.
    AnotherConnection,
    /// To send apart what was sent together: one of them may be to blame.
    Apart,
    /// Nothing that can be done here.
    None,
}

/// An answer that is not the wanted one.
#[derive(Clone, Debug)]
pub(crate) struct EtcdFailure {
    pub(crate) effect: Effect,
    pub(crate) remedy: Remedy,
    pub(crate) fault: Fault,
    pub(crate) message: Option<ServerMessage>,
}

/// The errors of etcd that are handled here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerMessage {
    LeaseNotFound,
    NoSuchMoment,
    AuthenticationOff,
    NameMissing,
    Other,
}

struct Row {
    text: &'static str,
    effect: Effect,
    kind: FaultKind,
    remedy: Remedy,
    message: ServerMessage,
}

const fn refused(text: &'static str, kind: FaultKind, remedy: Remedy) -> Row {
    Row { text, effect: Effect::Nothing, kind, remedy, message: ServerMessage::Other }
}

const fn unknown(text: &'static str, kind: FaultKind) -> Row {
    let remedy = Remedy::AnotherConnection;
    Row { text, effect: Effect::Unknown, kind, remedy, message: ServerMessage::Other }
}

/// What etcd says, each by its beginning.
const SERVER_MESSAGES: &[Row] = &[
    refused("etcdserver: no leader", FaultKind::Unreachable, Remedy::AnotherConnection),
    refused("raft proposal dropped", FaultKind::Unreachable, Remedy::AnotherConnection),
    refused("etcdserver: not capable", FaultKind::Unreachable, Remedy::AnotherConnection),
    refused("etcdserver: rpc not supported", FaultKind::Unreachable, Remedy::AnotherConnection),
    refused("etcdserver: invalid auth token", FaultKind::Denied, Remedy::AnotherConnection),
    refused("etcdserver: revision of auth store", FaultKind::Denied, Remedy::AnotherConnection),
    refused("etcdserver: authentication failed", FaultKind::Denied, Remedy::None),
    refused("etcdserver: permission denied", FaultKind::Denied, Remedy::Apart),
    refused("etcdserver: too many requests", FaultKind::Busy, Remedy::None),
    refused("etcdserver: request is too large", FaultKind::Other, Remedy::None),
    refused("grpc: received message larger than max", FaultKind::Other, Remedy::None),
    refused("etcdserver: too many operations", FaultKind::Other, Remedy::None),
    refused("etcdserver: duplicate key given", FaultKind::Other, Remedy::None),
    refused("etcdserver: key is not provided", FaultKind::Other, Remedy::None),
    refused("etcdserver: corrupt cluster", FaultKind::Damaged, Remedy::None),
    Row {
        message: ServerMessage::NameMissing,
        ..refused("etcdserver: user name is empty", FaultKind::Denied, Remedy::None)
    },
    Row {
        message: ServerMessage::LeaseNotFound,
        ..refused("etcdserver: requested lease not found", FaultKind::Other, Remedy::Apart)
    },
    Row {
        // Compacted, or not yet there because the cluster was set back.
        message: ServerMessage::NoSuchMoment,
        ..refused("etcdserver: mvcc: required revision", FaultKind::Other, Remedy::None)
    },
    Row {
        message: ServerMessage::AuthenticationOff,
        ..refused("etcdserver: authentication is not enabled", FaultKind::Other, Remedy::None)
    },
    Row {
        effect: Effect::Settled,
        ..refused("etcdserver: mvcc: database space exceeded", FaultKind::Full, Remedy::None)
    },
    unknown("etcdserver: request timed out", FaultKind::TimedOut),
    unknown("etcdserver: leader changed", FaultKind::Unreachable),
    unknown("etcdserver: server stopped", FaultKind::Unreachable),
];

impl EtcdFailure {
    /// What a status means.
    pub(crate) fn of(status: Status) -> Self {
        let known = SERVER_MESSAGES.iter().find(|row| status.message().starts_with(row.text));
        let (effect, kind, remedy) = match known {
            Some(row) => (row.effect, row.kind, row.remedy),
            None => unlisted(&status),
        };
        let message = known.map(|row| row.message);
        Self { effect, remedy, fault: fault(kind, status), message }
    }

    /// Nothing was sent, for want of a connection.
    pub(crate) fn unconnected(fault: Fault) -> Self {
        let remedy = match fault.kind {
            FaultKind::Denied | FaultKind::Other => Remedy::None,
            _ => Remedy::AnotherConnection,
        };
        Self { effect: Effect::Nothing, remedy, fault, message: None }
    }

    /// A request was sent, and there was no answer in time.
    pub(crate) fn late(what: &str) -> Self {
        let fault =
            Fault::new(FaultKind::TimedOut, format!("etcd has not answered {what} in time"));
        Self { effect: Effect::Unknown, remedy: Remedy::AnotherConnection, fault, message: None }
    }
}

fn unlisted(status: &Status) -> (Effect, FaultKind, Remedy) {
    if is_caused_by::<ConnectError>(status) {
        // The request has never left us: there was nothing to send it over.
        return (Effect::Nothing, FaultKind::Unreachable, Remedy::AnotherConnection);
    }
    if is_caused_by::<TimeoutExpired>(status) {
        return (Effect::Unknown, FaultKind::TimedOut, Remedy::AnotherConnection);
    }
    match status.code() {
        Code::Unimplemented => (Effect::Nothing, FaultKind::Other, Remedy::None),
        Code::DeadlineExceeded => (Effect::Unknown, FaultKind::TimedOut, Remedy::AnotherConnection),
        _ => (Effect::Unknown, FaultKind::Unreachable, Remedy::AnotherConnection),
    }
}

fn is_caused_by<E: StdError + 'static>(status: &Status) -> bool {
    let mut cause = status.source();
    while let Some(error) = cause {
        if error.is::<E>() {
            return true;
        }
        cause = error.source();
    }
    false
}

fn fault(kind: FaultKind, status: Status) -> Fault {
    let text = if status.message().is_empty() {
        format!("etcd: {}", status.code())
    } else {
        status.message().to_owned()
    };
    Fault::new(kind, text).because(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect(code: Code, text: &str) -> Effect {
        EtcdFailure::of(Status::new(code, text)).effect
    }

    #[test]
    fn what_etcd_refuses_was_not_applied_whatever_its_code() {
        for text in [
            "etcdserver: no leader",
            "raft proposal dropped",
            "etcdserver: too many requests",
            "etcdserver: request is too large",
            "etcdserver: too many operations in txn request",
            "etcdserver: duplicate key given in txn request",
            "etcdserver: permission denied",
            "etcdserver: invalid auth token",
            "etcdserver: revision of auth store is old",
            "etcdserver: authentication failed, invalid user ID or password",
            "etcdserver: requested lease not found",
            "etcdserver: corrupt cluster",
            "grpc: received message larger than max (3000000 vs. 2097152)",
        ] {
            for code in [Code::Unknown, Code::Unavailable, Code::InvalidArgument] {
                assert_eq!(effect(code, text), Effect::Nothing, "{text}");
            }
        }
    }

    #[test]
    fn what_may_have_happened_is_unknown() {
        for (code, text) in [
            (Code::Unavailable, "etcdserver: request timed out"),
            (Code::Unavailable, "etcdserver: request timed out, possibly due to connection lost"),
            (Code::Unavailable, "etcdserver: leader changed"),
            (Code::Unavailable, "etcdserver: server stopped"),
            (Code::Unavailable, "error reading a body from connection"),
            (Code::DeadlineExceeded, "context deadline exceeded"),
            (Code::Cancelled, "operation was canceled"),
            (Code::Internal, "h2 protocol error: http2 error"),
            (Code::OutOfRange, "decoded message length too large"),
            (Code::ResourceExhausted, "something that no version has said yet"),
            (Code::Unknown, "etcdserver: something new"),
        ] {
            assert_eq!(effect(code, text), Effect::Unknown, "{text}");
        }
    }

    #[test]
    fn a_full_server_has_settled_the_matter_without_saying_how() {
        let full = Status::resource_exhausted("etcdserver: mvcc: database space exceeded");
        let failure = EtcdFailure::of(full);
        assert_eq!((failure.effect, failure.fault.kind), (Effect::Settled, FaultKind::Full));
    }

    #[test]
    fn a_connection_that_was_never_made_carried_nothing() {
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let status = Status::from_error(Box::new(ConnectError(Box::new(refused))));
        let failure = EtcdFailure::of(status);
        assert_eq!(failure.effect, Effect::Nothing);
        assert_eq!(failure.remedy, Remedy::AnotherConnection);
        let late = EtcdFailure::of(Status::from_error(Box::new(TimeoutExpired(()))));
        assert_eq!((late.effect, late.fault.kind), (Effect::Unknown, FaultKind::TimedOut));
        let broken = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        assert_eq!(EtcdFailure::of(Status::from_error(Box::new(broken))).effect, Effect::Unknown);
    }

    #[test]
    fn no_saying_hides_a_later_one() {
        for (at, row) in SERVER_MESSAGES.iter().enumerate() {
            let first = SERVER_MESSAGES.iter().position(|other| row.text.starts_with(other.text));
            assert_eq!(first, Some(at), "{}", row.text);
        }
    }
}
