//! One shard, held by one worker, with its constant arguments in one place.
//!
//! Operations that end the lease consume the session. If one fails, the error returns the session
//! for a retry.

use std::fmt;

use shardwright_contracts::{
    CursorUpdate, LogicalTime, OpId, ShardKey, ShardSpec, ShardSpecRef, SplitReplacePlan,
    SplitResidualPlan, TenantId, WorkerId,
};

use crate::error::{
    AcquireError, CheckpointError, CompleteError, DeclineError, ParkError, ReleaseError,
    RenewError, SplitReplaceError, SplitResidualError,
};
use crate::lease::Lease;
use crate::op_log::IdempotentOutcome;
use crate::ops::{SplitReplaceResult, SplitResidualResult};
use crate::payload;
use crate::record::{ShardSnapshotView, Spawned};
use crate::restore::{AcquireScratch, CapacityHint, HolderNotice, RenewResult, RestoredShardState};
use crate::status::ParkReason;
use crate::traits::CoordinationBackend;

/// A shard that a worker holds.
///
/// The lease is not renewed automatically: call [`WorkerSession::renew`] in time.
pub struct WorkerSession<'b, B> {
    backend: &'b mut B,
    /// Boxed, because the session travels inside an error when it could not be ended.
    state: Box<RestoredShardState>,
}

/// An operation failed to end a session. Returns the session for a retry.
pub struct SessionNotEnded<'b, B, E> {
    /// The unchanged session.
    pub session: WorkerSession<'b, B>,
    /// The error.
    pub error: E,
}

/// The answer to an operation that ends a session.
pub type SessionEnd<'b, B, T, E> = Result<IdempotentOutcome<T>, SessionNotEnded<'b, B, E>>;

impl<'b, B: CoordinationBackend> WorkerSession<'b, B> {
    /// Acquires a shard.
    pub fn new(
        backend: &'b mut B,
        now: LogicalTime,
        tenant: TenantId,
        key: ShardKey,
        worker: WorkerId,
    ) -> Result<Self, AcquireError> {
        let mut scratch = AcquireScratch::new();
        let acquired = backend.acquire_and_restore_into(now, tenant, key, worker, &mut scratch)?;
        let state = Box::new(RestoredShardState::from_view(&acquired));
        Ok(Self { backend, state })
    }

    /// Resumes a shard that was acquired or claimed before.
    pub fn from_acquire_result(backend: &'b mut B, acquired: RestoredShardState) -> Self {
        Self { backend, state: Box::new(acquired) }
    }

    /// The lease, with the deadline of the last renewal.
    #[must_use]
    pub const fn lease(&self) -> &Lease {
        &self.state.lease
    }

