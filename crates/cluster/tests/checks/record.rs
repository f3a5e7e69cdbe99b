use std::fmt::Debug;

use shardwright_cluster::records::{
    ClusterGate, ClusterLeader, ClusterPlan, DrainMark, Leaving, NodeMember, ShardClaim,
    TargetChunk, TargetHead,
};
use shardwright_engine::codec::{Kind, Record};

/// Bytes are a record of at most one kind.
pub(crate) fn any_kind(data: &[u8]) {
    for kind in Kind::ALL {
        let decoded = as_kind(*kind, data) == Some(true);
        assert!(!decoded || Kind::of(data) == Some(*kind), "{kind} has another kind's byte");
    }
}

/// Decoding never panics, and what it accepts is exactly what encoding writes. Returns whether it
/// accepted, and nothing for a kind of another protocol.
pub(crate) fn as_kind(kind: Kind, data: &[u8]) -> Option<bool> {
    let decoded = match kind {
        Kind::ClusterPlan => check::<ClusterPlan>(data),
        Kind::NodeMember => check::<NodeMember>(data),
        Kind::ClusterGate => check::<ClusterGate>(data),
        Kind::ClusterLeader => check::<ClusterLeader>(data),
        Kind::TargetHead => check::<TargetHead>(data),
        Kind::TargetChunk => check::<TargetChunk>(data),
        Kind::ShardClaim => check::<ShardClaim>(data),
        Kind::DrainMark => check::<DrainMark>(data),
        Kind::Leaving => check::<Leaving>(data),
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
