//! The cost of the protocol in memory, beside its lower bounds, and how it grows.
#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a bench may use the real world"
)]

#[path = "../../frontier/benches/support/mod.rs"]
mod support;

use std::collections::HashMap;
use std::hint::black_box;

use criterion::Criterion;
use shardwright_contracts::{
    CursorSemantics, CursorUpdate, InitialShardInput, LogicalTime, OpId, RunId, ShardId, ShardKey,
    ShardSpecRef, TenantId, WorkerId,
};
use shardwright_coordination::{
    AcquireScratch, CoordinationBackend, CoordinatorRuntimeConfig, InMemoryCoordinator, Lease,
    RunConfig, RunManagement, ShardClaiming, ShardFilter,
};

use self::support::{Bar, Recorder, is_measuring};

const TENANT: TenantId = TenantId::from_bytes([1; 32]);
const RUN: RunId = RunId::from_raw(1);
const FEW: u64 = 100;
const MANY: u64 = 100_000;
/// The limit of a manifest. More shards come from splits.
const MANIFEST: u64 = 10_000;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut criterion = Criterion::default().configure_from_args();
    let mut recorder = Recorder::new();
    bench_checkpoint(&mut criterion, &mut recorder)?;
    bench_growth(&mut criterion, &mut recorder)?;
    bench_bulk(&mut criterion, &mut recorder)?;
    criterion.final_summary();

    let label = "checkpoint against BLAKE3 of its payload and a hash-map lookup";
    recorder.print_ratio(label, "checkpoint", "hash_and_lookup", Bar::AtMost(3.0));
    let label = "acquire and release, 100,000 shards against 100, 64 of them hot";
    recorder.print_ratio(label, "acquire/100000", "acquire/100", Bar::AtMost(2.0));
    let label = "acquire and release, 100,000 shards against 100, all in random order";
    recorder.print_ratio(label, "shuffled/100000", "shuffled/100", Bar::AtMost(2.0));
    let label = "claim and release, 100,000 shards against 100, one worker";
    recorder.print_ratio(label, "claim/100000", "claim/100", Bar::AtMost(2.0));
    let label = "claim and release, 100,000 shards against 100, 1,000 workers in turn";
    recorder.print_ratio(label, "claim_varied/100000", "claim_varied/100", Bar::AtMost(2.0));
    print_figures(&recorder)
}

#[allow(clippy::print_stdout, reason = "the table is what the benchmark is run for")]
fn print_figures(recorder: &Recorder) -> Result<(), Failure> {
    if !is_measuring() {
        return Ok(());
    }
    println!("figures");
    for (name, what) in [
        ("register/10000", "registering 10,000 shards, per shard"),
        ("list/10000", "listing 10,000 shards, per shard"),
        ("claim_all/100000", "1,000 workers claiming 100,000 shards, per claim"),
    ] {
        if let Some(median) = recorder.median(name) {
            println!("    {what:<52} {median:>9.1} ns");
        }
    }
    if let (Some(few), Some(many), Some(access)) = (
        recorder.median("shuffled/100"),
        recorder.median("shuffled/100000"),
        recorder.median("touch"),
    ) {
        println!("    {:<52} {access:>9.1} ns", "one random access to as much memory");
        let misses = (many - few) / access;
        println!("    {:<52} {misses:>9.1}", "growth of a shuffled acquire, in such accesses");
    }
    let (fresh, full) = bytes_per_shard()?;
    println!("    {:<52} {fresh:>9} bytes, bar 600", "memory per registered, never acquired shard");
    println!("    {:<52} {full:>9} bytes", "memory per shard with a full op log");
    Ok(())
}

fn at(millis: u64) -> LogicalTime {
    LogicalTime::from_millis(millis)
}

fn config() -> Result<RunConfig, Failure> {
    Ok(RunConfig::try_new(CursorSemantics::Completed, 1_000_000, None)?)
}

fn coordinator() -> Result<InMemoryCoordinator, Failure> {
    let config = CoordinatorRuntimeConfig {
        max_shards_per_tenant: 200_000,
        max_total_shards: 200_000,
        // The counting allocator writes every byte of a zeroed buffer. With much more room than the
        // keys need, making a coordinator would take longer than registering its shards.
        slab_capacity: 8 << 20,
        ..CoordinatorRuntimeConfig::default()
    };
    Ok(InMemoryCoordinator::try_new(config)?)
}

