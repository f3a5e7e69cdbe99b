//! Two coordinators on one store see each other's changes, and one of them wins.

use std::pin::pin;

use shardwright_contracts::CursorUpdate;
use shardwright_coordination::{
    AsyncCoordinationBackend, AsyncRunManagement, AsyncShardClaiming, Backend, ClaimError,
    IdempotentOutcome, SplitRequestError,
};
use shardwright_engine::codec::Record;
use shardwright_runs::records::SplitRequestRecord;
use shardwright_store::Store;

use crate::flaky::{Reaction, YieldingStore};
use crate::site::{
    Engine, LEASE_MS, Manifest, RUN, Site, TENANT, acquire, list, op, run_config, shard, start,
    worker,
};

fn pair(site: &Site) -> (Engine, Engine) {
    (site.engine(), site.engine())
}

fn finds_nothing(site: &Site, engine: &Engine, by: u64) {
    let nothing = site.run(engine.claim_next_available(TENANT, RUN, worker(by)));
    assert!(matches!(nothing, Err(ClaimError::NoneAvailable(_))), "{nothing:?}");
}

#[test]
fn release_by_another_coordinator_wakes_waiting_workers() {
    let site = Site::new();
    let (one, other) = pair(&site);
    site.run(start(&one, 1));
    let lease = site.run(acquire(&one, 0, 1));
    finds_nothing(&site, &other, 2);
    site.world.run_tasks();
    let mut claimable = pin!(other.claimable(TENANT, RUN));
    assert!(site.world.run_until_stuck(claimable.as_mut()).is_none(), "woken without a change");
    // A checkpoint wakes no waiting worker.
    site.run(one.checkpoint(TENANT, &lease, CursorUpdate::at(b"0000001"), op(1))).unwrap();
    assert!(site.world.run_until_stuck(claimable.as_mut()).is_none(), "woken by a checkpoint");
    site.run(one.release(TENANT, &lease, op(2))).unwrap();
    assert!(site.world.run_until_stuck(claimable.as_mut()).is_some(), "not woken by a release");
    site.run(other.claim_next_available(TENANT, RUN, worker(2))).unwrap();
}

#[test]
fn new_shards_and_the_end_of_a_run_wake_waiting_workers() {
    let site = Site::new();
    let (one, other) = pair(&site);
    site.run(one.create_run(TENANT, RUN, run_config())).unwrap();
    let early = site.run(other.claim_next_available(TENANT, RUN, worker(2)));
    assert!(matches!(early, Err(ClaimError::RunNotActive(_))), "{early:?}");
    let mut claimable = pin!(other.claimable(TENANT, RUN));
    assert!(site.world.run_until_stuck(claimable.as_mut()).is_none());
    let manifest = Manifest::of(1);
    site.run(one.register_shards(TENANT, RUN, &manifest.inputs(), op(1))).unwrap();
    assert!(site.world.run_until_stuck(claimable.as_mut()).is_some(), "not woken by new shards");
    site.run(other.claim_next_available(TENANT, RUN, worker(2))).unwrap();
    finds_nothing(&site, &one, 3);
    let mut claimable = pin!(one.claimable(TENANT, RUN));
    assert!(site.world.run_until_stuck(claimable.as_mut()).is_none());
    site.run(other.cancel_run(TENANT, RUN, op(2))).unwrap();
    assert!(site.world.run_until_stuck(claimable.as_mut()).is_some(), "not woken by the end");
    let late = site.run(one.claim_next_available(TENANT, RUN, worker(3)));
    assert!(matches!(late, Err(ClaimError::RunNotActive(_))), "{late:?}");
}

#[test]
fn broken_watch_is_reopened_without_a_gap() {
    let site = Site::new();
    let (one, other) = pair(&site);
    site.run(start(&one, 2));
    let first = site.run(acquire(&one, 0, 1));
    let second = site.run(acquire(&one, 1, 1));
    finds_nothing(&site, &other, 2);
    site.world.run_tasks();
    site.store.break_watches();
    site.run(one.release(TENANT, &first, op(1))).unwrap();
    site.world.run_tasks();
    site.run(other.claim_next_available(TENANT, RUN, worker(2))).unwrap();
    // The watch is too far behind: the changes are compacted, and the run is listed again.
    site.store.hold_watches();
    site.run(one.release(TENANT, &second, op(2))).unwrap();
    site.store.compact(site.store.revision());
    site.store.release_watches();
    site.world.run_tasks();
    site.run(other.claim_next_available(TENANT, RUN, worker(3))).unwrap();
}

#[test]
fn request_to_another_holder_withdraws_the_expired_one() {
    let site = Site::new();
    let (one, other) = pair(&site);
    site.run(start(&one, 2));
    site.run(acquire(&one, 0, 1));
    site.run(acquire(&one, 1, 1));
    site.run(other.request_split(TENANT, shard(0), worker(2), 10)).unwrap();
    let early = site.run(other.request_split(TENANT, shard(1), worker(2), 10));
    assert!(matches!(early, Err(SplitRequestError::SplitAlreadyRequested(_))), "{early:?}");
    site.world.advance(10);
    site.run(other.request_split(TENANT, shard(1), worker(2), 10)).unwrap();
    let stored = site.run(site.store.load(&[site.keys.split_request(TENANT, shard(0))])).unwrap();
    let stored = SplitRequestRecord::decode(&stored.values[0].as_ref().unwrap().value).unwrap();
    assert_eq!(stored.slot.open, None, "a holder whose clock is behind would still see it");
}

