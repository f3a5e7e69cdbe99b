//! Damaged records never panic, cause typed errors, and do not affect other runs.

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
use shardwright_store::{Key, Store};

use crate::flaky::{FlakyStore, Reaction};
use crate::quarantine::{corrupt, delete, write};
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

fn label() -> RunLabel {
    RunLabel { name: RunName::new("data").unwrap(), description: b"job".as_slice().into() }
}

fn spec() -> ShardSpecRef<'static> {
    ShardSpecRef::new(b"000000", b"000001", b"meta")
}

#[test]
fn damaged_shard_does_not_block_other_split_requests() {
    for part in [false, true] {
        let site = Site::new();
        let engine = site.engine();
        site.run(start(&engine, 2));
        site.run(acquire(&engine, 0, 1));
        site.run(acquire(&engine, 1, 1));
        site.run(engine.request_split(TENANT, shard(0), worker(2), 1_000)).unwrap();
        let key = match part {
            true => site.keys.progress(TENANT, shard(0)),
            false => site.keys.requester(TENANT, RUN, worker(2)),
        };
        site.run(corrupt(&site, key));
        site.run(engine.request_split(TENANT, shard(1), worker(2), 1_000)).unwrap();
    }
}

#[test]
fn damaged_split_request_is_overwritten() {
    let site = Site::new();
    let engine = site.engine();
    site.run(start(&engine, 1));
    let lease = site.run(acquire(&engine, 0, 1));
    let ask = || engine.request_split(TENANT, shard(0), worker(2), 1_000);
    site.run(ask()).unwrap();
    site.run(corrupt(&site, site.keys.split_request(TENANT, shard(0))));
    site.run(ask()).unwrap();
    site.run(corrupt(&site, site.keys.split_request(TENANT, shard(0))));
    let plan = plan_split_residual(spec(), CursorUpdate::initial(), b"0000005").unwrap();
    site.run(engine.split_residual(TENANT, &lease, &plan, op(1))).unwrap();
    site.audit();
}

#[test]
fn damaged_watermark_is_overwritten() {
    let site = Site::new();
    let engine = site.engine();
    site.run(start(&engine, 1));
    let progress = site.run(engine.get_run_progress(TENANT, RUN)).unwrap();
    site.run(corrupt(&site, site.keys.watermark(TENANT, RUN)));
    assert_eq!(site.run(engine.get_run_progress(TENANT, RUN)), Ok(progress));
    let lease = site.run(acquire(&engine, 0, 1));
    site.run(engine.complete(TENANT, &lease, CursorUpdate::initial(), op(1))).unwrap();
    site.run(corrupt(&site, site.keys.watermark(TENANT, RUN)));
    site.run(engine.complete_run(TENANT, RUN, op(2))).unwrap();
}