/// Bounds of `shards` shards.
fn bounds(shards: u64) -> Vec<[u8; 8]> {
    (1..=shards + 1).map(|n| (n << 16).to_be_bytes()).collect()
}

fn manifest(bounds: &[[u8; 8]]) -> Vec<InitialShardInput<'_>> {
    bounds
        .array_windows()
        .zip(0..)
        .map(|([start, end], id)| InitialShardInput {
            shard: ShardId::from_raw(id),
            spec: ShardSpecRef::new(start, end, b""),
            cursor: CursorUpdate::initial(),
        })
        .collect()
}

fn register(coordinator: &mut InMemoryCoordinator, shards: u64) -> Result<(), Failure> {
    let bounds = bounds(shards);
    let op = OpId::from_raw(1);
    coordinator.create_run_with_shards(at(0), TENANT, RUN, config()?, &manifest(&bounds), op)?;
    Ok(())
}

/// A run of `shards` shards: a manifest, and beyond its limit the children of splits.
fn run_of(shards: u64) -> Result<InMemoryCoordinator, Failure> {
    let mut coordinator = coordinator()?;
    register(&mut coordinator, shards.min(MANIFEST))?;
    let mut scratch = AcquireScratch::new();
    let mut listed = Vec::new();
    coordinator.list_shards_into(at(0), TENANT, RUN, ShardFilter::all(), &mut listed)?;
    let children = shards.div_ceil(MANIFEST);
    for summary in listed.iter().filter(|_| children > 1) {
        let key = ShardKey::new(RUN, summary.shard);
        let worker = WorkerId::from_raw(1);
        let lease =
            coordinator.acquire_and_restore_into(at(0), TENANT, key, worker, &mut scratch)?.lease;
        let cuts: Vec<Vec<u8>> =
            (1..children).map(|n| [&summary.start[..], &n.to_be_bytes()].concat()).collect();
        let cuts: Vec<&[u8]> = cuts.iter().map(Vec::as_slice).collect();
        let spec = ShardSpecRef::new(&summary.start, &summary.end, b"");
        let initial = CursorUpdate::initial();
        let plan = shardwright_contracts::plan_split_replace(spec, initial, &cuts)?;
        coordinator.split_replace(at(0), TENANT, &lease, &plan, OpId::from_raw(2))?;
    }
    Ok(coordinator)
}

fn bench_checkpoint(criterion: &mut Criterion, recorder: &mut Recorder) -> Result<(), Failure> {
    let mut coordinator = run_of(1_000)?;
    let mut scratch = AcquireScratch::new();
    let key = ShardKey::new(RUN, ShardId::from_raw(500));
    let worker = WorkerId::from_raw(1);
    let lease =
        coordinator.acquire_and_restore_into(at(0), TENANT, key, worker, &mut scratch)?.lease;
    let start = scratch.snapshot().spec.start().to_vec();
    let last_key = [&start[..], b"/some/file/with/a/name"].concat();
    let cursor = CursorUpdate::new(Some(&last_key), Some(b"token"));
    let mut op = 10;
    let payload = [&b"checkpoint"[..], &last_key, b"token"].concat();
    let keyed = blake3::Hasher::new_derive_key("the rival's context");
    let map: HashMap<u64, u64> = (0..1_000).map(|n| (n, n)).collect();
    recorder.bench(
        criterion,
        1,
        &mut [
            ("checkpoint", &mut || {
                op += 1;
                let op = OpId::from_raw(op);
                let moved = coordinator.checkpoint(at(1), TENANT, &lease, cursor, op);
                assert!(black_box(moved).is_ok_and(|outcome| !outcome.is_replay()));
            }),
            ("hash_and_lookup", &mut || {
                let mut hasher = keyed.clone();
                hasher.update(black_box(&payload));
                black_box((hasher.finalize(), map.get(black_box(&500))));
            }),
        ],
    );
    Ok(())
}

