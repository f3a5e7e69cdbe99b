//! Whatever is stored, nothing panics, every failure has a type, and other runs go on.

use bytes::Bytes;
use shardwright_contracts::{
    CursorUpdate, RunId, ShardId, ShardKey, ShardSpecRef, plan_split_replace, plan_split_residual,
};
use shardwright_coordination::{
    AsyncCoordinationBackend, AsyncRunDirectory, AsyncRunManagement, AsyncShardClaiming,
    AsyncWorkEstimates, Lease, ParkReason, RunLabel, RunName, RunStatus, ShardFilter, WorkEstimate,
};
use shardwright_engine::codec::RecordKind;
use shardwright_runs::{Retention, StoredCoordinator};
use shardwright_store::{Commit, Expect, Key, Store};

use crate::flaky::{Fate, Flaky};
use crate::quarantine::{scribble, write};
use crate::site::{
    Engine, LEASE_MS, Manifest, RUN, Site, TENANT, acquire, op, run_config, shard, start,
    start_run, worker,
};

const OTHER: RunId = RunId::from_raw(2);
const NEW: RunId = RunId::from_raw(3);
const STAGED: RunId = RunId::from_raw(4);
const AT_ONCE: Retention = Retention { ended_ms: 1, initializing_ms: 1 };
const ESTIMATE: WorkEstimate = WorkEstimate {
    done_items: 1,
    done_bytes: 1,
    left_items: None,
    left_bytes: None,
    left_ms: None,
    is_indivisible: false,
};

fn job() -> RunLabel {
    RunLabel { name: RunName::new("data").unwrap(), description: b"job".as_slice().into() }
}

fn spec() -> ShardSpecRef<'static> {
    ShardSpecRef::new(b"000000", b"000001", b"meta")
}

#[test]
fn a_damaged_shard_keeps_no_worker_from_asking_another_holder() {
    for part in [false, true] {
        let site = Site::new();
        let engine = site.engine();
        site.run(start(&engine, 2));
        site.run(acquire(&engine, 0, 1));
        site.run(acquire(&engine, 1, 1));
        site.run(engine.request_split(TENANT, shard(0), worker(2), 1_000)).unwrap();
        let key = match part {
            true => site.keys.progress(TENANT, shard(0)),
            false => site.keys.asker(TENANT, RUN, worker(2)),
        };
        site.run(scribble(&site, key));
        site.run(engine.request_split(TENANT, shard(1), worker(2), 1_000)).unwrap();
    }
}

#[test]
fn a_damaged_request_keeps_nobody_from_splitting_or_asking() {
    let site = Site::new();
    let engine = site.engine();
    site.run(start(&engine, 1));
    let lease = site.run(acquire(&engine, 0, 1));
    let ask = || engine.request_split(TENANT, shard(0), worker(2), 1_000);
    site.run(ask()).unwrap();
    site.run(scribble(&site, site.keys.ask(TENANT, shard(0))));
    site.run(ask()).unwrap();
    site.run(scribble(&site, site.keys.ask(TENANT, shard(0))));
    let plan = plan_split_residual(spec(), CursorUpdate::initial(), b"0000005").unwrap();
    site.run(engine.split_residual(TENANT, &lease, &plan, op(1))).unwrap();
    site.audit();
}

#[test]
fn a_damaged_watermark_is_written_anew_and_blocks_nothing() {
    let site = Site::new();
    let engine = site.engine();
    site.run(start(&engine, 1));
    let told = site.run(engine.get_run_progress(TENANT, RUN)).unwrap();
    site.run(scribble(&site, site.keys.watermark(TENANT, RUN)));
    assert_eq!(site.run(engine.get_run_progress(TENANT, RUN)), Ok(told));
    let lease = site.run(acquire(&engine, 0, 1));
    site.run(engine.complete(TENANT, &lease, CursorUpdate::initial(), op(1))).unwrap();
    site.run(scribble(&site, site.keys.watermark(TENANT, RUN)));
    site.run(engine.complete_run(TENANT, RUN, op(2))).unwrap();
}

