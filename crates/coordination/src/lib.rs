//! The run protocol: which worker may change which shard of a run, and how shards progress.
//!
//! A run is finite work, divided into shards. A worker *acquires* a shard and gets a lease with a
//! *fence*, a number that rises with every owner. It advances the shard's cursor by *checkpoints*,
//! extends the lease by *renewing* it, and ends by *completing*, *parking* or *releasing* the
//! shard. A shard that is too large is *split*. A request with an old fence, an expired lease or an
//! ended run is refused. So of two workers that both believe they own a shard, only one can change
//! it.
//!
//! The crate is pure. Records are plain data. Each operation is a function in [`ops`] that checks
//! everything and then changes the record, so an error leaves the record unchanged. Time comes in
//! as an argument, and changes go out as events. Every backend calls the same functions.
//!
//! | module | contents |
//! |---|---|
//! | `status`, `lease`, `op_log` | the parts of a record |
//! | `record` | shards and runs, and their invariants |
//! | [`guard`] | the order in which every request is checked, written once |
//! | [`ops`] | the operations, one file per set of rules |
//! | `waiting`, `cooldown` | waiting workers, and the minimum time between claims |
//! | `split_execution` | ids of derived shards |
//! | [`error`] | refusals, infrastructure errors, exhaustion |
//! | `events` | changes as data |
//! | [`operation`] | every operation as data: requests, replies, one table |
//! | [`backend`] | the interface of a backend: one method |
//! | [`async_traits`], [`directory`], [`estimate`] | its operations as async methods |
//! | [`traits`], [`facade`] | the same as sync methods, with the time as an argument |
//! | `synchronized` | a sync backend as an async one |
//! | `session` | one shard, held by one worker |
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
mod cooldown;
pub mod directory;
pub mod error;
pub mod estimate;
mod events;
pub mod facade;
pub mod guard;
pub mod in_memory;
mod lease;
mod op_log;
pub mod operation;
pub mod ops;
mod payload;
mod progress;
mod record;
mod restore;
mod session;
mod shard_limits;
mod split_execution;
mod status;
mod summary;
mod synchronized;
pub mod traits;
mod waiting;

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
pub use lease::{Lease, LeaseHolder, OwnerLiveness, TakeoverTerms};
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
/// Default limits of shards.
pub use shardwright_contracts::limits::{DEFAULT_MAX_SHARDS_PER_TENANT, DEFAULT_MAX_TOTAL_SHARDS};
/// Types to build and inspect ranges.
pub use shardwright_contracts::{ShardArena, ShardSpecHandle, validate_residual_split_bounds};
pub use split_execution::{DerivedShardKind, derive_split_shard_id};
pub use status::{ParkReason, RunStatus, ShardStatus, UnknownByte};
pub use summary::{ShardFilter, ShardSummary};
pub use synchronized::Synchronized;
pub use traits::{ClaimHint, CoordinationBackend, RunManagement};
pub use waiting::WaitingWorkers;
