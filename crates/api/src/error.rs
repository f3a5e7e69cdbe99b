use shardwright_contracts::{FenceEpoch, ShardId};

/// Why a call failed.
///
/// Messages contain no bytes of ids and payloads.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The object id is invalid, or names a shard that does not exist.
    #[error("{0}")]
    InvalidId(String),
    /// The object type is not registered.
    #[error("the object type is not registered")]
    UnknownType,
    /// A part of the call exceeds its limit.
    #[error("{size} bytes were sent, at most {limit} are allowed")]
    TooLarge {
        /// Its size in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The node does not hold the shard. Another node may.
    #[error("the node does not hold the shard")]
    NotOwner {
        /// The shard, unless the object belongs to none.
        shard: Option<ShardId>,
        /// The fence of the last claim that the node knows.
        fence: Option<FenceEpoch>,
    },
    /// The node or gate serves no calls: it is leaving, or is not a member yet.
    #[error("the process serves no calls: it has not joined the cluster, or is leaving")]
    NotServing,
    /// The shard is moving between nodes.
    #[error("shard {} is moving, retry in {retry_after_ms} ms", .shard.as_raw())]
    Moving {
        /// The shard.
        shard: ShardId,
        /// When to retry.
        retry_after_ms: u64,
    },
    /// The shard has no holder, and no target that could claim it.
    #[error("shard {} has no holder, retry in {retry_after_ms} ms", .shard.as_raw())]
    Unclaimed {
        /// The shard.
        shard: ShardId,
        /// When to retry.
        retry_after_ms: u64,
    },
    /// The node of the object is not a member of the cluster.
    #[error("{}", node_gone(*.shard, .node, *.retry_after_ms))]
    NodeGone {
        /// The shard that the node held, or none if the id names the node.
        shard: Option<ShardId>,
        /// The node.
        node: String,
        /// When to retry.
        retry_after_ms: u64,
    },
    /// The node could not be reached, so nothing was sent.
    #[error("{node} cannot be reached: {reason}")]
    Unreachable {
        /// The node.
        node: String,
        /// The cause.
        reason: String,
    },
    /// The deadline passed before the call started.
    #[error("the deadline passed before the call started")]
    Late,
    /// Too many calls wait for shards, or for the object.
    #[error("too many calls are waiting ({0}), retry later")]
    QueueFull(Limit),
    /// The calls of the peer, or of all peers, occupy too many bytes.
    #[error("waiting and running calls occupy too many bytes ({0}), retry later")]
    Overloaded(Limit),
    /// A client sent a fence or a chain, which only members of the cluster may send.
    #[error("a client must not send a fence or a chain of calls")]
    MembersOnly,
    /// The object waits for this call: it is an outer call of the same chain.
    #[error("the call would wait for itself")]
    Cycle,
    /// The chain of nested calls is too long.
    #[error("the chain of nested calls exceeds {limit}")]
    ChainTooLong {
        /// The limit.
        limit: u64,
    },
    /// The object could not be activated, so it did not get the call.
    #[error("the object could not be activated: {0}")]
    Activation(String),
    /// The object refused the call.
    #[error("{0}")]
    Refused(String),
    /// The object's code panicked.
    #[error("the object's code panicked")]
    Panicked,
    /// The outcome of the call is unknown.
    #[error("the outcome of the call is unknown: {0}")]
    Unknown(UnknownWhy),
}

/// Why the outcome of a call is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownWhy {
    /// The deadline passed while it ran.
    #[error("the deadline passed before the answer arrived")]
    Late,
    /// The connection broke, or the answer was invalid.
    #[error("the connection was lost")]
    Lost,
    /// The node lost its session while the call ran.
    #[error("the node was replaced while the call ran")]
    NotServing,
    /// The object reported an unknown outcome.
    #[error("the object reported an unknown outcome")]
    Object,
}

/// A configured limit that refuses calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("limit: {} {value}", .option.name())]
pub struct Limit {
    /// The option that sets it.
    pub option: LimitOption,
    /// Its value.
    pub value: u64,
}

/// The options whose limits refuse calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitOption {
    /// Calls that wait for a shard.
    HeldCalls,
    /// The same of one peer.
    HeldCallsPerAddress,
    /// Bytes of calls that wait for a shard.
    HeldBytes,
    /// The same of one peer.
    HeldBytesPerAddress,
    /// Bytes of requests and unsent answers.
    BytesInFlight,
    /// The same of one peer.
    BytesPerAddress,
    /// Calls that wait for one object.
    CallsPerObject,
}