#[test]
fn run_with_a_damaged_manifest_can_be_ended_and_deleted() {
    for cancel in [false, true] {
        let site = Site::new();
        let engine = site.engine();
        site.run(start(&engine, 2));
        site.run(corrupt(&site, site.keys.manifest(TENANT, RUN)));
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
fn run_without_its_gate_is_reported_and_repaired() {
    for is_mended in [false, true] {
        let site = Site::new();
        let engine = site.engine();
        site.run(start(&engine, 2));
        site.run(delete(&site, site.keys.gate(TENANT, RUN)));
        let errors = [
            site.run(engine.get_run(TENANT, RUN)).unwrap_err().to_string(),
            site.run(engine.list_shards(TENANT, RUN, ShardFilter::all())).unwrap_err().to_string(),
            site.run(engine.claim_next_available(TENANT, RUN, worker(1))).unwrap_err().to_string(),
            site.run(engine.acquire_and_restore(TENANT, shard(0), worker(1)))
                .unwrap_err()
                .to_string(),
            site.run(engine.complete_run(TENANT, RUN, op(1))).unwrap_err().to_string(),
        ];
        for error in errors {
            assert!(error.contains(&format!("run {RUN}: its gate is missing")), "{error}");
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

#[test]
fn estimate_after_the_end_of_a_run_is_not_stored() {
    let site = Site::new();
    let engine = site.engine();
    site.run(start(&engine, 1));
    let lease = site.run(acquire(&engine, 0, 1));
    site.run(engine.cancel_run(TENANT, RUN, op(1))).unwrap();
    let before = site.key_names();
    site.run(engine.publish_estimate(TENANT, &lease, ESTIMATE)).unwrap();
    assert_eq!(site.key_names(), before);
}

/// Two runs with records of all kinds, and a half registered one.
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
        engine.name_run(TENANT, NEW, &label(), None).await.unwrap();
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
    let store = FlakyStore::with_limits(site.store.clone(), limits);
    let engine = site.engine_over(store.clone(), Site::config());
    site.run(engine.create_run(TENANT, STAGED, run_config())).unwrap();
    store.always_after(2, Reaction::HangBefore);
    let manifest = Manifest::of(12);
    let inputs = manifest.inputs();
    let staged = engine.register_shards(TENANT, STAGED, &inputs, op(1));
    assert!(site.world.run_or_drop(staged).is_none());
}

/// Calls every operation. The results do not matter.
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
    drop(engine.find_run(TENANT, label().name).await);
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
    drop(engine.name_run(TENANT, NEW, &label(), Some(RUN)).await);
    drop(engine.create_run_with_shards(TENANT, NEW, run_config(), &inputs, op(4)).await);
    drop(engine.register_shards(TENANT, STAGED, &inputs, op(5)).await);
    drop(engine.create_run(TENANT, RUN, run_config()).await);
    drop(engine.list_active_runs_into(&mut Vec::new()).await);
    drop(engine.fail_run(TENANT, RUN, op(6)).await);
    drop(engine.cancel_run(TENANT, STAGED, op(7)).await);
    drop(engine.collect_into(AT_ONCE, &mut Vec::new()).await);
    drop(engine.gc_stale_initializing_runs_into(1, &mut Vec::new()).await);
}

/// Completes the other run.
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

/// One key of each kind, and whether all runs share it.
fn damaged_keys(site: &Site) -> Vec<(Key, bool)> {
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
        (keys.split_request(TENANT, zero), false),
        (keys.requester(TENANT, RUN, worker(2)), false),
        (keys.name(TENANT, label().name), false),
        (keys.label(TENANT, NEW), false),
        (keys.stage(TENANT, STAGED), false),
        (keys.run(TENANT, STAGED), false),
        (keys.quota_tenant(TENANT), true),
        (keys.quota_total(), true),
        (keys.keyspace().clock(), true),
        (keys.keyspace().format(), true),
        (keys.keyspace().generation(), true),
    ]
}

/// Replacements for a value: foreign bytes, the value cut short, and the value with extreme
/// numbers.
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
fn damaged_records_never_panic_or_affect_other_runs() {
    let (site, _) = busy_site();
    let mut kinds = Vec::new();
    for (index, (key, is_shared)) in damaged_keys(&site).into_iter().enumerate() {
        let found = site.run(site.store.load(std::slice::from_ref(&key))).unwrap();
        let value = found.values[0].clone().unwrap_or_else(|| panic!("{key} is to be there")).value;
        kinds.extend(RecordKind::of(&value));
        for garbage in instead_of(&value) {
            let (site, leases) = busy_site();
            let key = damaged_keys(&site)[index].0.clone();
            site.run(write(&site, key, garbage));
            let (store, env) = (site.store.clone(), site.world.clone());
            let keys = site.keys.keyspace().clone();
            let opened = site.run(StoredCoordinator::open(store, env, keys, Site::config()));
            let Ok(engine) = opened else {
                assert!(is_shared, "a record of one run prevents opening the store");
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