    /// The shard as of the acquire or the last split.
    #[must_use]
    pub fn initial_snapshot(&self) -> ShardSnapshotView<'_> {
        self.state.snapshot()
    }

    /// The shard's range and metadata. A residual split narrows it.
    #[must_use]
    pub fn spec(&self) -> ShardSpecRef<'_> {
        self.state.spec.as_spec_ref()
    }

    /// The cursor as of the acquire.
    #[must_use]
    pub fn cursor(&self) -> CursorUpdate<'_> {
        self.state.cursor.as_update()
    }

    /// The tenant.
    #[must_use]
    pub const fn tenant(&self) -> TenantId {
        self.state.lease.tenant()
    }

    /// The holder.
    #[must_use]
    pub const fn worker(&self) -> WorkerId {
        self.state.lease.owner()
    }

    /// The shard.
    #[must_use]
    pub const fn shard_key(&self) -> ShardKey {
        self.state.lease.key()
    }

    /// The remaining capacity of the run, as of the last acquire or renewal.
    #[must_use]
    pub const fn capacity(&self) -> CapacityHint {
        self.state.capacity
    }

    /// Extends the lease.
    pub fn renew(&mut self, now: LogicalTime) -> Result<RenewResult, RenewError> {
        let renewed = self.backend.renew(now, self.tenant(), &self.state.lease)?;
        self.state.lease = self.state.lease.renewed(renewed.new_deadline);
        self.state.capacity = renewed.capacity;
        Ok(renewed)
    }

    /// Advances the cursor.
    pub fn checkpoint(
        &mut self,
        now: LogicalTime,
        cursor: CursorUpdate<'_>,
        op: OpId,
    ) -> Result<IdempotentOutcome<Option<HolderNotice>>, CheckpointError> {
        self.backend.checkpoint(now, self.tenant(), &self.state.lease, cursor, op)
    }

    /// Splits off the right part of the shard and keeps the left one.
    pub fn split_residual(
        &mut self,
        now: LogicalTime,
        plan: &SplitResidualPlan<'_>,
        op: OpId,
    ) -> Result<IdempotentOutcome<SplitResidualResult>, SplitResidualError> {
        let outcome =
            self.backend.split_residual(now, self.tenant(), &self.state.lease, plan, op)?;
        // A replay may be of an earlier split, and the shard may have been split again since. So
        // only a narrower range is adopted.
        let narrowed = plan.narrowed();
        if self.state.spec.as_spec_ref().contains(narrowed.end())
            && let Ok(spec) = ShardSpec::try_from_ref(narrowed)
        {
            self.state.spec = spec;
        }
        let residual = outcome.into_inner().residual;
        if self.state.spawned.iter().all(|spawned| spawned.shard != residual) {
            let payload_hash = payload::split_residual(op, plan).payload_hash;
            self.state.spawned.push(Spawned { shard: residual, payload_hash });
        }
        Ok(outcome)
    }

    /// Declines split requests for a while.
    pub fn decline_split(
        &mut self,
        now: LogicalTime,
        not_before: LogicalTime,
    ) -> Result<(), DeclineError> {
        self.backend.decline_split(now, self.tenant(), &self.state.lease, not_before)
    }

    /// Finishes the shard.
    pub fn complete(
        self,
        now: LogicalTime,
        cursor: CursorUpdate<'_>,
        op: OpId,
    ) -> SessionEnd<'b, B, (), CompleteError> {
        let (tenant, lease) = (self.tenant(), self.state.lease);
        self.end(|backend| backend.complete(now, tenant, &lease, cursor, op))
    }

    /// Stops the shard until an operator unparks it.
    pub fn park(
        self,
        now: LogicalTime,
        reason: ParkReason,
        detail: &[u8],
        op: OpId,
    ) -> SessionEnd<'b, B, (), ParkError> {
        let (tenant, lease) = (self.tenant(), self.state.lease);
        self.end(|backend| backend.park_shard(now, tenant, &lease, reason, detail, op))
    }

    /// Releases the lease.
    pub fn release(self, now: LogicalTime, op: OpId) -> SessionEnd<'b, B, (), ReleaseError> {
        let (tenant, lease) = (self.tenant(), self.state.lease);
        self.end(|backend| backend.release(now, tenant, &lease, op))
    }

    /// Replaces the shard by children.
    pub fn split_replace(
        self,
        now: LogicalTime,
        plan: &SplitReplacePlan<'_>,
        op: OpId,
    ) -> SessionEnd<'b, B, SplitReplaceResult, SplitReplaceError> {
        let (tenant, lease) = (self.tenant(), self.state.lease);
        self.end(|backend| backend.split_replace(now, tenant, &lease, plan, op))
    }

    fn end<T, E>(
        self,
        operation: impl FnOnce(&mut B) -> Result<IdempotentOutcome<T>, E>,
    ) -> SessionEnd<'b, B, T, E> {
        let result = operation(self.backend);
        result.map_err(|error| SessionNotEnded { session: self, error })
    }
}

impl<B> fmt::Debug for WorkerSession<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerSession").field("state", &self.state).finish_non_exhaustive()
    }
}

impl<B, E: fmt::Debug> fmt::Debug for SessionNotEnded<'_, B, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionNotEnded")
            .field("error", &self.error)
            .field("session", &self.session)
            .finish()
    }
}

impl<B, E: fmt::Display> fmt::Display for SessionNotEnded<'_, B, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<B, E: std::error::Error> std::error::Error for SessionNotEnded<'_, B, E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

#[cfg(test)]
mod tests;
