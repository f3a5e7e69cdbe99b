//! Converts answers of a coordinator for the history.

use shardwright_coordination::error::reason::{
    AlreadyLeased, NotParked, RunNotActive, ShardTerminal, StaleFence,
};
use shardwright_coordination::{
    Answer, CoordError, InfraError, Reply, RestoredShardState, RunStatus, ShardStatus,
};

use crate::history::{Acquired, Facts, Outcome, Refusal, Status};
use crate::plan;

impl From<ShardStatus> for Status {
    fn from(status: ShardStatus) -> Self {
        match status {
            ShardStatus::Active => Self::Active,
            ShardStatus::Done => Self::Done,
            ShardStatus::Split => Self::Split,
            ShardStatus::Parked => Self::Parked,
        }
    }
}

/// The outcome of a call.
pub(super) fn outcome(answer: &Answer) -> Outcome {
    let reply = match answer {
        Ok(reply) => reply,
        Err(error) => return failure(error.clone()),
    };
    let mut facts = Facts { replayed: reply.is_replay(), ..Facts::default() };
    match reply {
        Reply::Granted(state) => facts.acquired = Some(acquired(state)),
        Reply::Replaced(split) => {
            let children = split.clone().into_inner().children;
            facts.children = children.iter().map(|child| child.as_raw()).collect();
        }
        Reply::Residual(split) => facts.children = vec![split.into_inner().residual.as_raw()],
        _ => {}
    }
    Outcome::Done(facts)
}

/// The outcome of a failed call.
fn failure(error: CoordError) -> Outcome {
    let refusal = match error {
        CoordError::BackendError(InfraError::NotApplied { .. }) => {
            return Outcome::NotApplied(error.to_string());
        }
        CoordError::BackendError(InfraError::Unknown { .. }) => {
            return Outcome::Unknown(error.to_string());
        }
        CoordError::BackendError(InfraError::Corrupt { .. }) => {
            return Outcome::Corrupt(error.to_string());
        }
        CoordError::StaleFence(StaleFence { current, .. }) => {
            Refusal::StaleFence { current: current.as_raw() }
        }
        CoordError::LeaseExpired(_) => Refusal::LeaseExpired,
        CoordError::AlreadyLeased(AlreadyLeased { current_owner, .. }) => {
            Refusal::AlreadyLeased { owner: current_owner.as_raw() }
        }
        CoordError::ShardTerminal(ShardTerminal { status, .. }) => {
            Refusal::ShardTerminal { status: status.into() }
        }
        CoordError::NotParked(NotParked { status, .. }) => {
            Refusal::NotParked { status: status.into() }
        }
        CoordError::ShardNotFound(_) => Refusal::ShardNotFound,
        CoordError::RunTerminal(_)
        | CoordError::RunNotActive(RunNotActive { status: RunStatus::Done, .. }) => {
            Refusal::RunEnded
        }
        CoordError::CursorRegression(_) => Refusal::CursorRegression,
        CoordError::CursorOutOfBounds(_) => Refusal::CursorOutOfBounds,
        CoordError::SplitInvalid(_) => Refusal::SplitInvalid,
        CoordError::OpIdConflict(_) => Refusal::OpIdConflict,
        other => Refusal::Other(other.to_string()),
    };
    Outcome::Refused(refusal)
}

/// A granted shard.
fn acquired(state: &RestoredShardState) -> Acquired {
    let spec = state.spec.as_spec_ref();
    Acquired {
        shard: state.lease.key().shard.as_raw(),
        fence: state.lease.fence().as_raw(),
        start: plan::number(spec.start()),
        end: plan::number(spec.end()),
        cursor: state.cursor.as_update().last_key().map(plan::number),
    }
}