#[test]
fn a_run_whose_manifest_is_damaged_can_be_ended_and_taken_away() {
    for cancel in [false, true] {
        let site = Site::new();
        let engine = site.engine();
        site.run(start(&engine, 2));
        site.run(scribble(&site, site.keys.manifest(TENANT, RUN)));
        assert!(site.run(engine.get_run(TENANT, RUN)).is_err());
        let ended = match cancel {
            true => site.run(engine.cancel_run(TENANT, RUN, op(1))),
            false => site.run(engine.fail_run(TENANT, RUN, op(1))),
        };
        assert!(!ended.unwrap().is_replay());
        site.world.advance(10);
        let mut collected = Vec::new();
        site.run(engine.collect_into(AT_ONCE, &mut collected)).unwrap();
        assert_eq!(collected.len(), 1);
        assert!(site.key_names().iter().all(|key| key.contains("/meta/")));
    }
}

#[test]
fn a_run_whose_gate_is_gone_is_told_as_damaged_and_every_change_of_it_mends_that() {
    for is_mended in [false, true] {
        let site = Site::new();
        let engine = site.engine();
        site.run(start(&engine, 2));
        site.run(take(&site, site.keys.gate(TENANT, RUN)));
        let told = [
            site.run(engine.get_run(TENANT, RUN)).unwrap_err().to_string(),
            site.run(engine.list_shards(TENANT, RUN, ShardFilter::all())).unwrap_err().to_string(),
            site.run(engine.claim_next_available(TENANT, RUN, worker(1))).unwrap_err().to_string(),
            site.run(engine.acquire_and_restore(TENANT, shard(0), worker(1)))
                .unwrap_err()
                .to_string(),
            site.run(engine.complete_run(TENANT, RUN, op(1))).unwrap_err().to_string(),
        ];
        for told in told {
            assert!(told.contains(&format!("run {RUN}: its gate is gone")), "{told}");
        }
        if is_mended {
            site.run(engine.pause_run(TENANT, RUN, op(2))).unwrap();
            site.run(engine.resume_run(TENANT, RUN, op(3))).unwrap();
            site.run(engine.claim_next_available(TENANT, RUN, worker(1))).unwrap();
        }
        site.run(engine.cancel_run(TENANT, RUN, op(4))).unwrap();
        let ended = site.run(engine.get_run(TENANT, RUN)).unwrap();
        assert_eq!(ended.status, RunStatus::Cancelled);
        site.world.advance(10);
        let mut collected = Vec::new();
        site.run(engine.collect_into(AT_ONCE, &mut collected)).unwrap();
        assert_eq!(collected.len(), 1);
        assert!(site.key_names().iter().all(|key| key.contains("/meta/")));
    }
}

/// Takes a key away that should stay.
async fn take(site: &Site, key: Key) {
    let found = site.store.load(std::slice::from_ref(&key)).await.unwrap();
    let expect = Expect::At(found.values[0].as_ref().unwrap().revision);
    let commit = Commit::builder().expect(key.clone(), expect).delete(key).build().unwrap();
    site.store.commit(commit).await.unwrap();
}

#[test]
fn what_a_holder_tells_after_the_end_of_its_run_leaves_nothing_behind() {
    let site = Site::new();
    let engine = site.engine();
    site.run(start(&engine, 1));
    let lease = site.run(acquire(&engine, 0, 1));
    site.run(engine.cancel_run(TENANT, RUN, op(1))).unwrap();
    let before = site.key_names();
    site.run(engine.publish_estimate(TENANT, &lease, ESTIMATE)).unwrap();
    assert_eq!(site.key_names(), before);
}

/// Two runs of which much is stored, and one that is half registered.
fn busy_site() -> (Site, [Lease; 2]) {
    let site = Site::new();
    let engine = site.engine();
    let leases = site.run(async {
        start(&engine, 4).await;
        start_run(&engine, OTHER, 4).await;
        let leases = [acquire(&engine, 0, 1).await, acquire(&engine, 1, 1).await];
        engine.request_split(TENANT, shard(0), worker(2), LEASE_MS).await.unwrap();
        engine.publish_estimate(TENANT, &leases[0], ESTIMATE).await.unwrap();
        engine.get_run_progress(TENANT, RUN).await.unwrap();
        engine.name_run(TENANT, NEW, &job(), None).await.unwrap();
        let others = [acquire(&engine, 2, 1).await, acquire(&engine, 3, 1).await];
        assert!(engine.claim_next_available(TENANT, RUN, worker(7)).await.is_err());
        for lease in &others {
            engine.release(TENANT, lease, op(100)).await.unwrap();
        }
        leases
    });
    stage(&site);
    (site, leases)
}

