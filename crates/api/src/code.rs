//! Error codes, and errors as a gRPC status.
//!
//! The codes come from one exhaustive match, so every new error needs them.

use prost::Message;
use shardwright_contracts::{FenceEpoch, ShardId};
use tonic::{Code, Status};

use crate::error::{CallError, Limit, LimitOption, UnknownWhy};
use crate::limits::MAX_ERROR_TEXT_SIZE;
use crate::wire::failure::{self, Failure, FailureCode};

/// The codes of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codes {
    /// In our own list, where every error has its own.
    pub failure: FailureCode,
    /// In gRPC.
    pub grpc: Code,
    /// In HTTP.
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
        CallError::QueueFull(_) => (FailureCode::QueueFull, Code::ResourceExhausted, 429),
        CallError::Overloaded(_) => (FailureCode::Overloaded, Code::ResourceExhausted, 429),
        CallError::MembersOnly => (FailureCode::MembersOnly, Code::PermissionDenied, 403),
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

/// The status that carries an error.
///
/// A status is sent in headers, whose size a connection limits. A longer answer is aborted, with
/// some clients together with the whole connection. So the text is sent once and truncated.
#[must_use]
pub fn status_of_error(error: &CallError) -> Status {
    let codes = codes(error);
    let failure = failure_of(error, codes.failure);
    let message = own_text(error).map_or_else(|| error.to_string(), str::to_owned);
    Status::with_details(codes.grpc, short(message), failure.encode_to_vec().into())
}

/// The error that a status carries, or `None` for a status of another program or of the network.
#[must_use]
pub fn error_of_status(status: &Status) -> Option<CallError> {
    if status.details().is_empty() {
        return None;
    }
    let failure = Failure::decode(status.details()).ok()?;
    error_of(failure, status.message())
}

/// The text that an error carries for another component.
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
        CallError::NodeGone { shard, node, retry_after_ms } => {
            failure.shard = shard.map(ShardId::as_raw);
            failure.node = short(node.clone());
            failure.retry_after_ms = *retry_after_ms;
        }
        CallError::Unreachable { node, .. } => failure.node = short(node.clone()),
        CallError::QueueFull(limit) | CallError::Overloaded(limit) => {
            failure.limit = limit.value;
            failure.option = option_code(limit.option).into();
        }
        CallError::ChainTooLong { limit } => failure.limit = *limit,
        CallError::InvalidId(_)
        | CallError::Activation(_)
        | CallError::Refused(_)
        | CallError::UnknownType
        | CallError::NotServing
        | CallError::Late
        | CallError::MembersOnly
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
    let option = LimitOption::ALL.into_iter().find(|one| {
        let code: i32 = option_code(*one).into();
        code == failure.option
    });
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
        FailureCode::NodeGone => CallError::NodeGone { shard, node, retry_after_ms },
        FailureCode::Unreachable => CallError::Unreachable { node, reason: message },
        FailureCode::Late => CallError::Late,
        FailureCode::QueueFull => {
            let option = option.unwrap_or(LimitOption::HeldCalls);
            CallError::QueueFull(Limit { option, value: limit })
        }
        FailureCode::Overloaded => {
            let option = option.unwrap_or(LimitOption::BytesInFlight);
            CallError::Overloaded(Limit { option, value: limit })
        }
        FailureCode::MembersOnly => CallError::MembersOnly,
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

/// The code of an option.
const fn option_code(option: LimitOption) -> failure::LimitOption {
    match option {
        LimitOption::HeldCalls => failure::LimitOption::HeldCalls,
        LimitOption::HeldCallsPerAddress => failure::LimitOption::HeldCallsPerAddress,
        LimitOption::HeldBytes => failure::LimitOption::HeldBytes,
        LimitOption::HeldBytesPerAddress => failure::LimitOption::HeldBytesPerAddress,
        LimitOption::BytesInFlight => failure::LimitOption::BytesInFlight,
        LimitOption::BytesPerAddress => failure::LimitOption::BytesPerAddress,
        LimitOption::CallsPerObject => failure::LimitOption::CallsPerObject,
    }
}

