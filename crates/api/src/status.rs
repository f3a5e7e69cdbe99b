//! Errors as the details of a gRPC status, and back.

use prost::Message;
use shardwright_contracts::{FenceEpoch, ShardId};
use tonic::Status;

use crate::code::codes;
use crate::error::{CallError, UnknownWhy};
use crate::wire::failure::{Failure, FailureCode};

/// The status that carries an error.
#[must_use]
pub fn status_of_error(error: &CallError) -> Status {
    let codes = codes(error);
    let failure = failure_of(error, codes.failure);
    Status::with_details(codes.grpc, error.to_string(), failure.encode_to_vec().into())
}

/// The error that a status carries; none if it came from somebody else, or from the network.
#[must_use]
pub fn error_of_status(status: &Status) -> Option<CallError> {
    if status.details().is_empty() {
        return None;
    }
    let failure = Failure::decode(status.details()).ok()?;
    error_of(failure)
}

fn failure_of(error: &CallError, code: FailureCode) -> Failure {
    let mut failure = Failure { code: code.into(), ..Failure::default() };
    match error {
        CallError::InvalidId(text) | CallError::Activation(text) | CallError::Refused(text) => {
            failure.message.clone_from(text);
        }
        CallError::TooLarge { size, limit } => (failure.size, failure.limit) = (*size, *limit),
        CallError::NotOwner { shard, fence } => {
            failure.shard = shard.map(ShardId::as_raw);
            failure.fence = fence.map(FenceEpoch::as_raw);
        }
        CallError::Moving { shard, retry_after_ms }
        | CallError::Unclaimed { shard, retry_after_ms } => {
            failure.shard = Some(shard.as_raw());
            failure.retry_after_ms = *retry_after_ms;
        }
        CallError::NodeGone { node, retry_after_ms } => {
            failure.node.clone_from(node);
            failure.retry_after_ms = *retry_after_ms;
        }
        CallError::Unreachable { node, reason } => {
            failure.node.clone_from(node);
            failure.message.clone_from(reason);
        }
        CallError::QueueFull { limit } | CallError::ChainTooLong { limit } => {
            failure.limit = *limit;
        }
        CallError::UnknownType
        | CallError::NotServing
        | CallError::Late
        | CallError::Cycle
        | CallError::Panicked
        | CallError::Unknown(_) => {}
    }
    failure
}

fn error_of(failure: Failure) -> Option<CallError> {
    let code = FailureCode::try_from(failure.code).ok()?;
    let Failure { message, node, retry_after_ms, size, limit, .. } = failure;
    let shard = failure.shard.map(ShardId::from_raw);
    Some(match code {
        FailureCode::Unspecified => return None,
        FailureCode::InvalidId => CallError::InvalidId(message),
        FailureCode::UnknownType => CallError::UnknownType,
        FailureCode::TooLarge => CallError::TooLarge { size, limit },
        FailureCode::NotOwner => {
            let fence = failure.fence.and_then(|raw| FenceEpoch::from_raw(raw).ok());
            CallError::NotOwner { shard, fence }
        }
        FailureCode::NotServing => CallError::NotServing,
        FailureCode::Moving => CallError::Moving { shard: shard?, retry_after_ms },
        FailureCode::Unclaimed => CallError::Unclaimed { shard: shard?, retry_after_ms },
        FailureCode::NodeGone => CallError::NodeGone { node, retry_after_ms },
        FailureCode::Unreachable => CallError::Unreachable { node, reason: message },
        FailureCode::Late => CallError::Late,
        FailureCode::QueueFull => CallError::QueueFull { limit },
        FailureCode::Cycle => CallError::Cycle,
        FailureCode::ChainTooLong => CallError::ChainTooLong { limit },
        FailureCode::Activation => CallError::Activation(message),
        FailureCode::Refused => CallError::Refused(message),
        FailureCode::Panicked => CallError::Panicked,
        FailureCode::UnknownLate => CallError::Unknown(UnknownWhy::Late),
        FailureCode::UnknownLost => CallError::Unknown(UnknownWhy::Lost),
        FailureCode::UnknownNotServing => CallError::Unknown(UnknownWhy::NotServing),
        FailureCode::UnknownObject => CallError::Unknown(UnknownWhy::Object),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tonic::Code;

    use super::*;
    use crate::code::tests::one_of_each;

    #[test]
    fn every_error_comes_over_the_wire_as_it_was() {
        for error in one_of_each() {
            let status = status_of_error(&error);
            assert_eq!(status.message(), error.to_string());
            assert_eq!(error_of_status(&status), Some(error));
        }
    }

    #[test]
    fn a_status_of_somebody_else_is_no_error_of_ours() {
        assert_eq!(error_of_status(&Status::unavailable("a proxy is tired")), None);
        let foreign = Status::with_details(Code::Internal, "", vec![255, 255, 255].into());
        assert_eq!(error_of_status(&foreign), None);
        // A code that was added later.
        let later = Failure { code: 127, ..Failure::default() };
        let later = Status::with_details(Code::Internal, "", later.encode_to_vec().into());
        assert_eq!(error_of_status(&later), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let status = Status::with_details(Code::Unknown, "", bytes.into());
            let _ = error_of_status(&status);
        }
    }
}