impl LimitOption {
    /// All options.
    pub const ALL: [Self; 7] = [
        Self::HeldCalls,
        Self::HeldCallsPerAddress,
        Self::HeldBytes,
        Self::HeldBytesPerAddress,
        Self::BytesInFlight,
        Self::BytesPerAddress,
        Self::CallsPerObject,
    ];

    /// The name of the command-line option, or of the field in the library's options if there is
    /// none.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::HeldCalls => "--held-calls",
            Self::HeldCallsPerAddress => "--held-calls-per-address",
            Self::HeldBytes => "--held-bytes",
            Self::HeldBytesPerAddress => "--held-bytes-per-address",
            Self::BytesInFlight => "--bytes-in-flight",
            Self::BytesPerAddress => "--bytes-per-address",
            Self::CallsPerObject => "calls_per_object_max",
        }
    }
}

/// What is known of the effect of a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It was not executed, and will not be.
    NotExecuted,
    /// It was executed to its end.
    Executed,
    /// It may have been executed.
    Unknown,
}

/// A slash in an id may be a mistake, so the message states its meaning.
fn node_gone(shard: Option<ShardId>, node: &str, retry_after_ms: u64) -> String {
    let retry = format!("retry in {retry_after_ms} ms");
    match shard {
        Some(shard) => format!("{node} held shard {shard} and is not a member, {retry}"),
        None => format!(
            "the part of an object id before a slash names a node, and {node} is not a member; use \
             an id without a slash, or {retry}"
        ),
    }
}

impl CallError {
    /// What is known of the call's effect.
    #[must_use]
    pub const fn effect(&self) -> Effect {
        match self {
            Self::InvalidId(_)
            | Self::UnknownType
            | Self::TooLarge { .. }
            | Self::NotOwner { .. }
            | Self::NotServing
            | Self::Moving { .. }
            | Self::Unclaimed { .. }
            | Self::NodeGone { .. }
            | Self::Unreachable { .. }
            | Self::Late
            | Self::QueueFull(_)
            | Self::Overloaded(_)
            | Self::MembersOnly
            | Self::Cycle
            | Self::ChainTooLong { .. }
            | Self::Activation(_) => Effect::NotExecuted,
            Self::Refused(_) => Effect::Executed,
            Self::Panicked | Self::Unknown(_) => Effect::Unknown,
        }
    }

    /// Whether the call may be retried on another node or later: it was not executed, and the
    /// reason is the state of the cluster, or the lack of room on a node. A call for which the
    /// object itself has no room is not retried: held calls to a busy object would take the slots
    /// of others.
    #[must_use]
    pub const fn is_elsewhere(&self) -> bool {
        match self {
            Self::NotOwner { .. }
            | Self::NotServing
            | Self::Unreachable { .. }
            | Self::Overloaded(_) => true,
            Self::QueueFull(limit) => !matches!(limit.option, LimitOption::CallsPerObject),
            Self::InvalidId(_)
            | Self::UnknownType
            | Self::TooLarge { .. }
            | Self::Moving { .. }
            | Self::Unclaimed { .. }
            | Self::NodeGone { .. }
            | Self::Late
            | Self::MembersOnly
            | Self::Cycle
            | Self::ChainTooLong { .. }
            | Self::Activation(_)
            | Self::Refused(_)
            | Self::Panicked
            | Self::Unknown(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retryable_calls_were_not_executed() {
        for error in crate::code::tests::one_of_each() {
            let retried = error.is_elsewhere();
            assert!(!retried || error.effect() == Effect::NotExecuted, "{error}");
        }
    }

    #[test]
    fn a_full_queue_names_the_option_that_limits_it() {
        let limit = Limit { option: LimitOption::HeldCallsPerAddress, value: 25 };
        let text = "too many calls are waiting (limit: --held-calls-per-address 25), retry later";
        assert_eq!(CallError::QueueFull(limit).to_string(), text);
    }

    #[test]
    fn only_the_queue_of_an_object_fails_calls_at_once() {
        for option in LimitOption::ALL {
            let full = CallError::QueueFull(Limit { option, value: 1 });
            assert_eq!(full.is_elsewhere(), option != LimitOption::CallsPerObject, "{full}");
        }
    }
}
