use shardwright_contracts::{RunId, ShardId};

use super::Operation;
use crate::directory::RunLabel;
use crate::error::{CoordError, InfraError};
use crate::estimate::HeldEstimate;
use crate::op_log::IdempotentOutcome;
use crate::ops::{SplitReplaceResult, SplitResidualResult};
use crate::progress::RunProgress;
use crate::record::RunRecord;
use crate::restore::{HolderNotice, RenewResult, RestoredShardState};
use crate::summary::ShardSummary;
use crate::traits::ClaimHint;

/// The answer to an accepted request: one variant per shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A shard was acquired or claimed.
    Granted(Box<RestoredShardState>),
    /// A lease was extended.
    Renewed(RenewResult),
    /// A cursor was advanced. A first execution may carry a notice.
    Noticed(IdempotentOutcome<Option<HolderNotice>>),
    /// An operation with an id took effect.
    Applied(IdempotentOutcome<()>),
    /// A shard was replaced by children.
    Replaced(IdempotentOutcome<SplitReplaceResult>),
    /// The right part of a shard became a new one.
    Residual(IdempotentOutcome<SplitResidualResult>),
    /// An operation without an id took effect.
    Done,
    /// A run's record.
    Run(Box<RunRecord>),
    /// The progress of a run.
    Progress(RunProgress),
    /// A list of shards.
    Shards(Vec<ShardSummary>),
    /// Shards to try, and the end of the first lease.
    Candidates(Vec<ShardId>, ClaimHint),
    /// The run to which a name points, if any.
    Found(Option<RunId>),
    /// The run to which a name points now.
    Named(RunId),
    /// The label of a run, if it has a name.
    Label(Option<RunLabel>),
    /// The named runs.
    Labels(Vec<(RunId, RunLabel)>),
    /// The estimates of a run's holders.
    Estimates(Vec<HeldEstimate>),
}

/// The answer of a backend: a reply or an error.
pub type Answer = Result<Reply, CoordError>;

impl Reply {
    /// Whether the operation had taken effect before and nothing changed.
    #[must_use]
    pub const fn is_replay(&self) -> bool {
        match self {
            Self::Noticed(outcome) => outcome.is_replay(),
            Self::Applied(outcome) => outcome.is_replay(),
            Self::Replaced(outcome) => outcome.is_replay(),
            Self::Residual(outcome) => outcome.is_replay(),
            Self::Granted(_)
            | Self::Renewed(_)
            | Self::Done
            | Self::Run(_)
            | Self::Progress(_)
            | Self::Shards(_)
            | Self::Candidates(..)
            | Self::Found(_)
            | Self::Named(_)
            | Self::Label(_)
            | Self::Labels(_)
            | Self::Estimates(_) => false,
        }
    }
}

/// Widens the result of a typed operation to an answer.
pub fn widen<T: Into<Reply>, E: Into<CoordError>>(result: Result<T, E>) -> Answer {
    result.map(Into::into).map_err(Into::into)
}

/// Narrows an answer to the result of a typed operation. A reply or an error of another operation
/// becomes [`InfraError::Corrupt`].
pub fn narrow<B, O: Operation<B>>(answer: Answer) -> Result<O::Output, O::Error> {
    match answer {
        Ok(reply) => O::Output::try_from(reply)
            .map_err(|_| mismatch(O::NAME, "the backend sent the reply of another operation")),
        Err(error) => Err(O::Error::try_from(error).unwrap_or_else(|other| {
            mismatch(O::NAME, &format!("the backend sent the error of another operation: {other}"))
        })),
    }
}

fn mismatch<E: From<InfraError>>(operation: &'static str, message: &str) -> E {
    InfraError::Corrupt { operation, message: message.into() }.into()
}

/// Converts a shape into its variant and back. A boxed shape is written `in Box*`.
macro_rules! replies {
    ($($variant:ident($shape:ty) $(in $boxed:ident $star:tt)?;)*) => {$(
        impl From<$shape> for Reply {
            fn from(shape: $shape) -> Self {
                Self::$variant($($boxed::new)?(shape))
            }
        }

        impl TryFrom<Reply> for $shape {
            type Error = Reply;

            fn try_from(reply: Reply) -> Result<Self, Reply> {
                match reply {
                    Reply::$variant(shape) => Ok($($star)? shape),
                    other => Err(other),
                }
            }
        }
    )*};
}

replies! {
    Granted(RestoredShardState) in Box*;
    Renewed(RenewResult);
    Noticed(IdempotentOutcome<Option<HolderNotice>>);
    Applied(IdempotentOutcome<()>);
    Replaced(IdempotentOutcome<SplitReplaceResult>);
    Residual(IdempotentOutcome<SplitResidualResult>);
    Run(RunRecord) in Box*;
    Progress(RunProgress);
    Shards(Vec<ShardSummary>);
    Found(Option<RunId>);
    Named(RunId);
    Label(Option<RunLabel>);
    Labels(Vec<(RunId, RunLabel)>);
    Estimates(Vec<HeldEstimate>);
}

impl From<()> for Reply {
    fn from((): ()) -> Self {
        Self::Done
    }
}

impl TryFrom<Reply> for () {
    type Error = Reply;

    fn try_from(reply: Reply) -> Result<Self, Reply> {
        match reply {
            Reply::Done => Ok(()),
            other => Err(other),
        }
    }
}

impl From<(Vec<ShardId>, ClaimHint)> for Reply {
    fn from((shards, hint): (Vec<ShardId>, ClaimHint)) -> Self {
        Self::Candidates(shards, hint)
    }
}

impl TryFrom<Reply> for (Vec<ShardId>, ClaimHint) {
    type Error = Reply;

    fn try_from(reply: Reply) -> Result<Self, Reply> {
        match reply {
            Reply::Candidates(shards, hint) => Ok((shards, hint)),
            other => Err(other),
        }
    }
}
