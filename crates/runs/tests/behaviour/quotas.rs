//! Limits hold for any number of coordinators that create shards concurrently.

use shardwright_contracts::{
    CursorUpdate, RunId, ShardId, ShardKey, ShardSpecRef, TenantId, plan_split_replace,
};
use shardwright_coordination::error::reason::SplitInvalid;
use shardwright_coordination::{
    AsyncCoordinationBackend, AsyncRunManagement, CreateRunWithShardsError, DerivedShardKind,
    ShardFilter, ShardLimitScope, ShardLimitViolation, ShardLimits, SplitReplaceError,
    derive_split_shard_id,
};
use shardwright_engine::codec::Record;
use shardwright_runs::records::{ReservedShardsRecord, RunShardsRecord};
use shardwright_runs::{EngineConfig, Retention};
use shardwright_store::{Commit, Expect, Store};

use crate::flaky::{FlakyStore, Reaction, YieldingStore};
use crate::quarantine::corrupt;
use crate::site::{Engine, RUN, Site, TENANT, op, run_config, start_run, worker};

const OTHER: RunId = RunId::from_raw(2);

fn limited(per_tenant: usize, quota_block: u64) -> EngineConfig {
    let limits = ShardLimits { per_tenant, total: per_tenant };
    EngineConfig { limits, quota_block, ..Site::config() }
}

/// Replaces the first shard of a run by two.
async fn split(engine: &Engine, run: RunId) -> Result<(), SplitReplaceError> {
    let key = ShardKey::new(run, ShardId::from_raw(0));
    let lease = engine.acquire_and_restore(TENANT, key, worker(1)).await.unwrap().lease;
    let spec = ShardSpecRef::new(b"000000", b"000001", b"meta");
    let plan = plan_split_replace(spec, CursorUpdate::initial(), &[b"0000005"]).unwrap();
    engine.split_replace(TENANT, &lease, &plan, op(5)).await.map(|_| ())
}

async fn count(engine: &Engine) -> usize {
    let mut shards = 0;
    for run in [RUN, OTHER] {
        let listed = engine.list_shards(TENANT, run, ShardFilter::all()).await;
        shards += listed.map_or(0, |listed| listed.len());
    }
    shards
}

#[test]
fn split_into_too_many_children_is_refused() {
    let site = Site::new();
    let config = EngineConfig { max_children_per_op: 1, ..Site::config() };
    let engine = site.engine_over(site.store.clone(), config);
    site.run(start_run(&engine, RUN, 1));
    let reason = SplitInvalid::BackendChildLimitExceeded { children: 2, max: 1 };
    assert_eq!(site.run(split(&engine, RUN)), Err(reason.into()));
    assert_eq!(site.run(count(&engine)), 1);
    site.audit();
}

#[test]
fn split_with_a_taken_derived_id_is_refused() {
    let site = Site::new();
    site.note_damaged();
    let engine = site.engine();
    site.run(start_run(&engine, RUN, 1));
    let parent = ShardKey::new(RUN, ShardId::from_raw(0));
    let shard = derive_split_shard_id(parent, op(5), DerivedShardKind::Child, 1);
    let key = site.keys.definition(TENANT, ShardKey::new(RUN, shard));
    let taken = Commit::builder().expect(key.clone(), Expect::Absent).put(key, "taken").build();
    site.run(site.store.commit(taken.unwrap())).unwrap();
    let reason = SplitInvalid::DerivedIdCollision { shard };
    assert_eq!(site.run(split(&engine, RUN)), Err(reason.into()));
}

#[test]
fn racing_splits_never_exceed_the_limit() {
    let (mut refused, mut both) = (0, 0);
    for seed in 0..120 {
        // The limit allows one split or two, reserved one by one or in blocks.
        let (limit, block) = (6 + 2 * (seed as usize % 2), 1 + seed % 3);
        let site = Site::new();
        let config = limited(limit, block);
        let one = site.engine_over(YieldingStore(site.store.clone()), config);
        let other = site.engine_over(YieldingStore(site.store.clone()), config);
        let create = async {
            start_run(&one, RUN, 2).await;
            start_run(&other, OTHER, 2).await;
        };
        site.run(create);
        let (a, b) = site.race(seed, split(&one, RUN), split(&other, OTHER));
        let shards = site.run(count(&one));
        assert!(shards <= limit, "seed {seed}: {shards} shards");
        refused += usize::from(a.is_err() || b.is_err());
        both += usize::from(a.is_ok() && b.is_ok());
        assert!(a.is_ok() || b.is_ok(), "seed {seed}: {a:?} {b:?}");
        site.audit();
    }
    assert!(refused > 20 && both > 20, "{refused} refused, {both} went through");
}

