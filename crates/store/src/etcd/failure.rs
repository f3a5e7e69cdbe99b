//! The outcome of a request that failed.
//!
//! A write that may have been applied must differ from one that surely was not: only the second may
//! be resent. The text of etcd's errors distinguishes them, because its codes are too coarse and
//! some errors arrive with a wrong code. Most failures of the network prove nothing. So every error
//! that is not in [`SERVER_MESSAGES`] leaves the outcome unknown.
//!
//! | error | the write | next step |
//! |---|---|---|
//! | no connection | not applied | try another member |
//! | no leader; proposal dropped; not capable; learner | not applied | try another member |
//! | token invalid or outdated | not applied | authenticate and resend |
//! | too many requests | not applied | busy |
//! | too large, too many operations, key twice or empty | not applied | fix the client limits |
//! | wrong password, no user, no permission | not applied | denied |
//! | user name missing though configured | not applied | authenticate and resend |
//! | lease not found | not applied | the session has ended |
//! | unknown method | not applied | unsupported version of etcd |
//! | cluster corrupt | not applied | damaged |
//! | database space exceeded | applied **or** not, but settled | read the keys, see below |
//! | request timed out, leader changed, server stopped | unknown | |
//! | the deadline of the call has passed | unknown | |
//! | the connection broke, the stream was reset | unknown | |
//! | anything else | unknown | |
//!
//! A server that runs out of space during concurrent requests applies the first of them and then
//! reports that there was no space. Such a request has no later effect, so a read shows its
//! outcome.

use std::error::Error as StdError;

use tonic::{Code, ConnectError, Status, TimeoutExpired};

use crate::error::{Fault, FaultKind};

/// The effect of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Not applied, and never will be.
    Nothing,
    /// Applied or not, without a later effect.
    Settled,
    /// May have been applied, or may still be.
    Unknown,
}

/// What the caller can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// Use a new connection, to another member if there is one.
    AnotherConnection,
    /// Resend the commits of the request one by one, because one of them may be the cause.
    Apart,
    /// Nothing.
    None,
}

/// A failed request.
#[derive(Clone, Debug)]
pub(crate) struct EtcdFailure {
    pub(crate) effect: Effect,
    pub(crate) remedy: Remedy,
    pub(crate) fault: Fault,
    pub(crate) message: Option<ServerMessage>,
}

/// The errors of etcd that need special handling.
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

/// The messages of etcd, each by its prefix.
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
        // Compacted, or in the future because the cluster was restored from a backup.
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
    /// Classifies a status.
    pub(crate) fn of(status: Status) -> Self {
        let known = SERVER_MESSAGES.iter().find(|row| status.message().starts_with(row.text));
        let (effect, kind, remedy) = match known {
            Some(row) => (row.effect, row.kind, row.remedy),
            None => unlisted(&status),
        };
        let message = known.map(|row| row.message);
        Self { effect, remedy, fault: fault(kind, status), message }
    }

    /// Nothing was sent, because there is no connection.
    pub(crate) fn unconnected(fault: Fault) -> Self {
        let remedy = match fault.kind {
            FaultKind::Denied | FaultKind::Other => Remedy::None,
            _ => Remedy::AnotherConnection,
        };
        Self { effect: Effect::Nothing, remedy, fault, message: None }
    }

    /// A request was sent and not answered in time.
    pub(crate) fn late(what: &str) -> Self {
        let fault =
            Fault::new(FaultKind::TimedOut, format!("etcd has not answered {what} in time"));
        Self { effect: Effect::Unknown, remedy: Remedy::AnotherConnection, fault, message: None }
    }
}

fn unlisted(status: &Status) -> (Effect, FaultKind, Remedy) {
    if is_caused_by::<ConnectError>(status) {
        // The request was never sent: there was no connection.
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
    fn refused_writes_were_not_applied_whatever_the_code() {
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
    fn ambiguous_failures_leave_the_outcome_unknown() {
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
            (Code::ResourceExhausted, "something that no version reports yet"),
            (Code::Unknown, "etcdserver: something new"),
        ] {
            assert_eq!(effect(code, text), Effect::Unknown, "{text}");
        }
    }

    #[test]
    fn a_full_server_settles_a_write_without_reporting_how() {
        let full = Status::resource_exhausted("etcdserver: mvcc: database space exceeded");
        let failure = EtcdFailure::of(full);
        assert_eq!((failure.effect, failure.fault.kind), (Effect::Settled, FaultKind::Full));
    }

    #[test]
    fn nothing_was_sent_without_a_connection() {
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
    fn no_message_hides_a_later_one() {
        for (at, row) in SERVER_MESSAGES.iter().enumerate() {
            let first = SERVER_MESSAGES.iter().position(|other| row.text.starts_with(other.text));
            assert_eq!(first, Some(at), "{}", row.text);
        }
    }
}
