use std::fmt::Debug;

use shardwright_cluster::records::{
    ClusterGateRecord, ClusterLeaderRecord, ClusterPlanRecord, DrainMarkRecord, LeavingRecord,
    NodeMemberRecord, ShardClaimRecord, TargetChunkRecord, TargetHeadRecord,
};
use shardwright_engine::codec::{Record, RecordKind};

/// Bytes are a record of at most one kind.
pub(crate) fn any_kind(data: &[u8]) {
    for kind in RecordKind::ALL {
        let decoded = as_kind(*kind, data) == Some(true);
        assert!(!decoded || RecordKind::of(data) == Some(*kind), "{kind} has another kind's byte");
    }
}

/// Decoding never panics, and what it accepts is exactly what encoding writes. Returns whether it
/// accepted, and nothing for a kind of another protocol.
pub(crate) fn as_kind(kind: RecordKind, data: &[u8]) -> Option<bool> {
    let decoded = match kind {
        RecordKind::ClusterPlan => check::<ClusterPlanRecord>(data),
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

fn check<R: Record + Debug + PartialEq>(data: &[u8]) -> bool {
    match R::decode(data) {
        Ok(record) => {
            let encoded = record.encode();
            assert_eq!(encoded, data, "another encoding of {record:?}");
            assert_eq!(R::decode(&encoded).as_ref(), Ok(&record));
            true
        }
        Err(error) => {
            assert_eq!(error.kind, R::KIND);
            assert!(error.offset <= data.len(), "{error}");
            false
        }
    }
}