/// The end of a truncated text.
const CUT: &str = " …";

/// The text of an error, truncated if it is too long.
#[must_use]
pub fn short(mut text: String) -> String {
    if text.len() <= MAX_ERROR_TEXT_SIZE {
        return text;
    }
    let room = MAX_ERROR_TEXT_SIZE - CUT.len();
    let end = (0..=room).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    text.truncate(end);
    text.push_str(CUT);
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// One error of each kind.
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
            CallError::NodeGone { shard: Some(shard), node: node.clone(), retry_after_ms: 5_000 },
            CallError::Unreachable { node, reason },
            CallError::Late,
            CallError::QueueFull(Limit { option: LimitOption::HeldCallsPerAddress, value: 7 }),
            CallError::Overloaded(Limit { option: LimitOption::HeldBytes, value: 9 }),
            CallError::MembersOnly,
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
    fn every_error_has_its_own_code() {
        let errors = one_of_each();
        let own: BTreeSet<i32> = errors.iter().map(|error| codes(error).failure.into()).collect();
        assert_eq!(own.len(), errors.len());
        assert!(!own.contains(&FailureCode::Unspecified.into()));
        // The list of codes has one more, for errors without a code.
        let named = (0..=127).filter(|raw| FailureCode::try_from(*raw).is_ok()).count();
        assert_eq!(named, errors.len() + 1);
    }

    #[test]
    fn unknown_outcome_is_never_unavailable() {
        // gRPC clients retry `UNAVAILABLE`.
        for error in one_of_each() {
            let grpc = codes(&error).grpc;
            let retried = grpc == Code::Unavailable;
            assert!(!retried || error.effect() == crate::Effect::NotExecuted, "{error}");
        }
    }

    #[test]
    fn every_error_round_trips() {
        for error in one_of_each() {
            let status = status_of_error(&error);
            assert!(error.to_string().ends_with(status.message()), "{error}");
            assert_eq!(error_of_status(&status), Some(error));
        }
    }

    /// The size of a status in the headers of an answer.
    fn header_size(status: &Status) -> usize {
        let headers = status.clone().into_http::<()>();
        headers.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 32).sum()
    }

    #[test]
    fn long_texts_are_truncated_to_fit_the_headers() {
        // Letters that take nine bytes each in a header.
        let long = "€".repeat(100_000);
        let (node, reason) = (long.clone(), long.clone());
        for error in [
            CallError::Refused(long.clone()),
            CallError::Activation(long.clone()),
            CallError::InvalidId(long.clone()),
            CallError::Unreachable { node: node.clone(), reason },
            CallError::NodeGone { shard: None, node, retry_after_ms: 5 },
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
    fn foreign_status_is_not_our_error() {
        assert_eq!(error_of_status(&Status::unavailable("a proxy is overloaded")), None);
        let foreign = Status::with_details(Code::Internal, "", vec![255, 255, 255].into());
        assert_eq!(error_of_status(&foreign), None);
        // A code that was added later.
        let later = Failure { code: 127, ..Failure::default() };
        let later = Status::with_details(Code::Internal, "", later.encode_to_vec().into());
        assert_eq!(error_of_status(&later), None);
    }

    proptest! {
        #[test]
        fn decoding_a_status_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let status = Status::with_details(Code::Unknown, "", bytes.into());
            let _ = error_of_status(&status);
        }
    }

    proptest! {
        #[test]
        fn short_text_is_unchanged_or_marked_as_truncated(
            text in proptest::collection::vec(any::<char>(), 0..600)
        ) {
            let text: String = text.into_iter().collect();
            let cut = short(text.clone());
            prop_assert!(cut.len() <= MAX_ERROR_TEXT_SIZE);
            let is_whole = text.len() <= MAX_ERROR_TEXT_SIZE;
            prop_assert_eq!(cut == text, is_whole);
            prop_assert!(is_whole || text.starts_with(cut.strip_suffix(CUT).unwrap_or("none")));
        }
    }
}
