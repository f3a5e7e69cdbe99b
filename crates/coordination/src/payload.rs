//! Fingerprints of operation parameters. They distinguish a replay from a conflict.
//!
//! The name of the operation is part of the fingerprint, so a checkpoint and a completion with the
//! same cursor differ.

use shardwright_contracts::{
    CanonicalBytes, CanonicalSink, CursorUpdate, Domain, DomainHasher, InitialShardInput, OpId,
    ShardKey, SplitReplacePlan, SplitResidualPlan,
};

use crate::op_log::{OpAttempt, OpKind};
use crate::status::ParkReason;

impl OpKind {
    /// The name in fingerprints. Stored fingerprints depend on it, so it never changes.
    #[must_use]
    pub const fn tag(self) -> &'static [u8] {
        match self {
            Self::Checkpoint => b"checkpoint",
            Self::Complete => b"complete",
            Self::Park => b"park",
            Self::SplitReplace => b"split_replace",
            Self::SplitResidual => b"split_residual",
            Self::Unpark => b"unpark_shard",
            Self::Release => b"release",
            Self::RegisterShards => b"register_shards",
            Self::CompleteRun => b"complete_run",
            Self::FailRun => b"fail_run",
            Self::CancelRun => b"cancel_run",
            Self::PauseRun => b"pause_run",
            Self::ResumeRun => b"resume_run",
        }
    }

    fn hasher(self) -> DomainHasher {
        DomainHasher::tagged(Domain::OpPayload, self.tag())
    }

    fn attempt(self, op: OpId, payload: &DomainHasher) -> OpAttempt {
        OpAttempt { op, kind: self, payload_hash: payload.digest64() }
    }
}

/// A checkpoint or a completion at `cursor`.
pub(crate) fn cursor(kind: OpKind, op: OpId, cursor: CursorUpdate<'_>) -> OpAttempt {
    // Checkpoints are the most frequent operation, and moving a hasher costs a copy.
    let mut payload = kind.hasher();
    cursor.write_canonical(&mut payload);
    kind.attempt(op, &payload)
}

/// Parking for `reason` with `detail`.
pub(crate) fn park(op: OpId, reason: ParkReason, detail: &[u8]) -> OpAttempt {
    let mut payload = OpKind::Park.hasher().with(&reason);
    payload.put_bytes(detail);
    OpKind::Park.attempt(op, &payload)
}

/// Replacing a shard by the children of `plan`.
pub(crate) fn split_replace(op: OpId, plan: &SplitReplacePlan<'_>) -> OpAttempt {
    let kind = OpKind::SplitReplace;
    kind.attempt(op, &kind.hasher().with(plan))
}

/// Splitting off the right part of a shard by `plan`.
pub(crate) fn split_residual(op: OpId, plan: &SplitResidualPlan<'_>) -> OpAttempt {
    let kind = OpKind::SplitResidual;
    kind.attempt(op, &kind.hasher().with(plan))
}

/// Releasing or unparking a shard.
pub(crate) fn shard(kind: OpKind, op: OpId, key: ShardKey) -> OpAttempt {
    kind.attempt(op, &kind.hasher().with(&key))
}

/// Ending, pausing or resuming a run, which has no parameters.
pub(crate) fn run(kind: OpKind, op: OpId) -> OpAttempt {
    kind.attempt(op, &kind.hasher())
}

/// Registering `shards`, given in any order.
pub(crate) fn register_shards(op: OpId, shards: &[InitialShardInput<'_>]) -> OpAttempt {
    let kind = OpKind::RegisterShards;
    let mut by_id: Vec<_> = shards.iter().collect();
    by_id.sort_by_key(|input| input.shard);
    let mut payload = kind.hasher();
    payload.put_len(by_id.len());
    for input in by_id {
        input.shard.write_canonical(&mut payload);
        input.spec.write_canonical(&mut payload);
        input.cursor.write_canonical(&mut payload);
    }
    kind.attempt(op, &payload)
}

#[cfg(test)]
mod tests {
    use shardwright_contracts::{
        RunId, ShardId, ShardSpecRef, plan_split_replace, plan_split_residual,
    };

    use super::*;

    /// Computed with another implementation of BLAKE3.
    #[test]
    fn golden_fingerprints() {
        let op = OpId::from_raw(1);
        let key = ShardKey::new(RunId::from_raw(7), ShardId::from_raw(3));
        let at = CursorUpdate::new(Some(b"k"), Some(b"t"));
        let spec = ShardSpecRef::new(b"a", b"z", b"");
        let initial = CursorUpdate::initial();
        let replace = plan_split_replace(spec, initial, &[b"m"]).unwrap();
        let residual = plan_split_residual(spec, initial, b"m").unwrap();
        let input = InitialShardInput { shard: key.shard, spec, cursor: initial };
        let attempts = [
            (cursor(OpKind::Checkpoint, op, at), 0x21ae_87a2_98d1_df11),
            (cursor(OpKind::Complete, op, at), 0x699f_d1d3_34a3_a3d4),
            (park(op, ParkReason::Poisoned, b"why"), 0x0ab6_3b17_798f_90ed),
            (split_replace(op, &replace), 0xd5d4_ef54_decd_f80e),
            (split_residual(op, &residual), 0xa8e5_29dd_e10e_7f95),
            (shard(OpKind::Unpark, op, key), 0xf16e_8340_bf5b_13ac),
            (shard(OpKind::Release, op, key), 0x4ab6_5704_68c8_5895),
            (register_shards(op, &[input]), 0x5ecc_7f28_ec47_dc64),
            (run(OpKind::CompleteRun, op), 0xb865_84d6_5bfc_03aa),
            (run(OpKind::FailRun, op), 0x5e52_1fbe_ee2c_087a),
            (run(OpKind::CancelRun, op), 0x5b3b_2125_795a_7519),
            (run(OpKind::PauseRun, op), 0x24b3_1330_7ec8_617a),
            (run(OpKind::ResumeRun, op), 0xd485_25b4_bd8f_fe91),
        ];
        let kinds: Vec<OpKind> = attempts.iter().map(|(attempt, _)| attempt.kind).collect();
        for kind in OpKind::ALL {
            assert!(kinds.contains(kind), "{kind:?} has no golden fingerprint");
        }
        for (attempt, golden) in attempts {
            assert_eq!(attempt.payload_hash, golden, "{:?}", attempt.kind);
            assert_eq!(attempt.op, op);
        }
    }
}
