//! Examples of every record, among them the largest.

use std::num::NonZeroU64;

use shardwright_contracts::limits::{
    MAX_INITIAL_SHARDS, MAX_KEY_SIZE, MAX_METADATA_SIZE, MAX_PARK_DETAIL_SIZE,
    MAX_RUN_DESCRIPTION_SIZE, MAX_RUN_NAME_SIZE, MAX_SPAWNED_PER_SHARD, MAX_TOKEN_SIZE,
    OP_LOG_CAPACITY, RUN_OP_LOG_CAPACITY,
};
use shardwright_contracts::{
    Cursor, CursorSemantics, CursorUpdate, FenceEpoch, LogicalTime, OpId, RunId, ShardId, ShardKey,
    ShardSpec, TenantId, WorkerId,
};
use shardwright_coordination::ops::SplitRequestSlot;
use shardwright_coordination::{
    LeaseHolder, OpKind, OpLog, OpLogEntry, OpResult, Park, ParkReason, RunConfig, RunLabel,
    RunName, RunStatus, ShardStatus, Spawned, SplitRequest, WorkEstimate,
};
use shardwright_engine::codec::{ClockMarkRecord, FormatRecord, StoreGenerationRecord};
use shardwright_runs::records::{
    BindingRecord, ClaimableRecord, DefinitionRecord, EstimateRecord, ManifestRecord,
    ProgressRecord, RequesterRecord, ReservedShardsRecord, RunHeadRecord, RunLabelRecord,
    RunNameRecord, RunShardsRecord, RunStateRecord, SplitRequestRecord, StageRecord,
    WaitingWorkerRecord, WatermarkRecord,
};

use crate::record_tests::{Examples, encoded};

pub(crate) fn tenant() -> TenantId {
    TenantId::from_bytes([0xaa; 32])
}

pub(crate) const fn time(millis: u64) -> LogicalTime {
    LogicalTime::from_millis(millis)
}

pub(crate) fn fence(raw: u64) -> FenceEpoch {
    FenceEpoch::from_raw(raw).unwrap()
}

pub(crate) const fn child(raw: u64) -> ShardId {
    ShardId::from_raw(raw).into_derived()
}

pub(crate) fn entry(op: u64, kind: OpKind) -> OpLogEntry {
    OpLogEntry {
        op: OpId::from_raw(op),
        kind,
        result: OpResult::Completed,
        payload_hash: 0x1122_3344_5566_7788,
        executed_at: time(900),
    }
}

pub(crate) fn config() -> RunConfig {
    RunConfig {
        cursor_semantics: CursorSemantics::Dispatched,
        lease_duration_ms: NonZeroU64::new(30_000).unwrap(),
        max_shard_retries: std::num::NonZeroU32::new(5),
    }
}

pub(crate) fn definition() -> DefinitionRecord {
    DefinitionRecord {
        tenant: tenant(),
        key: ShardKey::new(RunId::from_raw(1), child(2)),
        spec: ShardSpec::try_new(b"b", b"cd", b"meta").unwrap(),
        parent: Some(ShardId::from_raw(3)),
        cursor_semantics: CursorSemantics::Dispatched,
        spawned: vec![Spawned { shard: child(4), payload_hash: 0x0102_0304_0506_0708 }],
    }
}

pub(crate) fn progress() -> ProgressRecord {
    let cursor = CursorUpdate::new(Some(b"bx"), Some(b"tok"));
    ProgressRecord {
        status: ShardStatus::Active,
        park: None,
        fence: fence(0x0102),
        lease: Some(LeaseHolder { owner: WorkerId::from_raw(7), deadline: time(1_000) }),
        cursor: Cursor::try_from_update(cursor).unwrap(),
        op_log: OpLog::from_entries([entry(9, OpKind::Checkpoint)]),
        acquire_count: 3,
        acquires_without_progress: 1,
    }
}

pub(crate) fn parked() -> ProgressRecord {
    ProgressRecord {
        status: ShardStatus::Parked,
        park: Some(Park { reason: ParkReason::Poisoned, detail: b"bad".as_slice().into() }),
        fence: FenceEpoch::INITIAL,
        lease: None,
        cursor: Cursor::initial(),
        op_log: OpLog::new(),
        acquire_count: 0,
        acquires_without_progress: 0,
    }
}

pub(crate) fn run() -> RunHeadRecord {
    RunHeadRecord {
        tenant: tenant(),
        run: RunId::from_raw(1),
        config: config(),
        status: RunStatus::Done,
        paused: false,
        created_at: time(100),
        completed_at: Some(time(1_000)),
        op_log: OpLog::from_entries([entry(9, OpKind::CompleteRun)]),
        collecting: true,
    }
}

pub(crate) fn manifest() -> ManifestRecord {
    ManifestRecord { root_shards: vec![ShardId::from_raw(1), ShardId::from_raw(0x0203)] }
}

pub(crate) fn gate() -> RunStateRecord {
    RunStateRecord { status: RunStatus::Active, paused: true, config: config() }
}