#[test]
fn late_split_request_and_decline_are_not_stored() {
    let site = Site::new();
    let (late, store) = site.flaky_engine();
    let engine = site.engine();
    site.run(start(&late, 2));
    let first = site.run(acquire(&late, 0, 1));
    let second = site.run(acquire(&late, 1, 1));
    store.always_after(0, Reaction::Late);
    site.run(late.decline_split(TENANT, &first, 50)).unwrap_err();
    site.run(late.request_split(TENANT, shard(1), worker(3), 50)).unwrap_err();
    // Both shards get new holders before the commits arrive.
    for (id, lease) in [first, second].iter().enumerate() {
        site.run(engine.release(TENANT, lease, op(id as u64))).unwrap();
        site.run(acquire(&engine, id as u64, 2));
    }
    assert_eq!(site.run(store.deliver_late()), 0);
}

#[test]
fn holder_gets_requests_of_another_coordinator() {
    let site = Site::new();
    let (one, other) = pair(&site);
    site.run(start(&one, 1));
    let lease = site.run(acquire(&one, 0, 1));
    site.run(other.request_split(TENANT, shard(0), worker(2), 1_000)).unwrap();
    site.run(other.pause_run(TENANT, RUN, op(1))).unwrap();
    site.world.run_tasks();
    let renewed = site.run(one.renew(TENANT, &lease)).unwrap();
    let notice = renewed.notice.unwrap();
    assert!(notice.paused);
    assert_eq!(notice.split_request.map(|request| request.requester), Some(worker(2)));
}

#[test]
fn holder_gets_no_hints_while_the_run_cannot_be_listed() {
    let site = Site::new();
    let (engine, (blind, store)) = (site.engine(), site.flaky_engine());
    site.run(start(&engine, 1));
    let lease = site.run(acquire(&engine, 0, 1));
    site.run(engine.pause_run(TENANT, RUN, op(1))).unwrap();
    store.refuse_scans(true);
    let renewed = site.run(blind.renew(TENANT, &lease)).unwrap();
    assert_eq!(renewed.notice, None, "a notice without a listing");
    let cursor = CursorUpdate::at(b"0000001");
    let moved = site.run(blind.checkpoint(TENANT, &lease, cursor, op(2))).unwrap();
    assert_eq!(moved, IdempotentOutcome::Executed(None));
    store.refuse_scans(false);
    assert!(site.run(blind.renew(TENANT, &lease)).unwrap().notice.unwrap().paused);
}

#[test]
fn one_of_two_concurrent_acquires_succeeds() {
    for seed in 0..100 {
        let site = Site::new();
        let one = site.engine_over(YieldingStore(site.store.clone()), Site::config());
        let other = site.engine_over(YieldingStore(site.store.clone()), Site::config());
        site.run(start(&one, 1));
        let (a, b) = site.race(
            seed,
            one.acquire_and_restore(TENANT, shard(0), worker(1)),
            other.acquire_and_restore(TENANT, shard(0), worker(2)),
        );
        assert!(a.is_ok() != b.is_ok(), "seed {seed}: {a:?} {b:?}");
        assert_eq!(site.run(list(&one))[0].acquire_count, 1);
        site.audit();
    }
}

#[test]
fn concurrent_duplicate_operation_is_executed_once() {
    for seed in 0..100 {
        let site = Site::new();
        let one = site.engine_over(YieldingStore(site.store.clone()), Site::config());
        let other = site.engine_over(YieldingStore(site.store.clone()), Site::config());
        site.run(start(&one, 1));
        let lease = site.run(acquire(&one, 0, 1));
        let spec = shardwright_contracts::ShardSpecRef::new(b"000000", b"000001", b"meta");
        let cursor = CursorUpdate::initial();
        let plan = shardwright_contracts::plan_split_replace(spec, cursor, &[b"0000005"]).unwrap();
        let (a, b) = site.race(
            seed,
            one.split_replace(TENANT, &lease, &plan, op(1)),
            other.split_replace(TENANT, &lease, &plan, op(1)),
        );
        let (a, b) = (a.unwrap(), b.unwrap());
        let executed = |outcome: &_| matches!(outcome, IdempotentOutcome::Executed(_));
        assert!(executed(&a) != executed(&b), "seed {seed}: {a:?} {b:?}");
        assert_eq!(a.into_inner(), b.into_inner());
        assert_eq!(site.run(list(&one)).len(), 3);
        site.audit();
    }
}

#[test]
fn claims_of_two_coordinators_never_overlap() {
    let site = Site::new();
    let (one, other) = pair(&site);
    site.run(start(&one, 40));
    let mut taken = Vec::new();
    for round in 0..40 {
        let engine = if round % 3 == 0 { &one } else { &other };
        let claimed = site.run(engine.claim_next_available(TENANT, RUN, worker(round))).unwrap();
        taken.push(claimed.lease.key().shard);
    }
    taken.sort_unstable();
    taken.dedup();
    assert_eq!(taken.len(), 40);
    finds_nothing(&site, &one, 99);
    finds_nothing(&site, &other, 99);
    site.world.advance(LEASE_MS);
    site.run(other.claim_next_available(TENANT, RUN, worker(99))).unwrap();
}
