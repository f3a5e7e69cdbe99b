//! The codes of errors: one match, so that a new error cannot be without them.

use tonic::Code;

use crate::error::{CallError, UnknownWhy};
use crate::wire::failure::FailureCode;

/// What an error is called, for each who may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codes {
    /// In our own list, which tells every error apart.
    pub failure: FailureCode,
    /// On gRPC.
    pub grpc: Code,
    /// On HTTP.
    pub http: u16,
}

/// The codes of an error.
#[must_use]
pub const fn codes(error: &CallError) -> Codes {
    let (failure, grpc, http) = match error {
        CallError::InvalidId(_) => (FailureCode::InvalidId, Code::InvalidArgument, 400),
        CallError::UnknownType => (FailureCode::UnknownType, Code::NotFound, 404),
        CallError::TooLarge { .. } => (FailureCode::TooLarge, Code::InvalidArgument, 413),
        CallError::NotOwner { .. } => (FailureCode::NotOwner, Code::Unavailable, 503),
        CallError::NotServing => (FailureCode::NotServing, Code::Unavailable, 503),
        CallError::Moving { .. } => (FailureCode::Moving, Code::Unavailable, 503),
        CallError::Unclaimed { .. } => (FailureCode::Unclaimed, Code::Unavailable, 503),
        CallError::NodeGone { .. } => (FailureCode::NodeGone, Code::Unavailable, 503),
        CallError::Unreachable { .. } => (FailureCode::Unreachable, Code::Unavailable, 503),
        CallError::Late => (FailureCode::Late, Code::DeadlineExceeded, 504),
        CallError::QueueFull { .. } => (FailureCode::QueueFull, Code::ResourceExhausted, 429),
        CallError::Cycle => (FailureCode::Cycle, Code::FailedPrecondition, 508),
        CallError::ChainTooLong { .. } => {
            (FailureCode::ChainTooLong, Code::FailedPrecondition, 508)
        }
        CallError::Activation(_) => (FailureCode::Activation, Code::Internal, 500),
        CallError::Refused(_) => (FailureCode::Refused, Code::Aborted, 422),
        CallError::Panicked => (FailureCode::Panicked, Code::Internal, 500),
        CallError::Unknown(UnknownWhy::Late) => (FailureCode::UnknownLate, Code::Unknown, 504),
        CallError::Unknown(UnknownWhy::Lost) => (FailureCode::UnknownLost, Code::Unknown, 502),
        CallError::Unknown(UnknownWhy::NotServing) => {
            (FailureCode::UnknownNotServing, Code::Unknown, 502)
        }
        CallError::Unknown(UnknownWhy::Object) => (FailureCode::UnknownObject, Code::Unknown, 502),
    };
    Codes { failure, grpc, http }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeSet;

    use shardwright_contracts::{FenceEpoch, ShardId};

    use super::*;

    /// An error of every kind.
    pub(crate) fn one_of_each() -> Vec<CallError> {
        let shard = ShardId::from_raw(5);
        let fence = FenceEpoch::from_raw(9).ok();
        let (node, reason) = ("a:1".to_owned(), "refused".to_owned());
        vec![
            CallError::InvalidId("an object id is empty".to_owned()),
            CallError::UnknownType,
            CallError::TooLarge { size: 9, limit: 8 },
            CallError::NotOwner { shard: Some(shard), fence },
            CallError::NotServing,
            CallError::Moving { shard, retry_after_ms: 50 },
            CallError::Unclaimed { shard, retry_after_ms: 5_000 },
            CallError::NodeGone { node: node.clone(), retry_after_ms: 5_000 },
            CallError::Unreachable { node, reason },
            CallError::Late,
            CallError::QueueFull { limit: 7 },
            CallError::Cycle,
            CallError::ChainTooLong { limit: 32 },
            CallError::Activation("no database".to_owned()),
            CallError::Refused("too little money".to_owned()),
            CallError::Panicked,
            CallError::Unknown(UnknownWhy::Late),
            CallError::Unknown(UnknownWhy::Lost),
            CallError::Unknown(UnknownWhy::NotServing),
            CallError::Unknown(UnknownWhy::Object),
        ]
    }

    #[test]
    fn every_error_has_a_code_of_its_own() {
        let errors = one_of_each();
        let own: BTreeSet<i32> = errors.iter().map(|error| codes(error).failure.into()).collect();
        assert_eq!(own.len(), errors.len());
        assert!(!own.contains(&FailureCode::Unspecified.into()));
        // And none is missing above: the list of codes has one more, for what has none.
        let named = (0..=127).filter(|raw| FailureCode::try_from(*raw).is_ok()).count();
        assert_eq!(named, errors.len() + 1);
    }

    #[test]
    fn an_unknown_outcome_is_never_called_unavailable() {
        // Clients of gRPC take that for leave to try again.
        for error in one_of_each() {
            let grpc = codes(&error).grpc;
            let retried = grpc == Code::Unavailable;
            assert!(!retried || error.effect() == crate::Effect::NotExecuted, "{error}");
        }
    }
}