fn bench_growth(criterion: &mut Criterion, recorder: &mut Recorder) -> Result<(), Failure> {
    let (mut few, mut many) = (run_of(FEW)?, run_of(if is_measuring() { MANY } else { FEW })?);
    let (few_keys, many_keys) = (active_keys(&mut few)?, active_keys(&mut many)?);
    // The records of 64 shards fit the processor's caches, so this compares the work. All shards in
    // random order compare work and memory.
    let names = ["acquire/100", "acquire/100000"];
    let (few_hot, many_hot) = (first_64(&few_keys), first_64(&many_keys));
    compare(criterion, recorder, names, (&mut few, few_hot), (&mut many, many_hot));
    let (few_all, many_all) = (shuffled(few_keys), shuffled(many_keys));
    let names = ["shuffled/100", "shuffled/100000"];
    compare(criterion, recorder, names, (&mut few, &few_all), (&mut many, &many_all));
    bench_touch(criterion, recorder, many_all.len());
    for (names, workers) in
        [(["claim/100", "claim/100000"], 1), (["claim_varied/100", "claim_varied/100000"], 1_000)]
    {
        bench_claim(criterion, recorder, names, workers, [&mut few, &mut many]);
    }
    Ok(())
}

fn first_64(keys: &[ShardKey]) -> &[ShardKey] {
    keys.get(..64).unwrap_or(keys)
}

/// The same keys in a random order, the same in every run.
fn shuffled(mut keys: Vec<ShardKey>) -> Vec<ShardKey> {
    keys.sort_by_key(|key| mixed(key.shard.as_raw()));
    keys
}

const fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    (number ^ (number >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53)
}

type Contestant<'a> = (&'a mut InMemoryCoordinator, &'a [ShardKey]);