#[test]
fn racing_registrations_never_exceed_the_limit() {
    for seed in 0..60 {
        let site = Site::new();
        let one = site.engine_over(YieldingStore(site.store.clone()), limited(5, 1));
        let other = site.engine_over(YieldingStore(site.store.clone()), limited(5, 1));
        let register = async |engine: &Engine, run| {
            let manifest = crate::site::Manifest::of(3);
            let (config, inputs) = (run_config(), manifest.inputs());
            engine.create_run_with_shards(TENANT, run, config, &inputs, op(1)).await
        };
        let (a, b) = site.race(seed, register(&one, RUN), register(&other, OTHER));
        assert!(a.is_ok() != b.is_ok(), "seed {seed}: {a:?} {b:?}");
        assert_eq!(site.run(count(&one)), 3);
        site.audit();
    }
}

#[test]
fn deleted_run_returns_its_reservation() {
    let site = Site::new();
    let engine = site.engine_over(site.store.clone(), limited(4, 3));
    let mut collected = Vec::new();
    for round in 0..20 {
        let run = RunId::from_raw(round);
        site.run(start_run(&engine, run, 4));
        site.run(engine.cancel_run(TENANT, run, op(1))).unwrap();
        site.world.advance(10);
        let retention = Retention { ended_ms: 5, initializing_ms: 5 };
        site.run(engine.collect_into(retention, &mut collected)).unwrap();
        assert_eq!(collected.len(), 1);
        site.audit();
    }
}

/// The counter of a run.
fn reserved(site: &Site, run: RunId) -> RunShardsRecord {
    let loaded = site.run(site.store.load(&[site.keys.count(TENANT, run)])).unwrap();
    RunShardsRecord::decode(&loaded.values[0].as_ref().unwrap().value).unwrap()
}

/// Starts the run with ten shards, and makes it reserve more than it uses.
async fn start_with_unused(engine: &Engine) {
    start_run(engine, RUN, 10).await;
    split(engine, RUN).await.unwrap();
}

const WITH_UNUSED: RunShardsRecord = RunShardsRecord { used: 12, reserved: 20 };

#[test]
fn ended_run_returns_its_unused_reservation() {
    for is_late in [false, true] {
        let site = Site::new();
        let store = FlakyStore::new(site.store.clone());
        let engine = site.engine_over(store.clone(), limited(100, 64));
        site.run(start_with_unused(&engine));
        assert_eq!(reserved(&site, RUN), WITH_UNUSED);
        if is_late {
            store.next([Reaction::LoseAnswer]);
        }
        site.run(engine.cancel_run(TENANT, RUN, op(1))).unwrap();
        assert_eq!(reserved(&site, RUN), RunShardsRecord { used: 12, reserved: 12 });
        site.run(start_run(&engine, OTHER, 88));
    }
}

async fn try_run(
    engine: &Engine,
    tenant: TenantId,
    run: u64,
    shards: usize,
) -> Result<(), CreateRunWithShardsError> {
    let manifest = crate::site::Manifest::of(shards);
    let (run, config, inputs) = (RunId::from_raw(run), run_config(), manifest.inputs());
    engine.create_run_with_shards(tenant, run, config, &inputs, op(1)).await.map(|_| ())
}

fn refused(
    scope: ShardLimitScope,
    current: usize,
    additional: usize,
    max: usize,
) -> CreateRunWithShardsError {
    let violation = ShardLimitViolation { scope, current, additional, max };
    CreateRunWithShardsError::Register(violation.into())
}

