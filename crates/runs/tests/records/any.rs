//! Generated records, for properties.

use std::num::{NonZeroU32, NonZeroU64};

use proptest::collection::{btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use shardwright_contracts::limits::{
    MAX_INITIAL_SHARDS, MAX_KEY_SIZE, MAX_METADATA_SIZE, MAX_PARK_DETAIL_SIZE,
    MAX_SPAWNED_PER_SHARD, MAX_TOKEN_SIZE, OP_LOG_CAPACITY, RUN_OP_LOG_CAPACITY,
};
use shardwright_contracts::{
    Cursor, CursorSemantics, CursorUpdate, FenceEpoch, LogicalTime, OpId, RunId, ShardId, ShardKey,
    ShardSpec, TenantId, WorkerId,
};
use shardwright_coordination::ops::SplitRequestSlot;
use shardwright_coordination::{
    LeaseHolder, OpKind, OpLog, OpLogEntry, OpResult, Park, ParkReason, RunConfig, RunStatus,
    ShardStatus, Spawned, SplitRequest,
};
use shardwright_runs::records::{
    BindingRecord, DefinitionRecord, ManifestRecord, ProgressRecord, RunHeadRecord,
    RunShardsRecord, RunStateRecord, SplitRequestRecord, StageRecord,
};

pub(crate) fn tenant() -> impl Strategy<Value = TenantId> {
    any::<[u8; 32]>().prop_map(TenantId::from_bytes)
}

pub(crate) fn run_id() -> impl Strategy<Value = RunId> {
    any::<u64>().prop_map(RunId::from_raw)
}

pub(crate) fn shard() -> impl Strategy<Value = ShardId> {
    any::<u64>().prop_map(ShardId::from_raw)
}

pub(crate) fn worker() -> impl Strategy<Value = WorkerId> {
    any::<u64>().prop_map(WorkerId::from_raw)
}

pub(crate) fn time() -> impl Strategy<Value = LogicalTime> {
    any::<u64>().prop_map(LogicalTime::from_millis)
}

fn fence() -> impl Strategy<Value = FenceEpoch> {
    (1..=u64::MAX).prop_map(|raw| FenceEpoch::from_raw(raw).unwrap())
}

fn semantics() -> impl Strategy<Value = CursorSemantics> {
    select(vec![CursorSemantics::Completed, CursorSemantics::Dispatched])
}

/// Mostly short, sometimes of maximal length.
fn bytes(least: usize, most: usize) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => vec(any::<u8>(), least..24),
        1 => any::<u8>().prop_map(move |byte| vec![byte; most]),
    ]
}

/// A count: mostly low, sometimes maximal.
fn few_or(most: usize) -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0..most.min(5), 1 => Just(most)]
}

fn spec() -> impl Strategy<Value = ShardSpec> {
    let bound = || bytes(0, MAX_KEY_SIZE);
    (bound(), bound(), bytes(0, MAX_METADATA_SIZE)).prop_map(|(one, other, metadata)| {
        let (start, end) = if one < other { (one, other) } else { (other, one) };
        let end = if start == end { Vec::new() } else { end };
        ShardSpec::try_new(&start, &end, &metadata).unwrap()
    })
}

fn cursor() -> impl Strategy<Value = Cursor> {
    let position = (bytes(1, MAX_KEY_SIZE), option::of(bytes(0, MAX_TOKEN_SIZE)));
    option::of(position).prop_map(|position| {
        let Some((key, token)) = position else { return Cursor::initial() };
        let update = CursorUpdate::new(Some(&key), token.as_deref());
        Cursor::try_from_update(update).unwrap()
    })
}

/// A log ordered by time. Runs require the order, shards permit it.
fn op_log<const CAPACITY: usize>(of_run: bool) -> impl Strategy<Value = OpLog<CAPACITY>> {
    let kinds = OpKind::ALL.iter().copied().filter(|kind| kind.is_of_run() == of_run);
    let entry = (select(Vec::from_iter(kinds)), any::<u64>(), any::<u64>());
    let ops = btree_set(any::<u64>(), 0..=CAPACITY).prop_map(Vec::from_iter).prop_shuffle();
    (ops, vec(entry, CAPACITY)).prop_map(|(ops, mut entries)| {
        entries.sort_by_key(|(.., millis)| *millis);
        OpLog::from_entries(ops.into_iter().zip(entries).map(|(op, entry)| {
            let (kind, payload_hash, millis) = entry;
            let result = OpResult::Completed;
            let executed_at = LogicalTime::from_millis(millis);
            OpLogEntry { op: OpId::from_raw(op), kind, result, payload_hash, executed_at }
        }))
    })
}

