//! Errors as a gRPC status, and back.
//!
//! All of a status travels in the headers of an answer, and of those a connection takes only so
//! much: an answer with more of them is broken off, and with some clients the whole connection,
//! with the calls of everybody else. So a text is carried once, as the message of the status, and
//! cut.

use prost::Message;
use shardwright_contracts::{FenceEpoch, ShardId};
use tonic::Status;

use crate::code::codes;
use crate::error::{CallError, UnknownWhy};
use crate::text::short;
use crate::wire::failure::{Failure, FailureCode};

/// The status that carries an error.
#[must_use]
pub fn status_of_error(error: &CallError) -> Status {
    let codes = codes(error);
    let failure = failure_of(error, codes.failure);
    let message = own_text(error).map_or_else(|| error.to_string(), str::to_owned);
    Status::with_details(codes.grpc, short(message), failure.encode_to_vec().into())
}

/// The error that a status carries; none if it came from somebody else, or from the network.
#[must_use]
pub fn error_of_status(status: &Status) -> Option<CallError> {
    if status.details().is_empty() {
        return None;
    }
    let failure = Failure::decode(status.details()).ok()?;
    error_of(failure, status.message())
}

/// What somebody else has said, and the error only carries.
fn own_text(error: &CallError) -> Option<&str> {
    match error {
        CallError::InvalidId(text)
        | CallError::Activation(text)
        | CallError::Refused(text)
        | CallError::Unreachable { reason: text, .. } => Some(text),
        _ => None,
    }
}

fn failure_of(error: &CallError, code: FailureCode) -> Failure {
    let mut failure = Failure { code: code.into(), ..Failure::default() };
    match error {
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
            failure.node = short(node.clone());
            failure.retry_after_ms = *retry_after_ms;
        }
        CallError::Unreachable { node, .. } => failure.node = short(node.clone()),
        CallError::QueueFull { limit } | CallError::ChainTooLong { limit } => {
            failure.limit = *limit;
        }
        CallError::InvalidId(_)
        | CallError::Activation(_)
        | CallError::Refused(_)
        | CallError::UnknownType
        | CallError::NotServing
        | CallError::Late
        | CallError::Cycle
        | CallError::Panicked
        | CallError::Unknown(_) => {}
    }
    failure
}

fn error_of(failure: Failure, message: &str) -> Option<CallError> {
    let code = FailureCode::try_from(failure.code).ok()?;
    let Failure { node, retry_after_ms, size, limit, .. } = failure;
    let message = message.to_owned();
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
    use crate::limits::MAX_ERROR_TEXT_SIZE;

    #[test]
    fn every_error_comes_over_the_wire_as_it_was() {
        for error in one_of_each() {
            let status = status_of_error(&error);
            assert!(error.to_string().ends_with(status.message()), "people read it, too: {error}");
            assert_eq!(error_of_status(&status), Some(error));
        }
    }

    /// What a status takes of the headers of an answer.
    fn header_size(status: &Status) -> usize {
        let headers = status.clone().into_http::<()>();
        headers.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 32).sum()
    }

    #[test]
    fn a_long_text_is_cut_and_no_status_is_too_large_for_a_connection() {
        // Letters that are written as nine where a header holds them.
        let long = "€".repeat(100_000);
        let (node, reason) = (long.clone(), long.clone());
        for error in [
            CallError::Refused(long.clone()),
            CallError::Activation(long.clone()),
            CallError::InvalidId(long.clone()),
            CallError::Unreachable { node: node.clone(), reason },
            CallError::NodeGone { node, retry_after_ms: 5 },
        ] {
            let status = status_of_error(&error);
            assert!(header_size(&status) < 8 << 10, "{} bytes", header_size(&status));
            let heard = error_of_status(&status).unwrap();
            assert_eq!(codes(&heard), codes(&error));
        }
        let status = status_of_error(&CallError::Refused(long.clone()));
        let Some(CallError::Refused(heard)) = error_of_status(&status) else { panic!("{status}") };
        assert!(heard.len() <= MAX_ERROR_TEXT_SIZE && heard.len() > MAX_ERROR_TEXT_SIZE - 8);
        assert!(long.starts_with(heard.strip_suffix(" …").unwrap()));
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
