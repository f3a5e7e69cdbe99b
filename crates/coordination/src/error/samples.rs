//! One value of each refusal, for tests that cover all of them.

use shardwright_contracts::{
    CursorRegression, FenceEpoch, FenceEpochError, LogicalTime, ManifestValidationError, OpId,
    RunId, ShardId, ShardKey, SlabFull, TenantId, WorkerId,
};

use super::reason::{
    AlreadyLeased, CheckpointMissingKey, ConfigMismatch, CursorKeyTooLarge, CursorOutOfBounds,
    CursorTokenTooLarge, LabelTooLarge, LeaseExpired, NoneAvailable, NotLeased, NotParked,
    ParkDetailTooLarge, RetriesExhausted, RunAlreadyExists, RunIdUsed, RunLimitExceeded,
    RunNotActive, RunNotFound, RunPaused, RunTerminal, RunUnfinished, ShardNotFound, ShardTerminal,
    SplitAlreadyRequested, SplitDeclined, SplitInvalid, SplitRequestOver, StaleFence,
    TenantMismatch, Throttled, WrongStatus,
};
use super::{
    CoordError, CreateRunError, CreateRunWithShardsError, InfraError, RegisterShardsError,
};
use crate::directory::NameRunError;
use crate::op_log::OpConflict;
use crate::shard_limits::{ShardLimitScope, ShardLimitViolation};
use crate::status::{RunStatus, ShardStatus};

/// A refusal with a sample value.
pub(crate) trait Sample {
    fn sample() -> Self;
}

/// An error enum with a sample per variant.
pub(crate) trait Samples: Sized {
    fn samples() -> Vec<Self>;
}

const RUN: RunId = RunId::from_raw(7);
const SHARD: ShardId = ShardId::from_raw(3);

const fn at(millis: u64) -> LogicalTime {
    LogicalTime::from_millis(millis)
}

macro_rules! samples {
    ($($reason:ty = $sample:expr;)*) => {$(
        impl Sample for $reason {
            fn sample() -> Self {
                $sample
            }
        }
    )*};
}

samples! {
    RunNotFound = Self { run: RUN };
    RunAlreadyExists = Self { run: RUN };
    ConfigMismatch = Self { run: RUN };
    ShardNotFound = Self { key: ShardKey::new(RUN, SHARD) };
    TenantMismatch = Self { expected: TenantId::from_bytes([7; 32]) };
    OpConflict = Self { op: OpId::from_raw(1), expected_hash: 2, actual_hash: 3 };
    RunNotActive = Self { run: RUN, status: RunStatus::Failed };
    RunTerminal = Self { run: RUN, status: RunStatus::Done };
    WrongStatus = Self { run: RUN, status: RunStatus::Initializing };
    RunUnfinished = Self { run: RUN, active: 1, parked: 2 };
    RunPaused = Self { run: RUN };
    ShardTerminal = Self { shard: SHARD, status: ShardStatus::Done };
    NotParked = Self { shard: SHARD, status: ShardStatus::Active };
    StaleFence = Self { presented: FenceEpoch::INITIAL, current: FenceEpoch::INITIAL };
    FenceEpochError =
        FenceEpoch::from_raw(u64::MAX).unwrap().next_at_least(FenceEpoch::INITIAL).unwrap_err();
    LeaseExpired = Self { deadline: at(1), now: at(2) };
    AlreadyLeased = Self { current_owner: WorkerId::from_raw(9), deadline: at(5) };
    RetriesExhausted = Self { shard: SHARD, attempts: 4 };
    CheckpointMissingKey = Self;
    CursorKeyTooLarge = Self { size: 2, max: 1 };
    CursorTokenTooLarge = Self { size: 2, max: 1 };
    CursorRegression = Self::Backwards;
    CursorOutOfBounds = Self;
    ParkDetailTooLarge = Self { size: 2, max: 1 };
    SplitInvalid = Self::DerivedIdCollision { shard: SHARD };
    NotLeased = Self { shard: SHARD };
    SplitAlreadyRequested = Self { shard: SHARD };
    SplitRequestOver = Self { shard: SHARD, expires_at: at(6) };
    SplitDeclined = Self { shard: SHARD, not_before: at(7) };
    Throttled = Self { retry_after: at(8) };
    NoneAvailable = Self { earliest_deadline: Some(at(9)) };
    ManifestValidationError = Self::DerivedId { shard: SHARD };
    ShardLimitViolation = Self { scope: ShardLimitScope::Total, current: 0, additional: 2, max: 1 };
    RunLimitExceeded = Self { max: 1 };
    RunIdUsed = Self { run: RUN };
    LabelTooLarge = Self { length: 2 };
    SlabFull = Self::Bytes { requested: 3, free: 2, capacity: 1 };
    InfraError = Self::Unknown { operation: "checkpoint.commit", message: "timed out".into() };
}

/// Every refusal, once.
pub(crate) fn all() -> Vec<CoordError> {
    fn of<R: Sample + Into<CoordError>>() -> CoordError {
        R::sample().into()
    }
    vec![
        of::<RunNotFound>(),
        of::<RunAlreadyExists>(),
        of::<ConfigMismatch>(),
        of::<ShardNotFound>(),
        of::<TenantMismatch>(),
        of::<OpConflict>(),
        of::<RunNotActive>(),
        of::<RunTerminal>(),
        of::<WrongStatus>(),
        of::<RunUnfinished>(),
        of::<RunPaused>(),
        of::<ShardTerminal>(),
        of::<NotParked>(),
        of::<StaleFence>(),
        of::<FenceEpochError>(),
        of::<LeaseExpired>(),
        of::<AlreadyLeased>(),
        of::<RetriesExhausted>(),
        of::<CheckpointMissingKey>(),
        of::<CursorKeyTooLarge>(),
        of::<CursorTokenTooLarge>(),
        of::<CursorRegression>(),
        of::<CursorOutOfBounds>(),
        of::<ParkDetailTooLarge>(),
        of::<SplitInvalid>(),
        of::<NotLeased>(),
        of::<SplitAlreadyRequested>(),
        of::<SplitRequestOver>(),
        of::<SplitDeclined>(),
        of::<Throttled>(),
        of::<NoneAvailable>(),
        of::<ManifestValidationError>(),
        of::<ShardLimitViolation>(),
        of::<RunLimitExceeded>(),
        of::<RunIdUsed>(),
        of::<LabelTooLarge>(),
        of::<SlabFull>(),
        of::<InfraError>(),
    ]
}

impl Samples for InfraError {
    fn samples() -> Vec<Self> {
        vec![Self::sample()]
    }
}

impl Samples for NameRunError {
    fn samples() -> Vec<Self> {
        let (RunIdUsed { run }, LabelTooLarge { length }) = (Sample::sample(), Sample::sample());
        vec![
            Self::RunIdUsed { run },
            Self::LabelTooLarge { length },
            Self::BackendError(Sample::sample()),
        ]
    }
}

impl Samples for CreateRunWithShardsError {
    fn samples() -> Vec<Self> {
        let below = CreateRunError::BackendError(Sample::sample());
        let created = CreateRunError::samples().into_iter().filter(|error| *error != below);
        let registered = RegisterShardsError::samples().into_iter().map(Self::from);
        created.map(Self::from).chain(registered).collect()
    }
}
