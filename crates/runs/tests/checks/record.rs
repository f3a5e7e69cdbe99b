use shardwright_engine::codec::{ClockMarkRecord, FormatRecord, RecordKind, StoreGenerationRecord};
use shardwright_runs::records::{
    BindingRecord, ClaimableRecord, DefinitionRecord, EstimateRecord, ManifestRecord,
    ProgressRecord, RequesterRecord, ReservedShardsRecord, RunHeadRecord, RunLabelRecord,
    RunNameRecord, RunShardsRecord, RunStateRecord, SplitRequestRecord, StageRecord,
    WaitingWorkerRecord, WatermarkRecord,
};

use super::record_checks::{self, check};

/// Bytes decode as a record of at most one kind.
pub(crate) fn any_kind(data: &[u8]) {
    record_checks::any_kind(as_kind, data);
}

/// Checks bytes as a record of a kind. Returns whether they decode, or none if the kind belongs to
/// another protocol.
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
