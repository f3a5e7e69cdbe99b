//! Limits hold for any number of coordinators that create shards concurrently.

use shardwright_contracts::{
    CursorUpdate, RunId, ShardId, ShardKey, ShardSpecRef, plan_split_replace,
};
use shardwright_coordination::error::reason::SplitInvalid;
use shardwright_coordination::{
    AsyncCoordinationBackend, AsyncRunManagement, DerivedShardKind, ShardFilter, ShardLimits,
    SplitReplaceError, derive_split_shard_id,
};
use shardwright_engine::codec::Record;
use shardwright_runs::records::RunShardsRecord;
use shardwright_runs::{EngineConfig, Retention};
use shardwright_store::{Commit, Expect, Store};

use crate::flaky::{FlakyStore, Reaction, YieldingStore};
use crate::site::{Engine, RUN, Site, TENANT, op, start_run, worker};

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
        assert!(a.is_ok() || b.is_ok() || block > 1, "seed {seed}: {a:?} {b:?}");
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
            let (config, inputs) = (crate::site::run_config(), manifest.inputs());
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

#[test]
fn ended_run_returns_its_unused_reservation() {
    for is_late in [false, true] {
        let site = Site::new();
        let store = FlakyStore::new(site.store.clone());
        let engine = site.engine_over(store.clone(), limited(100, 64));
        site.run(start_run(&engine, RUN, 2));
        let run = site.keys.count(TENANT, RUN);
        let reserved = || {
            let loaded = site.run(site.store.load(std::slice::from_ref(&run))).unwrap();
            RunShardsRecord::decode(&loaded.values[0].as_ref().unwrap().value).unwrap()
        };
        assert_eq!(reserved(), RunShardsRecord { used: 2, reserved: 64 });
        if is_late {
            store.next([Reaction::LoseAnswer]);
        }
        site.run(engine.cancel_run(TENANT, RUN, op(1))).unwrap();
        assert_eq!(reserved(), RunShardsRecord { used: 2, reserved: 2 });
        site.audit();
        site.run(start_run(&engine, OTHER, 98));
        site.audit();
    }
}
