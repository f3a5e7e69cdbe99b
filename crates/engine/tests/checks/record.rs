use std::fmt::Debug;

use shardwright_engine::codec::{
    Asker, Binding, ClockMark, ClusterGate, ClusterLeader, ClusterPlan, Count, Definition,
    DrainMark, Estimate, Format, Gate, Incarnation, Kind, Leaving, Manifest, Named, NodeMember,
    OpenShard, Progress, Purpose, Quota, Record, Run, ShardClaim, SplitAsk, Stage, TargetChunk,
    TargetHead, Waiting, Watermark,
};

/// Bytes are a record of at most one kind.
pub(crate) fn any_kind(data: &[u8]) {
    for kind in Kind::ALL {
        let decoded = as_kind(*kind, data);
        assert!(!decoded || Kind::of(data) == Some(*kind), "{kind} has another kind's byte");
    }
}

/// Decoding never panics, and what it accepts is exactly what encoding writes. Tells whether it
/// accepted.
pub(crate) fn as_kind(kind: Kind, data: &[u8]) -> bool {
    match kind {
        Kind::Definition => check::<Definition>(data),
        Kind::Progress => check::<Progress>(data),
        Kind::Run => check::<Run>(data),
        Kind::Manifest => check::<Manifest>(data),
        Kind::Gate => check::<Gate>(data),
        Kind::Binding => check::<Binding>(data),
        Kind::Waiting => check::<Waiting>(data),
        Kind::Watermark => check::<Watermark>(data),
        Kind::SplitAsk => check::<SplitAsk>(data),
        Kind::Asker => check::<Asker>(data),
        Kind::Count => check::<Count>(data),
        Kind::Quota => check::<Quota>(data),
        Kind::Stage => check::<Stage>(data),
        Kind::ClockMark => check::<ClockMark>(data),
        Kind::Incarnation => check::<Incarnation>(data),
        Kind::Format => check::<Format>(data),
        Kind::OpenShard => check::<OpenShard>(data),
        Kind::Estimate => check::<Estimate>(data),
        Kind::Named => check::<Named>(data),
        Kind::Purpose => check::<Purpose>(data),
        Kind::ClusterPlan => check::<ClusterPlan>(data),
        Kind::NodeMember => check::<NodeMember>(data),
        Kind::ClusterGate => check::<ClusterGate>(data),
        Kind::ClusterLeader => check::<ClusterLeader>(data),
        Kind::TargetHead => check::<TargetHead>(data),
        Kind::TargetChunk => check::<TargetChunk>(data),
        Kind::ShardClaim => check::<ShardClaim>(data),
        Kind::DrainMark => check::<DrainMark>(data),
        Kind::Leaving => check::<Leaving>(data),
    }
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
