//! The run protocol: who may work on which shard of a run, and what becomes of it.
//!
//! A run is finite work, cut into shards. A worker *acquires* a shard and gets a lease with a
//! *fence*, a number that rises with every owner. It moves the shard's cursor forward by
//! *checkpoints*, keeps the lease alive by *renewing* it, and ends by *completing*, *parking* or
//! *releasing* the shard. A shard that is too big is *split*. Whoever shows an old fence, a lease
//! that is over or an operation of an ended run is refused, so that of two workers that both
//! believe to own a shard only one can change it.
//!
//! The crate is pure. Records are plain data; each operation is a function in [`ops`] that checks
//! everything first and changes something then, so that an error leaves the record as it was.
//! Time comes in as an argument, and what happened goes out as [`events`]. Every backend runs the
//! same functions.
//!
//! | module | what it holds |
//! |---|---|
//! | [`status`], [`lease`], [`op_log`] | the parts of a record |
//! | [`record`] | shards and runs, and what is always true of them |
//! | [`guard`] | the order in which every request is checked, written once |
//! | [`ops`] | the operations, one file per set of rules |
//! | [`waiting`], [`cooldown`] | how long workers wait, and pause between claims |
//! | [`split_execution`] | ids of derived shards |
//! | [`error`] | refusals, failures below, exhaustion |
//! | [`events`] | what happened, as data |
//! | [`operation`] | every operation as data: requests, replies, one table |
//! | [`backend`] | what a backend implements: one method |
//! | [`async_traits`], [`directory`], [`estimate`] | its operations as methods that wait |
//! | [`traits`], [`facade`] | the same, with the time as an argument |
//! | [`synchronized`] | a sync backend as an async one |
//! | [`session`] | one shard, held by one worker |
//! | [`in_memory`] | the executable specification |
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::disallowed_types,
        reason = "tests may use the real world"
    )
)]

pub mod async_traits;
pub mod backend;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod cooldown;
pub mod directory;
pub mod error;
pub mod estimate;
pub mod events;
pub mod facade;
pub mod guard;
pub mod in_memory;
pub mod lease;
pub mod op_log;
pub mod operation;
pub mod ops;
pub mod payload;
pub mod progress;
pub mod record;
pub mod restore;
pub mod session;
pub mod shard_limits;
pub mod split_execution;
pub mod status;
pub mod summary;
pub mod synchronized;
pub mod traits;
pub mod waiting;

pub use async_traits::{AsyncCoordinationBackend, AsyncRunManagement, AsyncShardClaiming, Clock};
pub use backend::Backend;
pub use cooldown::ClaimCooldowns;
pub use directory::{AsyncRunDirectory, NameRunError, RunLabel, RunName, RunNameError};
pub use error::{
    AcquireError, CheckpointError, ClaimError, CompleteError, CoordError, CreateRunError,
    CreateRunWithShardsError, DeclineError, InfraError, ParkError, RegisterShardsError,
    ReleaseError, RenewError, RunQueryError, RunTransitionError, SplitError, SplitReplaceError,
    SplitRequestError, SplitResidualError, UnparkError,
};
pub use estimate::{AsyncWorkEstimates, HeldEstimate, WorkEstimate};
pub use events::{EventCollector, EventKind, RedactedKey, StateTransitionEvent};
pub use facade::{CoordinationFacade, ShardClaiming};
pub use guard::{Context, validate_lease};
pub use in_memory::{
    CoordinatorRuntimeConfig, DEFAULT_MAX_AUTO_SLAB_CAPACITY, DEFAULT_MAX_TOTAL_RUNS,
    InMemoryCoordinator,
};
pub use lease::{Lease, LeaseHolder, OwnerLiveness};
pub use op_log::{
    IdempotentOutcome, OpAttempt, OpConflict, OpKind, OpLog, OpLogEntry, OpResult, RunOpLog,
    RunOpLogEntry, check_op_idempotency,
};
pub use operation::{Answer, Operation, Reply, Request, RunTransition};
pub use ops::{SplitReplaceResult, SplitResidualResult};
pub use progress::{ProgressCounter, RunProgress, RunTerminalEvaluation, evaluate_run_terminal};
pub use record::{
    InvariantViolation, Park, RunConfig, RunConfigError, RunRecord, RunState, ShardHead,
    ShardRecord, ShardSnapshotView, ShardState, Spawned,
};
pub use restore::{
    AcquireResultView, AcquireScratch, CapacityHint, HolderNotice, RenewResult, RestoredShardState,
    SplitRequest,
};
pub use session::{SessionEnd, SessionNotEnded, WorkerSession};
pub use shard_limits::{ShardLimitScope, ShardLimitViolation, ShardLimits};
/// How many shards and bytes there may be, unless configured otherwise.
pub use shardwright_contracts::limits::{DEFAULT_MAX_SHARDS_PER_TENANT, DEFAULT_MAX_TOTAL_SHARDS};
/// What a caller needs to make and look at ranges.
pub use shardwright_contracts::{ShardArena, ShardSpecHandle, validate_residual_split_bounds};
pub use split_execution::{DerivedShardKind, derive_split_shard_id};
pub use status::{ParkReason, RunStatus, ShardStatus, UnknownByte};
pub use summary::{ShardFilter, ShardSummary};
pub use synchronized::Synchronized;
pub use traits::{ClaimHint, CoordinationBackend, RunManagement};
pub use waiting::WaitingWorkers;