#[test]
fn only_existing_shards_count_against_a_limit() {
    const STRANGER: TenantId = TenantId::from_bytes([8; TenantId::SIZE]);
    let (tenants, all) = (ShardLimitScope::Tenant, ShardLimitScope::Total);
    for (scope, tenant) in [(tenants, TENANT), (all, STRANGER)] {
        let site = Site::new();
        let engine = site.engine_over(site.store.clone(), limited(100, 64));
        site.run(start_with_unused(&engine));
        assert_eq!(reserved(&site, RUN), WITH_UNUSED);
        let too_many = site.run(try_run(&engine, tenant, 2, 89));
        assert_eq!(too_many, Err(refused(scope, 12, 89, 100)));
        assert_eq!(reserved(&site, RUN), WITH_UNUSED, "a refusal has changed a counter");
        site.run(try_run(&engine, tenant, 2, 85)).unwrap();
        assert!(reserved(&site, RUN).reserved < 20, "nothing was returned");
        site.run(try_run(&engine, tenant, 3, 3)).unwrap();
        let too_many = site.run(try_run(&engine, tenant, 4, 1));
        assert_eq!(too_many, Err(refused(scope, 100, 1, 100)));
        assert_eq!(reserved(&site, RUN), RunShardsRecord { used: 12, reserved: 12 });
    }
}

#[test]
fn limit_of_shards_is_the_limit_of_runs_with_one_shard() {
    let site = Site::new();
    let limits = ShardLimits { per_tenant: 100, total: 1_000 };
    let engine = site.engine_over(site.store.clone(), EngineConfig { limits, ..Site::config() });
    for run in 0..100 {
        site.run(try_run(&engine, TENANT, run, 1)).unwrap();
    }
    let too_many = site.run(try_run(&engine, TENANT, 100, 1));
    assert_eq!(too_many, Err(refused(ShardLimitScope::Tenant, 100, 1, 100)));
}

#[test]
fn split_uses_what_other_runs_have_reserved_ahead() {
    let site = Site::new();
    let engine = site.engine_over(site.store.clone(), limited(24, 64));
    site.run(start_with_unused(&engine));
    site.run(start_run(&engine, OTHER, 4));
    assert_eq!(reserved(&site, RUN), WITH_UNUSED);
    let third = RunId::from_raw(3);
    site.run(start_run(&engine, third, 6));
    site.run(split(&engine, OTHER)).unwrap();
    let reason = SplitInvalid::ShardLimitExceeded(ShardLimitViolation {
        scope: ShardLimitScope::Tenant,
        current: 24,
        additional: 2,
        max: 24,
    });
    assert_eq!(site.run(split(&engine, third)), Err(reason.into()));
    assert_eq!(site.run(count(&engine)), 18);
}

#[test]
fn racing_growth_refuses_only_what_exceeds_the_limit() {
    for seed in 0..60 {
        let site = Site::new();
        let config = limited(24, 64);
        let one = site.engine_over(YieldingStore(site.store.clone()), config);
        let other = site.engine_over(YieldingStore(site.store.clone()), config);
        site.run(start_with_unused(&one));
        site.run(start_run(&one, OTHER, 4));
        // Four reserved shards are free, six are wanted, and twelve do not exist.
        let (a, b) = site.race(seed, try_run(&one, TENANT, 3, 4), split(&other, OTHER));
        assert_eq!((a, b), (Ok(()), Ok(())), "seed {seed}");
    }
}

#[test]
fn reservation_that_no_run_has_refuses_growth_at_the_limit() {
    let site = Site::new();
    site.note_damaged();
    let engine = site.engine_over(site.store.clone(), limited(20, 64));
    site.run(start_run(&engine, RUN, 4));
    let (key, total) = (site.keys.quota_tenant(TENANT), ReservedShardsRecord { reserved: 20 });
    let found = site.run(site.store.load(std::slice::from_ref(&key))).unwrap();
    let at = Expect::At(found.values[0].as_ref().unwrap().revision);
    let raise = Commit::builder().expect(key.clone(), at).put(key, total.encode());
    site.run(site.store.commit(raise.build().unwrap())).unwrap();
    let refusal = site.run(try_run(&engine, TENANT, 2, 1));
    assert_eq!(refusal, Err(refused(ShardLimitScope::Tenant, 20, 1, 20)));
}

#[test]
fn damaged_counter_refuses_growth_at_the_limit() {
    let site = Site::new();
    let engine = site.engine_over(site.store.clone(), limited(20, 64));
    site.run(start_with_unused(&engine));
    site.run(corrupt(&site, site.keys.count(TENANT, RUN)));
    let refusal = site.run(try_run(&engine, TENANT, 2, 1));
    assert_eq!(refusal, Err(refused(ShardLimitScope::Tenant, 20, 1, 20)));
}