pub(crate) fn definition() -> impl Strategy<Value = DefinitionRecord> {
    let spawned = few_or(MAX_SPAWNED_PER_SHARD).prop_flat_map(|count| {
        let child = (shard(), any::<u64>()).prop_map(|(shard, payload_hash)| Spawned {
            shard: shard.into_derived(),
            payload_hash,
        });
        vec(child, count)
    });
    (tenant(), run_id(), shard(), spec(), shard(), semantics(), spawned).prop_map(
        |(tenant, run, shard, spec, parent, cursor_semantics, spawned)| DefinitionRecord {
            tenant,
            key: ShardKey::new(run, shard),
            spec,
            parent: shard.is_derived().then_some(parent),
            cursor_semantics,
            spawned,
        },
    )
}

pub(crate) fn progress() -> impl Strategy<Value = ProgressRecord> {
    let park = (select(ParkReason::ALL), bytes(0, MAX_PARK_DETAIL_SIZE))
        .prop_map(|(reason, detail)| Park { reason, detail: detail.into() });
    let lease = option::of((worker(), time()))
        .prop_map(|lease| lease.map(|(owner, deadline)| LeaseHolder { owner, deadline }));
    let log = op_log::<OP_LOG_CAPACITY>(false);
    (select(ShardStatus::ALL), park, fence(), lease, cursor(), log, any::<[u32; 2]>()).prop_map(
        |(status, park, fence, lease, cursor, op_log, acquires)| ProgressRecord {
            status,
            park: (status == ShardStatus::Parked).then_some(park),
            fence,
            lease: lease.filter(|_| !status.is_terminal() && fence > FenceEpoch::INITIAL),
            cursor,
            op_log,
            acquire_count: acquires[0].max(acquires[1]),
            acquires_without_progress: acquires[0].min(acquires[1]),
        },
    )
}

pub(crate) fn config() -> impl Strategy<Value = RunConfig> {
    (semantics(), 1..=u64::MAX, option::of(1..=u32::MAX)).prop_map(
        |(cursor_semantics, lease_duration_ms, max_shard_retries)| RunConfig {
            cursor_semantics,
            lease_duration_ms: NonZeroU64::new(lease_duration_ms).unwrap(),
            max_shard_retries: max_shard_retries.and_then(NonZeroU32::new),
        },
    )
}

pub(crate) fn gate() -> impl Strategy<Value = RunStateRecord> {
    (select(RunStatus::ALL), any::<bool>(), config()).prop_map(|(status, paused, config)| {
        RunStateRecord { status, paused: paused && status == RunStatus::Active, config }
    })
}

pub(crate) fn run() -> impl Strategy<Value = RunHeadRecord> {
    let log = op_log::<RUN_OP_LOG_CAPACITY>(true);
    (tenant(), run_id(), gate(), time(), time(), log, any::<bool>()).prop_map(
        |(tenant, run, gate, one, other, op_log, collecting)| RunHeadRecord {
            tenant,
            run,
            config: gate.config,
            status: gate.status,
            paused: gate.paused,
            created_at: one.min(other),
            completed_at: gate.status.is_terminal().then_some(one.max(other)),
            op_log,
            collecting,
        },
    )
}

pub(crate) fn manifest() -> impl Strategy<Value = ManifestRecord> {
    (few_or(MAX_INITIAL_SHARDS), 0..u64::MAX / 2, 1..100_u64).prop_map(|(count, first, step)| {
        let ids = (0..count as u64).map(|index| first.saturating_add(index * step));
        let root_shards = ids.map(ShardId::from_raw).filter(|shard| !shard.is_derived());
        ManifestRecord { root_shards: root_shards.collect() }
    })
}

pub(crate) fn binding() -> impl Strategy<Value = BindingRecord> {
    (worker(), fence(), time()).prop_map(|(owner, fence, deadline)| BindingRecord {
        owner,
        fence,
        deadline,
    })
}

pub(crate) fn split_request() -> impl Strategy<Value = SplitRequestRecord> {
    let request = (worker(), time(), time()).prop_map(|(requester, requested_at, expires_at)| {
        SplitRequest { requester, requested_at, expires_at }
    });
    (fence(), option::of(request), option::of(time())).prop_map(|(fence, open, not_before)| {
        SplitRequestRecord { fence, slot: SplitRequestSlot { open, not_before } }
    })
}

pub(crate) fn count() -> impl Strategy<Value = RunShardsRecord> {
    any::<[u64; 2]>()
        .prop_map(|[one, other]| RunShardsRecord { used: one.min(other), reserved: one.max(other) })
}

pub(crate) fn stage() -> impl Strategy<Value = StageRecord> {
    any::<[u64; 2]>()
        .prop_map(|[op, payload_hash]| StageRecord { op: OpId::from_raw(op), payload_hash })
}