pub(crate) fn binding() -> BindingRecord {
    BindingRecord { owner: WorkerId::from_raw(7), fence: fence(2), deadline: time(1_000) }
}

pub(crate) fn split_request() -> SplitRequestRecord {
    let request = SplitRequest {
        requester: WorkerId::from_raw(8),
        requested_at: time(500),
        expires_at: time(1_500),
    };
    let slot = SplitRequestSlot { open: Some(request), not_before: Some(time(2_000)) };
    SplitRequestRecord { fence: fence(2), slot }
}

pub(crate) fn stage() -> StageRecord {
    StageRecord { op: OpId::from_raw(9), payload_hash: 0x1122_3344_5566_7788 }
}

pub(crate) fn largest_definition() -> DefinitionRecord {
    DefinitionRecord {
        spec: ShardSpec::try_new(
            &[0xfe; MAX_KEY_SIZE],
            &[0xff; MAX_KEY_SIZE],
            &[0xff; MAX_METADATA_SIZE],
        )
        .unwrap(),
        spawned: (0..MAX_SPAWNED_PER_SHARD as u64)
            .map(|index| Spawned { shard: child(index), payload_hash: u64::MAX })
            .collect(),
        ..definition()
    }
}

pub(crate) fn largest_progress() -> ProgressRecord {
    let (key, token) = ([0xfe; MAX_KEY_SIZE], [0xff; MAX_TOKEN_SIZE]);
    let cursor = CursorUpdate::new(Some(&key), Some(&token));
    let detail = vec![0xff; MAX_PARK_DETAIL_SIZE].into();
    ProgressRecord {
        status: ShardStatus::Parked,
        park: Some(Park { reason: ParkReason::Other, detail }),
        fence: FenceEpoch::MAX,
        lease: None,
        cursor: Cursor::try_from_update(cursor).unwrap(),
        op_log: OpLog::from_entries(
            (0..OP_LOG_CAPACITY as u64).map(|op| entry(op, OpKind::Release)),
        ),
        acquire_count: u32::MAX,
        acquires_without_progress: u32::MAX,
    }
}

pub(crate) fn largest_run() -> RunHeadRecord {
    let entries = (0..RUN_OP_LOG_CAPACITY as u64).map(|op| entry(op, OpKind::PauseRun));
    RunHeadRecord {
        op_log: OpLog::from_entries(entries),
        completed_at: Some(LogicalTime::MAX),
        ..run()
    }
}

pub(crate) fn largest_manifest() -> ManifestRecord {
    ManifestRecord { root_shards: (0..MAX_INITIAL_SHARDS as u64).map(ShardId::from_raw).collect() }
}

pub(crate) fn estimate() -> EstimateRecord {
    let estimate = WorkEstimate {
        done_items: 3,
        done_bytes: 300,
        left_items: Some(7),
        left_bytes: None,
        left_ms: Some(1_500),
        is_indivisible: true,
    };
    EstimateRecord { fence: fence(2), holder: WorkerId::from_raw(7), at: time(900), estimate }
}

pub(crate) fn purpose() -> RunLabelRecord {
    let name = RunName::new("data").unwrap();
    RunLabelRecord { label: RunLabel { name, description: b"{}".as_slice().into() } }
}

pub(crate) fn largest_purpose() -> RunLabelRecord {
    let name = RunName::new(&"n".repeat(MAX_RUN_NAME_SIZE)).unwrap();
    RunLabelRecord {
        label: RunLabel { name, description: vec![7; MAX_RUN_DESCRIPTION_SIZE].into() },
    }
}

/// At least one value of each kind.
pub(crate) fn small() -> Examples {
    vec![
        encoded(&definition()),
        encoded(&DefinitionRecord { spawned: Vec::new(), ..definition() }),
        encoded(&progress()),
        encoded(&parked()),
        encoded(&run()),
        encoded(&manifest()),
        encoded(&ManifestRecord::default()),
        encoded(&gate()),
        encoded(&binding()),
        encoded(&WaitingWorkerRecord { until: time(1_000) }),
        encoded(&WatermarkRecord { reached: b"key".as_slice().into() }),
        encoded(&split_request()),
        encoded(&SplitRequestRecord { slot: SplitRequestSlot::default(), ..split_request() }),
        encoded(&RequesterRecord { shard: child(2) }),
        encoded(&RunShardsRecord { used: 3, reserved: 64 }),
        encoded(&ReservedShardsRecord { reserved: 64 }),
        encoded(&stage()),
        encoded(&ClockMarkRecord { reserved_until: time(1_000) }),
        encoded(&StoreGenerationRecord { number: 2 }),
        encoded(&FormatRecord { version: 1 }),
        encoded(&ClaimableRecord),
        encoded(&estimate()),
        encoded(&RunNameRecord { run: RunId::from_raw(1) }),
        encoded(&purpose()),
    ]
}

/// The largest values of the kinds that vary in size.
pub(crate) fn largest() -> Examples {
    vec![
        encoded(&largest_definition()),
        encoded(&largest_progress()),
        encoded(&largest_run()),
        encoded(&largest_manifest()),
        encoded(&largest_purpose()),
    ]
}
