use std::fmt::Debug;

use shardwright_engine::codec::{
    ClockMarkRecord, FormatRecord, Record, RecordKind, StoreGenerationRecord,
};
use shardwright_runs::records::{
    BindingRecord, ClaimableRecord, DefinitionRecord, EstimateRecord, ManifestRecord,
    ProgressRecord, RequesterRecord, ReservedShardsRecord, RunHeadRecord, RunLabelRecord,
    RunNameRecord, RunShardsRecord, RunStateRecord, SplitRequestRecord, StageRecord,
    WaitingWorkerRecord, WatermarkRecord,
};

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
        RecordKind::Definition => check::<DefinitionRecord>(data),
        RecordKind::Progress => check::<ProgressRecord>(data),
        RecordKind::RunHead => check::<RunHeadRecord>(data),
        RecordKind::Manifest => check::<ManifestRecord>(data),
        RecordKind::RunState => check::<RunStateRecord>(data),
        RecordKind::Binding => check::<BindingRecord>(data),
        RecordKind::WaitingWorker => check::<WaitingWorkerRecord>(data),
        RecordKind::Watermark => check::<WatermarkRecord>(data),
        RecordKind::SplitRequest => check::<SplitRequestRecord>(data),
        RecordKind::Requester => check::<RequesterRecord>(data),
        RecordKind::RunShards => check::<RunShardsRecord>(data),
        RecordKind::ReservedShards => check::<ReservedShardsRecord>(data),
        RecordKind::Stage => check::<StageRecord>(data),
        RecordKind::ClockMark => check::<ClockMarkRecord>(data),
        RecordKind::StoreGeneration => check::<StoreGenerationRecord>(data),
        RecordKind::Format => check::<FormatRecord>(data),
        RecordKind::Claimable => check::<ClaimableRecord>(data),
        RecordKind::Estimate => check::<EstimateRecord>(data),
        RecordKind::RunName => check::<RunNameRecord>(data),
        RecordKind::RunLabel => check::<RunLabelRecord>(data),
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
