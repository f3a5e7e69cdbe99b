//! An error enum per operation: the refusals that it may return.
#![allow(
    missing_docs,
    reason = "each variant wraps the refusal of its name, which is documented in `reason`"
)]

use shardwright_contracts::{CursorRegression, FenceEpochError, ManifestValidationError, SlabFull};

use super::InfraError;
use super::reason::{
    AlreadyLeased, CheckpointMissingKey, ConfigMismatch, CursorKeyTooLarge, CursorOutOfBounds,
    CursorTokenTooLarge, LabelTooLarge, LeaseExpired, NoneAvailable, NotLeased, NotParked,
    ParkDetailTooLarge, RetriesExhausted, RunAlreadyExists, RunIdUsed, RunLimitExceeded,
    RunNotActive, RunNotFound, RunPaused, RunTerminal, RunUnfinished, ShardNotFound, ShardTerminal,
    SplitAlreadyRequested, SplitDeclined, SplitInvalid, SplitRequestOver, StaleFence,
    TenantMismatch, Throttled, WrongStatus,
};
use crate::op_log::OpConflict;
use crate::shard_limits::ShardLimitViolation;

/// Declares an error enum with one variant per refusal, and its conversions to `CoordError` and
/// back. Converting back fails for the error of another operation.
///
/// A refusal has no source. An infrastructure error is the source of the operation's error.
macro_rules! operation_error {
    (
        $(#[$doc:meta])*
        $name:ident { $($variant:ident($reason:ty)),* $(,)? } $(or $backend:ident)?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
        pub enum $name {
            $(#[error(transparent)] $variant(#[from] $reason),)*
            $(#[error("{0}")] $backend(#[from] InfraError),)?
        }

        impl From<$name> for CoordError {
            fn from(error: $name) -> Self {
                match error {
                    $($name::$variant(reason) => Self::$variant(reason),)*
                    $($name::$backend(reason) => Self::$backend(reason),)?
                }
            }
        }

        impl TryFrom<CoordError> for $name {
            type Error = CoordError;

            fn try_from(error: CoordError) -> Result<Self, CoordError> {
                match error {
                    $(CoordError::$variant(reason) => Ok(Self::$variant(reason)),)*
                    $(CoordError::$backend(reason) => Ok(Self::$backend(reason)),)?
                    other => Err(other),
                }
            }
        }

        #[cfg(test)]
        impl super::samples::Samples for $name {
            fn samples() -> Vec<Self> {
                use super::samples::Sample as _;
                vec![
                    $(Self::$variant(<$reason>::sample()),)*
                    $(Self::$backend(InfraError::sample()),)?
                ]
            }
        }
    };
}

/// Like `operation_error`, with the refusals of the guard added.
macro_rules! guarded_error {
    ($(#[$doc:meta])* $name:ident { $($variant:ident($reason:ty)),* $(,)? }) => {
        operation_error! {
            $(#[$doc])*
            $name {
                ShardNotFound(ShardNotFound),
                TenantMismatch(TenantMismatch),
                RunNotActive(RunNotActive),
                ShardTerminal(ShardTerminal),
                StaleFence(StaleFence),
                LeaseExpired(LeaseExpired),
                $($variant($reason),)*
            } or BackendError
        }

        impl From<GuardError> for $name {
            fn from(error: GuardError) -> Self {
                match error {
                    GuardError::TenantMismatch(reason) => Self::TenantMismatch(reason),
                    GuardError::RunNotActive(reason) => Self::RunNotActive(reason),
                    GuardError::ShardTerminal(reason) => Self::ShardTerminal(reason),
                    GuardError::StaleFence(reason) => Self::StaleFence(reason),
                    GuardError::LeaseExpired(reason) => Self::LeaseExpired(reason),
                }
            }
        }
    };
}

/// Every refusal of every operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CoordError {
    #[error(transparent)]
    RunNotFound(#[from] RunNotFound),
    #[error(transparent)]
    RunAlreadyExists(#[from] RunAlreadyExists),
    #[error(transparent)]
    ConfigMismatch(#[from] ConfigMismatch),
    #[error(transparent)]
    ShardNotFound(#[from] ShardNotFound),
    #[error(transparent)]
    TenantMismatch(#[from] TenantMismatch),
    #[error(transparent)]
    OpIdConflict(#[from] OpConflict),
    #[error(transparent)]
    RunNotActive(#[from] RunNotActive),
    #[error(transparent)]
    RunTerminal(#[from] RunTerminal),
    #[error(transparent)]
    WrongStatus(#[from] WrongStatus),
    #[error(transparent)]
    RunUnfinished(#[from] RunUnfinished),
    #[error(transparent)]
    RunPaused(#[from] RunPaused),
    #[error(transparent)]
    ShardTerminal(#[from] ShardTerminal),
    #[error(transparent)]
    NotParked(#[from] NotParked),
    #[error(transparent)]
    StaleFence(#[from] StaleFence),
    #[error(transparent)]
    FenceExhausted(#[from] FenceEpochError),
    #[error(transparent)]
    LeaseExpired(#[from] LeaseExpired),
    #[error(transparent)]
    AlreadyLeased(#[from] AlreadyLeased),
    #[error(transparent)]
    RetriesExhausted(#[from] RetriesExhausted),
    #[error(transparent)]
    CheckpointMissingKey(#[from] CheckpointMissingKey),
    #[error(transparent)]
    CursorKeyTooLarge(#[from] CursorKeyTooLarge),
    #[error(transparent)]
    CursorTokenTooLarge(#[from] CursorTokenTooLarge),
    #[error(transparent)]
    CursorRegression(#[from] CursorRegression),
    #[error(transparent)]
    CursorOutOfBounds(#[from] CursorOutOfBounds),
    #[error(transparent)]
    ParkDetailTooLarge(#[from] ParkDetailTooLarge),
    #[error(transparent)]
    SplitInvalid(#[from] SplitInvalid),
    #[error(transparent)]
    NotLeased(#[from] NotLeased),
    #[error(transparent)]
    SplitAlreadyRequested(#[from] SplitAlreadyRequested),
    #[error(transparent)]
    SplitRequestOver(#[from] SplitRequestOver),
    #[error(transparent)]
    SplitDeclined(#[from] SplitDeclined),
    #[error(transparent)]
    Throttled(#[from] Throttled),
    #[error(transparent)]
    NoneAvailable(#[from] NoneAvailable),
    #[error(transparent)]
    ManifestInvalid(#[from] ManifestValidationError),
    #[error(transparent)]
    ShardLimitExceeded(#[from] ShardLimitViolation),
    #[error(transparent)]
    RunLimitExceeded(#[from] RunLimitExceeded),
    #[error(transparent)]
    RunIdUsed(#[from] RunIdUsed),
    #[error(transparent)]
    LabelTooLarge(#[from] LabelTooLarge),
    #[error(transparent)]
    ResourceExhausted(#[from] SlabFull),
    #[error("{0}")]
    BackendError(#[from] InfraError),
}

impl TryFrom<CoordError> for InfraError {
    type Error = CoordError;

    fn try_from(error: CoordError) -> Result<Self, CoordError> {
        match error {
            CoordError::BackendError(error) => Ok(error),
            other => Err(other),
        }
    }
}

operation_error! {
    /// The refusals of the guard, before an operation checks its own parameters.
    GuardError {
        TenantMismatch(TenantMismatch),
        RunNotActive(RunNotActive),
        ShardTerminal(ShardTerminal),
        StaleFence(StaleFence),
        LeaseExpired(LeaseExpired),
    }
}

operation_error! {
    /// Why a shard was not acquired.
    AcquireError {
        ShardNotFound(ShardNotFound),
        TenantMismatch(TenantMismatch),
        RunNotActive(RunNotActive),
        RunPaused(RunPaused),
        ShardTerminal(ShardTerminal),
        AlreadyLeased(AlreadyLeased),
        RetriesExhausted(RetriesExhausted),
        FenceExhausted(FenceEpochError),
    } or BackendError
}

guarded_error! {
    /// Why a lease was not renewed.
    RenewError {}
}

guarded_error! {
    /// Why a lease was not released.
    ReleaseError { OpIdConflict(OpConflict) }
}

guarded_error! {
    /// Why a cursor was not advanced.
    CheckpointError {
        OpIdConflict(OpConflict),
        CheckpointMissingKey(CheckpointMissingKey),
        CursorKeyTooLarge(CursorKeyTooLarge),
        CursorTokenTooLarge(CursorTokenTooLarge),
        CursorRegression(CursorRegression),
        CursorOutOfBounds(CursorOutOfBounds),
        ResourceExhausted(SlabFull),
    }
}

guarded_error! {
    /// Why a shard was not completed.
    CompleteError {
        OpIdConflict(OpConflict),
        CheckpointMissingKey(CheckpointMissingKey),
        CursorKeyTooLarge(CursorKeyTooLarge),
        CursorTokenTooLarge(CursorTokenTooLarge),
        CursorRegression(CursorRegression),
        CursorOutOfBounds(CursorOutOfBounds),
        ResourceExhausted(SlabFull),
    }
}

guarded_error! {
    /// Why a shard was not parked.
    ParkError {
        OpIdConflict(OpConflict),
        ParkDetailTooLarge(ParkDetailTooLarge),
        ResourceExhausted(SlabFull),
    }
}

guarded_error! {
    /// Why a shard was not split.
    SplitError {
        OpIdConflict(OpConflict),
        SplitInvalid(SplitInvalid),
        ResourceExhausted(SlabFull),
    }
}

/// Why a shard was not replaced by children.
pub type SplitReplaceError = SplitError;
/// Why the right part of a shard was not split off.
pub type SplitResidualError = SplitError;

operation_error! {
    /// Why a split was not requested.
    SplitRequestError {
        ShardNotFound(ShardNotFound),
        TenantMismatch(TenantMismatch),
        RunNotActive(RunNotActive),
        ShardTerminal(ShardTerminal),
        NotLeased(NotLeased),
        SplitRequestOver(SplitRequestOver),
        SplitAlreadyRequested(SplitAlreadyRequested),
        SplitDeclined(SplitDeclined),
    } or BackendError
}

guarded_error! {
    /// Why a split was not declined.
    DeclineError {}
}

operation_error! {
    /// Why no shard was claimed.
    ClaimError {
        RunNotFound(RunNotFound),
        TenantMismatch(TenantMismatch),
        RunNotActive(RunNotActive),
        RunPaused(RunPaused),
        Throttled(Throttled),
        NoneAvailable(NoneAvailable),
    } or BackendError
}

operation_error! {
    /// Why a shard was not unparked.
    UnparkError {
        ShardNotFound(ShardNotFound),
        TenantMismatch(TenantMismatch),
        OpIdConflict(OpConflict),
        RunNotActive(RunNotActive),
        RunTerminal(RunTerminal),
        NotParked(NotParked),
        FenceExhausted(FenceEpochError),
    } or BackendError
}

operation_error! {
    /// Why a run was not created.
    CreateRunError {
        RunAlreadyExists(RunAlreadyExists),
        ConfigMismatch(ConfigMismatch),
        RunLimitExceeded(RunLimitExceeded),
    } or BackendError
}

operation_error! {
    /// Why the shards of a run were not registered.
    RegisterShardsError {
        RunNotFound(RunNotFound),
        TenantMismatch(TenantMismatch),
        OpIdConflict(OpConflict),
        WrongStatus(WrongStatus),
        ManifestInvalid(ManifestValidationError),
        ShardLimitExceeded(ShardLimitViolation),
        ResourceExhausted(SlabFull),
    } or BackendError
}

operation_error! {
    /// Why a run was not ended, paused or resumed.
    RunTransitionError {
        RunNotFound(RunNotFound),
        TenantMismatch(TenantMismatch),
        OpIdConflict(OpConflict),
        RunTerminal(RunTerminal),
        WrongStatus(WrongStatus),
        RunUnfinished(RunUnfinished),
    } or BackendError
}

operation_error! {
    /// Why a query about a run failed.
    RunQueryError {
        RunNotFound(RunNotFound),
        TenantMismatch(TenantMismatch),
    } or BackendError
}

/// Why a run was not created and started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateRunWithShardsError {
    #[error(transparent)]
    Create(#[from] CreateRunError),
    #[error(transparent)]
    Register(#[from] RegisterShardsError),
}

/// An infrastructure error counts as one of the registration.
impl From<InfraError> for CreateRunWithShardsError {
    fn from(error: InfraError) -> Self {
        Self::Register(error.into())
    }
}

impl From<CreateRunWithShardsError> for CoordError {
    fn from(error: CreateRunWithShardsError) -> Self {
        match error {
            CreateRunWithShardsError::Create(error) => error.into(),
            CreateRunWithShardsError::Register(error) => error.into(),
        }
    }
}

impl TryFrom<CoordError> for CreateRunWithShardsError {
    type Error = CoordError;

    fn try_from(error: CoordError) -> Result<Self, CoordError> {
        match RegisterShardsError::try_from(error) {
            Ok(error) => Ok(error.into()),
            Err(error) => CreateRunError::try_from(error).map(Into::into),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use shardwright_contracts::ShardId;

    use super::*;

    #[test]
    fn infrastructure_error_is_the_source() {
        let failed =
            InfraError::Unknown { operation: "checkpoint.commit", message: "timed out".into() };
        let found = |error: &dyn Error| error.source().map(ToString::to_string);
        let expected = Some(failed.to_string());
        assert_eq!(found(&CheckpointError::from(failed.clone())), expected);
        assert_eq!(found(&ClaimError::from(failed.clone())), expected);
        assert_eq!(found(&CoordError::from(CheckpointError::from(failed))), expected);
    }

    #[test]
    fn refusal_has_no_source() {
        let reason = NotLeased { shard: ShardId::from_raw(3) };
        let refused = SplitRequestError::from(reason);
        assert_eq!(refused.to_string(), reason.to_string());
        assert!(refused.source().is_none());
    }
}