/// Leaves a registration half done.
fn stage(site: &Site) {
    let mut limits = site.store.limits();
    limits.writes = 9;
    let store = Flaky::with_limits(site.store.clone(), limits);
    let engine = site.engine_over(store.clone(), Site::config());
    site.run(engine.create_run(TENANT, STAGED, run_config())).unwrap();
    store.henceforth(2, Fate::HangBefore);
    let manifest = Manifest::of(12);
    let inputs = manifest.inputs();
    let staged = engine.register_shards(TENANT, STAGED, &inputs, op(1));
    assert!(site.world.run_or_drop(staged).is_none());
}

/// Every operation there is. What comes of it does not matter.
async fn do_everything(engine: &Engine, leases: &[Lease; 2]) {
    let cursor = CursorUpdate::at(b"0000003");
    let replace = plan_split_replace(spec(), CursorUpdate::initial(), &[b"0000005"]).unwrap();
    let residual = plan_split_residual(spec(), CursorUpdate::initial(), b"0000005").unwrap();
    let manifest = Manifest::of(2);
    let inputs = manifest.inputs();
    drop(engine.get_run(TENANT, RUN).await);
    drop(engine.get_run_progress(TENANT, RUN).await);
    drop(engine.list_shards(TENANT, RUN, ShardFilter::all()).await);
    drop(engine.inspect_shards(TENANT, RUN).await);
    drop(engine.collect_claim_candidates(TENANT, RUN, worker(3), 9).await);
    drop(engine.list_estimates(TENANT, RUN).await);
    drop(engine.list_labels(TENANT).await);
    drop(engine.label_of(TENANT, NEW).await);
    drop(engine.find_run(TENANT, job().name).await);
    for (lease, id) in leases.iter().zip(10..) {
        drop(engine.renew(TENANT, lease).await);
        drop(engine.publish_estimate(TENANT, lease, ESTIMATE).await);
        drop(engine.decline_split(TENANT, lease, 10).await);
        drop(engine.request_split(TENANT, lease.key(), worker(2), 1_000).await);
        drop(engine.split_residual(TENANT, lease, &residual, op(id)).await);
        drop(engine.checkpoint(TENANT, lease, cursor, op(id + 10)).await);
        drop(engine.split_replace(TENANT, lease, &replace, op(id + 20)).await);
    }
    for id in 0..4 {
        let key = shard(id);
        drop(engine.unpark_shard(TENANT, key, op(50 + id)).await);
        if let Ok(acquired) = engine.acquire_and_restore(TENANT, key, worker(4)).await {
            let lease = acquired.lease;
            drop(engine.park_shard(TENANT, &lease, ParkReason::Other, b"why", op(60 + id)).await);
            drop(engine.unpark_shard(TENANT, key, op(70 + id)).await);
        }
    }
    while let Ok(claimed) = engine.claim_next_available(TENANT, RUN, worker(5)).await {
        let shard = claimed.lease.key().shard.as_raw();
        drop(engine.release(TENANT, &claimed.lease, op(80)).await);
        let acquired = engine.acquire_and_restore(TENANT, claimed.lease.key(), worker(5)).await;
        let Ok(acquired) = acquired else { break };
        let initial = CursorUpdate::initial();
        if engine.complete(TENANT, &acquired.lease, initial, op(shard)).await.is_err() {
            break;
        }
    }
    drop(engine.pause_run(TENANT, RUN, op(1)).await);
    drop(engine.resume_run(TENANT, RUN, op(2)).await);
    drop(engine.complete_run(TENANT, RUN, op(3)).await);
    drop(engine.name_run(TENANT, NEW, &job(), Some(RUN)).await);
    drop(engine.create_run_with_shards(TENANT, NEW, run_config(), &inputs, op(4)).await);
    drop(engine.register_shards(TENANT, STAGED, &inputs, op(5)).await);
    drop(engine.create_run(TENANT, RUN, run_config()).await);
    drop(engine.list_active_runs_into(&mut Vec::new()).await);
    drop(engine.fail_run(TENANT, RUN, op(6)).await);
    drop(engine.cancel_run(TENANT, STAGED, op(7)).await);
    drop(engine.collect_into(AT_ONCE, &mut Vec::new()).await);
    drop(engine.gc_stale_initializing_runs_into(1, &mut Vec::new()).await);
}