/// Acquires and releases all shards in order, with a thousand workers in turn.
fn compare(
    criterion: &mut Criterion,
    recorder: &mut Recorder,
    [few_name, many_name]: [&'static str; 2],
    few: Contestant<'_>,
    many: Contestant<'_>,
) {
    let mut scratches = [AcquireScratch::new(), AcquireScratch::new()];
    let [one, two] = &mut scratches;
    let turn = std::cell::Cell::new(0_usize);
    let take = |(coordinator, keys): (&mut InMemoryCoordinator, &[ShardKey]), scratch: &mut _| {
        turn.set(turn.get() + 1);
        let number = turn.get();
        if let Some(key) = keys.get(number % keys.len()) {
            let worker = WorkerId::from_raw(number as u64 % 1_000);
            let acquired =
                coordinator.acquire_and_restore_into(at(2), TENANT, *key, worker, scratch);
            let lease = acquired.map(|acquired| acquired.lease);
            assert!(release(coordinator, lease.ok(), 1_000 + number as u64));
        }
    };
    recorder.bench(
        criterion,
        1,
        &mut [
            (few_name, &mut || take((&mut *few.0, few.1), one)),
            (many_name, &mut || take((&mut *many.0, many.1), two)),
        ],
    );
}

fn bench_claim(
    criterion: &mut Criterion,
    recorder: &mut Recorder,
    [few_name, many_name]: [&'static str; 2],
    workers: u64,
    [few, many]: [&mut InMemoryCoordinator; 2],
) {
    let mut scratches = [AcquireScratch::new(), AcquireScratch::new()];
    let [one, two] = &mut scratches;
    let turn = std::cell::Cell::new(9_000_000_000_u64);
    let claim = |coordinator: &mut InMemoryCoordinator, scratch: &mut AcquireScratch| {
        turn.set(turn.get() + 1);
        // Worker ids far apart, so that they start at different positions of a long list.
        let worker = WorkerId::from_raw(mixed(turn.get() % workers));
        let claimed = coordinator.claim_next_available(at(3), TENANT, RUN, worker, scratch);
        let lease = claimed.map(|claimed| claimed.lease);
        assert!(release(coordinator, lease.ok(), turn.get()));
    };
    recorder.bench(
        criterion,
        1,
        &mut [(few_name, &mut || claim(few, one)), (many_name, &mut || claim(many, two))],
    );
}

/// The cost of one dependent access in as much memory as the shards take. It bounds every lookup of
/// a shard from below.
fn bench_touch(criterion: &mut Criterion, recorder: &mut Recorder, shards: usize) {
    const WORDS_PER_SHARD: usize = 960 / 8;
    let mut order: Vec<usize> = (0..shards).collect();
    order.sort_by_key(|number| mixed(*number as u64));
    let mut memory = vec![0_usize; shards * WORDS_PER_SHARD];
    for (from, to) in order.iter().zip(order.iter().cycle().skip(1)) {
        if let Some(word) = memory.get_mut(from * WORDS_PER_SHARD) {
            *word = to * WORDS_PER_SHARD;
        }
    }
    let mut place = 0;
    recorder.bench(
        criterion,
        1,
        &mut [("touch", &mut || place = black_box(memory.get(place).copied().unwrap_or(0)))],
    );
}

/// Whether there was a lease and its release was accepted.
fn release(coordinator: &mut InMemoryCoordinator, lease: Option<Lease>, op: u64) -> bool {
    lease.is_some_and(|lease| {
        black_box(coordinator.release(at(3), TENANT, &lease, OpId::from_raw(op))).is_ok()
    })
}

fn active_keys(coordinator: &mut InMemoryCoordinator) -> Result<Vec<ShardKey>, Failure> {
    let mut listed = Vec::new();
    coordinator.list_shards_into(at(0), TENANT, RUN, ShardFilter::active(), &mut listed)?;
    Ok(listed.iter().map(|summary| ShardKey::new(RUN, summary.shard)).collect())
}

fn bench_bulk(criterion: &mut Criterion, recorder: &mut Recorder) -> Result<(), Failure> {
    let shards = if is_measuring() { MANIFEST } else { FEW };
    let mut listed = Vec::new();
    let mut listing = run_of(shards)?;
    recorder.bench(
        criterion,
        shards,
        &mut [("register/10000", &mut || {
            let registered = coordinator().and_then(|mut fresh| register(&mut fresh, shards));
            assert!(black_box(registered).is_ok());
        })],
    );
    recorder.bench(
        criterion,
        shards,
        &mut [("list/10000", &mut || {
            let all = ShardFilter::all();
            assert!(listing.list_shards_into(at(0), TENANT, RUN, all, &mut listed).is_ok());
            assert_eq!(black_box(&listed).len() as u64, shards);
        })],
    );
    let claims = if is_measuring() { MANY } else { FEW };
    let mut coordinator = run_of(claims)?;
    let mut scratch = AcquireScratch::new();
    let mut now = 10;
    recorder.bench(
        criterion,
        claims,
        &mut [("claim_all/100000", &mut || {
            // The leases of the last round have expired.
            now += 1_000_000;
            for turn in 0..claims {
                let worker = WorkerId::from_raw(turn % 1_000);
                let claimed =
                    coordinator.claim_next_available(at(now), TENANT, RUN, worker, &mut scratch);
                assert!(black_box(claimed).is_ok());
            }
        })],
    );
    Ok(())
}

/// Heap bytes per shard, with all tables of the coordinator but without keys and metadata: fresh,
/// and with a full log.
fn bytes_per_shard() -> Result<(u64, u64), Failure> {
    let shards = MANIFEST;
    let bounds = bounds(shards);
    let inputs = manifest(&bounds);
    let limits = CoordinatorRuntimeConfig {
        max_total_shards: shards as usize,
        slab_capacity: 1 << 20,
        ..CoordinatorRuntimeConfig::default()
    };
    let run_config = config()?;
    let mut outcome = None;
    let registering = allocation_counter::measure(|| {
        outcome = InMemoryCoordinator::try_new(limits).ok().and_then(|mut backend| {
            let op = OpId::from_raw(1);
            let registered =
                backend.create_run_with_shards(at(0), TENANT, RUN, run_config, &inputs, op);
            registered.ok().map(|_| backend)
        });
    });
    let Some(mut backend) = outcome else { return Err("registration failed".into()) };
    let fresh = (registering.bytes_current as u64 - u64::from(limits.slab_capacity)) / shards;
    let mut scratch = AcquireScratch::new();
    let mut moved = 0;
    let working = allocation_counter::measure(|| {
        for key in inputs.iter().map(|input| ShardKey::new(RUN, input.shard)) {
            let worker = WorkerId::from_raw(1);
            let acquired =
                backend.acquire_and_restore_into(at(1), TENANT, key, worker, &mut scratch);
            let Ok(acquired) = acquired else { continue };
            let (lease, start) = (acquired.lease, acquired.snapshot.spec.start().to_vec());
            for op in 0..16 {
                let cursor = CursorUpdate::at(&start);
                let done = backend.checkpoint(at(2), TENANT, &lease, cursor, OpId::from_raw(op));
                moved += u64::from(done.is_ok());
            }
        }
    });
    if moved != 16 * shards {
        return Err("checkpoints failed".into());
    }
    Ok((fresh, fresh + working.bytes_current as u64 / shards))
}
