use shardwright_contracts::{OpId, ShardId, SplitReplacePlan};

use super::{NewShard, assert_sound, check_spawn_limit, emit};
use crate::error::reason::SplitInvalid;
use crate::error::{InfraError, SplitReplaceError};
use crate::events::{EventCollector, EventKind};
use crate::guard::{Admission, Context, admit};
use crate::lease::Lease;
use crate::op_log::OpAttempt;
use crate::payload;
use crate::record::{ShardState, Spawned};
use crate::split_execution::{DerivedShardKind, derive_split_shard_id, spawned_by};
use crate::status::ShardStatus;

/// The children that replaced a shard, in key order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitReplaceResult {
    /// Their ids.
    pub children: Vec<ShardId>,
}

/// The state of a split after its checks.
#[derive(Debug)]
pub enum ReplaceStep<'a> {
    /// It was executed before. Nothing is left to do.
    Replayed(SplitReplaceResult),
    /// It can be executed: make room for the children, then apply it.
    Ready(ReplacePending<'a>),
}

/// A split that passed every check on the parent and waits for room for its children.
#[derive(Debug)]
pub struct ReplacePending<'a> {
    children: Vec<NewShard<'a>>,
    attempt: OpAttempt,
}

/// Checks whether a shard can be replaced by the children of `plan`.
pub fn split_replace<'a, const LOG: usize>(
    context: &Context<'_>,
    shard: &impl ShardState<LOG>,
    lease: &Lease,
    plan: &SplitReplacePlan<'a>,
    op: OpId,
) -> Result<ReplaceStep<'a>, SplitReplaceError> {
    let (head, kind) = (shard.head(), DerivedShardKind::Child);
    let attempt = payload::split_replace(op, plan);
    match admit::<LOG, SplitReplaceError>(context, head, lease, attempt)? {
        Admission::Replay => {
            let spawned = spawned_by(head.key, &head.spawned, op, kind);
            let children: Vec<ShardId> = spawned.map(|spawned| spawned.shard).collect();
            if children.len() < 2 {
                return Err(InfraError::Corrupt {
                    operation: "split_replace.replay",
                    message: "the op log records a split that spawned fewer than two shards".into(),
                }
                .into());
            }
            return Ok(ReplaceStep::Replayed(SplitReplaceResult { children }));
        }
        Admission::Execute => {}
    }
    plan.validate_against(shard.spec(), shard.cursor()).map_err(SplitInvalid::from)?;
    let first = check_spawn_limit(&head.spawned, plan.children().len())?;
    let children = plan
        .children()
        .iter()
        .zip(first..)
        .map(|(child, index)| NewShard {
            shard: derive_split_shard_id(head.key, op, kind, index),
            spec: child.spec,
            cursor: child.cursor,
        })
        .collect();
    Ok(ReplaceStep::Ready(ReplacePending { children, attempt }))
}

impl<'a> ReplacePending<'a> {
    /// The shards to insert, in key order.
    #[must_use]
    pub fn children(&self) -> &[NewShard<'a>] {
        &self.children
    }

    /// Retires the parent, now that there is room for the children. Emits `ShardSplit`.
    pub fn apply<const LOG: usize>(
        self,
        context: &Context<'_>,
        shard: &mut impl ShardState<LOG>,
        events: &mut EventCollector,
    ) -> SplitReplaceResult {
        let payload_hash = self.attempt.payload_hash;
        let children: Vec<ShardId> = self.children.iter().map(|child| child.shard).collect();
        let head = shard.head_mut();
        head.status = ShardStatus::Split;
        head.lease = None;
        head.acquires_without_progress = 0;
        head.spawned.extend(children.iter().map(|&shard| Spawned { shard, payload_hash }));
        head.op_log.record(self.attempt, context.now);
        assert_sound(head.check_invariants());
        let parent = head.key.shard;
        emit(context, events, || EventKind::ShardSplit { parent, children: children.clone() });
        SplitReplaceResult { children }
    }
}