/// Works off the other run.
async fn finish_other(engine: &Engine) {
    for id in 0..4 {
        let claimed = engine.claim_next_available(TENANT, OTHER, worker(6)).await.unwrap();
        let cursor = CursorUpdate::initial();
        engine.complete(TENANT, &claimed.lease, cursor, op(id)).await.unwrap();
    }
    assert_eq!(engine.get_run_progress(TENANT, OTHER).await.unwrap().done, 4);
    engine.complete_run(TENANT, OTHER, op(9)).await.unwrap();
    assert_eq!(engine.get_run(TENANT, OTHER).await.unwrap().status, RunStatus::Done);
}

/// Every key of the run, one of each kind, and what all runs share.
fn victims(site: &Site) -> Vec<(Key, bool)> {
    let keys = &site.keys;
    let zero = ShardKey::new(RUN, ShardId::from_raw(0));
    vec![
        (keys.run(TENANT, RUN), false),
        (keys.manifest(TENANT, RUN), false),
        (keys.count(TENANT, RUN), false),
        (keys.watermark(TENANT, RUN), false),
        (keys.gate(TENANT, RUN), false),
        (keys.estimate(TENANT, zero), false),
        (keys.definition(TENANT, zero), false),
        (keys.progress(TENANT, zero), false),
        (keys.open(TENANT, shard(3)), false),
        (keys.owner(TENANT, zero), false),
        (keys.waiting(TENANT, RUN, worker(7)), false),
        (keys.ask(TENANT, zero), false),
        (keys.asker(TENANT, RUN, worker(2)), false),
        (keys.name(TENANT, job().name), false),
        (keys.purpose(TENANT, NEW), false),
        (keys.stage(TENANT, STAGED), false),
        (keys.run(TENANT, STAGED), false),
        (keys.quota_tenant(TENANT), true),
        (keys.quota_total(), true),
        (keys.keyspace().clock(), true),
        (keys.keyspace().format(), true),
        (keys.keyspace().generation(), true),
    ]
}

/// What may be there instead of a value: nothing that was ever written, the value cut short, and
/// the value with extreme numbers in it.
fn instead_of(value: &[u8]) -> Vec<Bytes> {
    let mut instead = vec![
        Bytes::new(),
        Bytes::from_static(b"scribble"),
        Bytes::from(vec![0xff; 100]),
        Bytes::copy_from_slice(&value[..value.len() / 2]),
    ];
    for start in (0..value.len()).step_by(4) {
        for byte in [0x00, 0xff] {
            let mut changed = value.to_vec();
            changed[start..].iter_mut().take(8).for_each(|it| *it = byte);
            instead.push(changed.into());
        }
    }
    instead
}

#[test]
fn nothing_that_is_stored_makes_anything_panic_and_other_runs_go_on() {
    let (site, _) = busy_site();
    let mut kinds = Vec::new();
    for (place, (key, is_shared)) in victims(&site).into_iter().enumerate() {
        let found = site.run(site.store.load(std::slice::from_ref(&key))).unwrap();
        let value = found.values[0].clone().unwrap_or_else(|| panic!("{key} is to be there")).value;
        kinds.extend(RecordKind::of(&value));
        for garbage in instead_of(&value) {
            let (site, leases) = busy_site();
            let key = victims(&site)[place].0.clone();
            site.run(write(&site, key, garbage));
            let (store, env) = (site.store.clone(), site.world.clone());
            let keys = site.keys.keyspace().clone();
            let opened = site.run(StoredCoordinator::open(store, env, keys, Site::config()));
            let Ok(engine) = opened else {
                assert!(is_shared, "one record of one run keeps the store closed");
                continue;
            };
            site.run(do_everything(&engine, &leases));
            if !is_shared {
                site.run(finish_other(&engine));
            }
        }
    }
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds.len(), 20, "a kind is missing: {kinds:?}");
}
