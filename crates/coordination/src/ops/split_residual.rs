use shardwright_contracts::{
    CursorUpdate, OpId, ShardId, ShardSpecRef, SlabFull, SplitResidualPlan,
};

use super::{NewShard, assert_sound, check_spawn_limit, emit};
use crate::error::reason::SplitInvalid;
use crate::error::{InfraError, SplitResidualError};
use crate::events::{EventCollector, EventKind};
use crate::guard::{Admission, Context, admit_unless};
use crate::lease::Lease;
use crate::op_log::{OpAttempt, OpConflict};
use crate::payload;
use crate::record::{ShardState, Spawned};
use crate::split_execution::{DerivedShardKind, derive_split_shard_id, spawned_by};

/// The shard that got the right part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitResidualResult {
    /// Its id.
    pub residual: ShardId,
}

/// The state of a split after its checks.
#[derive(Debug)]
pub enum ResidualStep<'a> {
    /// It was executed before. Nothing is left to do.
    Replayed(SplitResidualResult),
    /// It can be executed: make room for the new shard, then apply it.
    Ready(ResidualPending<'a>),
}

/// A split that passed every check on the parent and waits for room for the new shard.
#[derive(Debug)]
pub struct ResidualPending<'a> {
    narrowed: ShardSpecRef<'a>,
    residual: NewShard<'a>,
    attempt: OpAttempt,
}

/// Checks whether `plan` may move the right part of a shard to a new one.
///
/// The parent stays active, so its op log evicts the split in time. A retry is therefore also
/// recognised by the spawned shards, each of which has the fingerprint of its plan.
pub fn split_residual<'a, const LOG: usize>(
    context: &Context<'_>,
    shard: &impl ShardState<LOG>,
    lease: &Lease,
    plan: &SplitResidualPlan<'a>,
    op: OpId,
) -> Result<ResidualStep<'a>, SplitResidualError> {
    let (head, kind) = (shard.head(), DerivedShardKind::Residual);
    let attempt = payload::split_residual(op, plan);
    let done_before = || spawned_by(head.key, &head.spawned, op, kind).next();
    let remembered = || match done_before() {
        Some(spawned) if spawned.payload_hash != attempt.payload_hash => Err(OpConflict {
            op,
            expected_hash: spawned.payload_hash,
            actual_hash: attempt.payload_hash,
        }),
        spawned => Ok(spawned.is_some()),
    };
    let admission =
        admit_unless::<LOG, SplitResidualError>(context, head, lease, attempt, remembered)?;
    if admission == Admission::Replay {
        let residual = done_before().map(|spawned| spawned.shard).ok_or(InfraError::Corrupt {
            operation: "split_residual.replay",
            message: "the op log records a split that spawned no shard".into(),
        })?;
        return Ok(ResidualStep::Replayed(SplitResidualResult { residual }));
    }
    plan.validate_against(shard.spec(), shard.cursor()).map_err(SplitInvalid::from)?;
    let index = check_spawn_limit(&head.spawned, 1)?;
    let residual = NewShard {
        shard: derive_split_shard_id(head.key, op, kind, index),
        spec: plan.residual(),
        cursor: CursorUpdate::initial(),
    };
    Ok(ResidualStep::Ready(ResidualPending { narrowed: plan.narrowed(), residual, attempt }))
}

impl<'a> ResidualPending<'a> {
    /// The shard to insert.
    #[must_use]
    pub const fn residual(&self) -> &NewShard<'a> {
        &self.residual
    }

    /// Narrows the parent, now that there is room for the new shard. The parent keeps its lease,
    /// its fence and its cursor. Emits `ShardResidualCreated`.
    pub fn apply<const LOG: usize>(
        self,
        context: &Context<'_>,
        shard: &mut impl ShardState<LOG>,
        events: &mut EventCollector,
    ) -> Result<SplitResidualResult, SlabFull> {
        shard.set_spec(self.narrowed)?;
        let residual = self.residual.shard;
        let head = shard.head_mut();
        let payload_hash = self.attempt.payload_hash;
        head.spawned.push(Spawned { shard: residual, payload_hash });
        head.op_log.record(self.attempt, context.now);
        assert_sound(head.check_invariants());
        let parent = head.key.shard;
        emit(context, events, || EventKind::ShardResidualCreated { parent, residual });
        Ok(SplitResidualResult { residual })
    }
}
