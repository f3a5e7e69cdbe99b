use shardwright_cluster::records::{
    ClusterDeletionRecord, ClusterGateRecord, ClusterLeaderRecord, ClusterPlanRecord,
    DrainMarkRecord, LeavingRecord, NodeMemberRecord, ShardClaimRecord, TargetChunkRecord,
    TargetHeadRecord,
};
use shardwright_engine::codec::RecordKind;

use super::record_checks::{self, check};

/// Bytes decode as a record of at most one kind.
pub(crate) fn any_kind(data: &[u8]) {
    record_checks::any_kind(as_kind, data);
}

/// Checks bytes as a record of a kind. Returns whether they decode, or none if the kind belongs to
/// another protocol.
pub(crate) fn as_kind(kind: RecordKind, data: &[u8]) -> Option<bool> {
    let decoded = match kind {
        RecordKind::ClusterPlan => check::<ClusterPlanRecord>(data),
        RecordKind::ClusterDeletion => check::<ClusterDeletionRecord>(data),
        RecordKind::NodeMember => check::<NodeMemberRecord>(data),
        RecordKind::ClusterGate => check::<ClusterGateRecord>(data),
        RecordKind::ClusterLeader => check::<ClusterLeaderRecord>(data),
        RecordKind::TargetHead => check::<TargetHeadRecord>(data),
        RecordKind::TargetChunk => check::<TargetChunkRecord>(data),
        RecordKind::ShardClaim => check::<ShardClaimRecord>(data),
        RecordKind::DrainMark => check::<DrainMarkRecord>(data),
        RecordKind::Leaving => check::<LeavingRecord>(data),
        _ => return None,
    };
    Some(decoded)
}
