use shardwright_contracts::{FenceEpoch, ShardId};

/// Why a call was not answered.
///
/// Messages hold no bytes of ids and payloads.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The id of the object is none, or names a shard that is not there.
    #[error("{0}")]
    InvalidId(String),
    /// There are no objects of that type.
    #[error("there are no objects of that type here")]
    UnknownType,
    /// Something is longer than allowed.
    #[error("{size} bytes were sent, at most {limit} are allowed")]
    TooLarge {
        /// How many bytes there were.
        size: u64,
        /// How many there may be.
        limit: u64,
    },
    /// The node does not have the shard, or not any more. Another may.
    #[error("the node does not have the shard")]
    NotOwner {
        /// The shard, unless the object belongs to none.
        shard: Option<ShardId>,
        /// The fence of its last claim that the node knows of.
        fence: Option<FenceEpoch>,
    },
    /// The node serves nothing just now: it is leaving, or is no member.
    #[error("the node serves nothing just now")]
    NotServing,
    /// The shard is on its way from one node to another.
    #[error("shard {} is moving, try again in {retry_after_ms} ms", .shard.as_raw())]
    Moving {
        /// The shard.
        shard: ShardId,
        /// When to try again.
        retry_after_ms: u64,
    },
    /// Nobody has the shard, and nobody is about to.
    #[error("nobody has shard {}, try again in {retry_after_ms} ms", .shard.as_raw())]
    Unclaimed {
        /// The shard.
        shard: ShardId,
        /// When to try again.
        retry_after_ms: u64,
    },
    /// The node that has the object is no member of the cluster any more.
    #[error("{node} has the object and is no member, try again in {retry_after_ms} ms")]
    NodeGone {
        /// The node.
        node: String,
        /// When to try again.
        retry_after_ms: u64,
    },
    /// The node could not be reached, so that nothing was sent.
    #[error("{node} cannot be reached: {reason}")]
    Unreachable {
        /// The node.
        node: String,
        /// What was in the way.
        reason: String,
    },
    /// The time was over before anybody had begun with the call.
    #[error("the time was over before the call could begin")]
    Late,
    /// Too many calls wait already.
    #[error("{limit} calls wait already")]
    QueueFull {
        /// How many may.
        limit: u64,
    },
    /// The object waits for this very call: it is an outer call of the same chain.
    #[error("the object waits for this very call")]
    Cycle,
    /// Too many calls wait for each other.
    #[error("more than {limit} calls would wait for each other")]
    ChainTooLong {
        /// How many may.
        limit: u64,
    },
    /// The object could not be activated, so that the call did not reach it.
    #[error("the object could not be activated: {0}")]
    Activation(String),
    /// The object got the call and said no.
    #[error("{0}")]
    Refused(String),
    /// The object's code panicked.
    #[error("the object's code panicked")]
    Panicked,
    /// Nobody knows whether the call was executed.
    #[error("it is not known whether the call was executed: {0}")]
    Unknown(UnknownWhy),
}

/// Why nobody knows what became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownWhy {
    /// The time was over while it ran.
    #[error("the time was over before the answer came")]
    Late,
    /// The connection broke, or what came over it was no answer.
    #[error("the connection was lost")]
    Lost,
    /// The node lost its place in the cluster while the call ran.
    #[error("the node was replaced while the call ran")]
    NotServing,
    /// The object does not know it itself.
    #[error("the object does not know")]
    Object,
}

/// What is known of the effect of a call that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It surely was not executed, and will not be.
    NotExecuted,
    /// It was executed to its end.
    Executed,
    /// Either may be so.
    Unknown,
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
            | Self::QueueFull { .. }
            | Self::Cycle
            | Self::ChainTooLong { .. }
            | Self::Activation(_) => Effect::NotExecuted,
            Self::Refused(_) => Effect::Executed,
            Self::Panicked | Self::Unknown(_) => Effect::Unknown,
        }
    }

    /// Whether the same call may be made elsewhere, or later, as soon as the cluster has changed:
    /// it was not executed, and for no fault of its own.
    #[must_use]
    pub const fn is_elsewhere(&self) -> bool {
        match self {
            Self::NotOwner { .. } | Self::NotServing | Self::Unreachable { .. } => true,
            Self::InvalidId(_)
            | Self::UnknownType
            | Self::TooLarge { .. }
            | Self::Moving { .. }
            | Self::Unclaimed { .. }
            | Self::NodeGone { .. }
            | Self::Late
            | Self::QueueFull { .. }
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
    fn what_may_be_tried_elsewhere_was_surely_not_executed() {
        for error in crate::code::tests::one_of_each() {
            let retried = error.is_elsewhere();
            assert!(!retried || error.effect() == Effect::NotExecuted, "{error}");
        }
    }
}
