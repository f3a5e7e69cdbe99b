//! Stale reads cause no wrong refusal and leave nothing behind.

use std::future::Future;
use std::sync::{Arc, Mutex};

use shardwright_contracts::{CursorUpdate, RunId};
use shardwright_coordination::{
    AsyncCoordinationBackend, AsyncRunDirectory, AsyncRunManagement, AsyncShardClaiming,
    CheckpointError, ClaimError, EventKind, InfraError, RenewError, RunLabel, RunName,
    RunTransitionError,
};
use shardwright_runs::{Delivery, Retention};
use shardwright_store::memory::{Before, HookedCall, Hooks, MemoryStore};
use shardwright_store::{Revision, StoreLimits};

use crate::flaky::{FlakyStore, Reaction};
use crate::site::{Engine, LEASE_MS, RUN, Site, TENANT, acquire, op, start, start_run, worker};

/// Scripted stale reads: after how many reads, and how often.
#[derive(Default)]
struct StaleReads(Mutex<Option<StaleRead>>);

struct StaleRead {
    skip: usize,
    at: Revision,
    times: usize,
}

impl StaleReads {
    fn show(&self, at: Revision, times: usize) {
        self.show_after(0, at, times);
    }

    fn show_after(&self, skip: usize, at: Revision, times: usize) {
        *self.0.lock().unwrap() = Some(StaleRead { skip, at, times });
    }
}

impl Hooks for StaleReads {
    fn before(&self, call: HookedCall<'_>) -> impl Future<Output = Before> + Send {
        let is_read = matches!(call, HookedCall::Load(_) | HookedCall::Scan(..));
        let mut stale = self.0.lock().unwrap();
        let shown = match stale.as_mut().filter(|_| is_read) {
            Some(stale) if stale.skip > 0 => {
                stale.skip -= 1;
                Before::Go
            }
            Some(stale) if stale.times > 0 => {
                stale.times -= 1;
                Before::AsOf(stale.at)
            }
            Some(_) | None => Before::Go,
        };
        std::future::ready(shown)
    }
}

type StaleStore = FlakyStore<MemoryStore<StaleReads>>;

fn stale_engine(site: &Site) -> (Engine, StaleStore, Arc<StaleReads>) {
    let stale_reads = Arc::new(StaleReads::default());
    let store = FlakyStore::new(site.store.client(Arc::clone(&stale_reads)));
    let engine = site.engine_over(store.clone(), Site::config());
    (engine, store, stale_reads)
}

/// More reads than a call makes.
const ALL: usize = 1_000;

#[test]
fn late_checkpoint_is_unknown_if_a_stale_read_lacks_the_shard() {
    let site = Site::new();
    let (engine, store, stale_reads) = stale_engine(&site);
    site.run(start(&engine, 2));
    let lease = site.run(acquire(&engine, 0, 1));
    store.always_after(0, Reaction::Late);
    stale_reads.show(Revision::ZERO, ALL);
    let cursor = CursorUpdate::at(b"0000001");
    let outcome = site.run(engine.checkpoint(TENANT, &lease, cursor, op(1)));
    let unknown = matches!(outcome, Err(CheckpointError::BackendError(InfraError::Unknown { .. })));
    assert!(unknown, "{outcome:?}");
    assert_eq!(site.run(store.deliver_late()), 1, "the commit could not be applied later");
    site.audit();
}

#[test]
fn late_checkpoint_is_unknown_if_a_stale_read_has_a_new_holder() {
    let site = Site::new();
    let (engine, store, stale_reads) = stale_engine(&site);
    site.run(start(&engine, 2));
    let before = site.store.revision();
    let lease = site.run(acquire(&engine, 0, 1));
    store.always_after(0, Reaction::Late);
    stale_reads.show(before, ALL);
    let cursor = CursorUpdate::at(b"0000001");
    let outcome = site.run(engine.checkpoint(TENANT, &lease, cursor, op(1)));
    let unknown = matches!(outcome, Err(CheckpointError::BackendError(InfraError::Unknown { .. })));
    assert!(unknown, "{outcome:?}");
    assert_eq!(site.run(store.deliver_late()), 1, "the commit could not be applied later");
}

/// So few writes that shards are staged.
const FEW_WRITES: StoreLimits =
    StoreLimits { expectations: 16, writes: 9, key_bytes: 1_024, bytes: 1 << 20 };

#[test]
fn created_run_is_published_after_a_second_overtaken_attempt() {
    let site = Site::new();
    let stale_reads = Arc::new(StaleReads::default());
    let store = FlakyStore::with_limits(site.store.client(Arc::clone(&stale_reads)), FEW_WRITES);
    let engine = site.engine_over(store.clone(), Site::config());
    // The first call stores a clock mark.
    site.run(start_run(&engine, RunId::from_raw(6), 1));
    let mut events = engine.subscribe();
    let (world, other, before) = (site.world.clone(), site.engine(), site.store.revision());
    // The first attempt creates the run. Another process reserves shards before the answer arrives,
    // and the reads of the second attempt do not show the run.
    store.on_fault(move || {
        world.advance(1);
        world.run_or_drop(start_run(&other, RunId::from_raw(7), 1)).unwrap();
        stale_reads.show_after(1, before, 6);
    });
    store.next([Reaction::LoseAnswer, Reaction::Late]);
    site.run(start(&engine, 20));
    let published = [site.run(events.next()), site.run(events.next())].map(|next| match next {
        Some(Delivery::Event(event)) => event.kind.clone(),
        other => panic!("{other:?}"),
    });
    let started = EventKind::RunActivated { shard_count: 20 };
    assert_eq!(published, [EventKind::RunCreated, started]);
    assert_eq!(site.run(store.deliver_late()), 0);
    site.audit();
}

#[test]
fn newer_lease_outweighs_a_stale_read() {
    let site = Site::new();
    let (engine, _, stale_reads) = stale_engine(&site);
    let other = site.engine();
    site.run(start(&other, 2));
    let lease = site.run(acquire(&other, 0, 1));
    stale_reads.show(Revision::ZERO, 2);
    site.run(engine.renew(TENANT, &lease)).unwrap();
}

#[test]
fn shard_missing_from_a_stale_read_is_claimed_later() {
    let site = Site::new();
    let (engine, _, stale_reads) = stale_engine(&site);
    site.run(start(&site.engine(), 1));
    // The listing of the view is current, and the read of the shard is stale.
    stale_reads.show_after(1, Revision::ZERO, 1);
    let nothing = site.run(engine.claim_next_available(TENANT, RUN, worker(1)));
    assert!(matches!(nothing, Err(ClaimError::NoneAvailable(_))), "{nothing:?}");
    site.world.advance(LEASE_MS);
    site.run(engine.claim_next_available(TENANT, RUN, worker(1))).unwrap();
}

#[test]
fn late_cancellation_is_unknown_if_a_stale_read_lacks_the_run() {
    for before_create in [true, false] {
        let site = Site::new();
        let (engine, store, stale_reads) = stale_engine(&site);
        site.run(start(&engine, 2));
        let before = site.store.revision();
        site.run(engine.pause_run(TENANT, RUN, op(7))).unwrap();
        // The first read of the call is current, and all later ones are stale.
        let happens =
            move || stale_reads.show(if before_create { Revision::ZERO } else { before }, ALL);
        store.on_fault(happens);
        store.next([Reaction::Late, Reaction::Refuse]);
        let outcome = site.run(engine.cancel_run(TENANT, RUN, op(8)));
        let unknown =
            matches!(outcome, Err(RunTransitionError::BackendError(InfraError::Unknown { .. })));
        assert!(unknown, "{outcome:?}");
        assert_eq!(site.run(store.deliver_late()), 1, "the commit could not be applied later");
    }
}

#[test]
fn run_is_deleted_whole_despite_a_stale_listing() {
    let site = Site::new();
    let (engine, _, stale_reads) = stale_engine(&site);
    site.run(start(&engine, 3));
    site.run(start_run(&engine, RunId::from_raw(9), 2));
    site.run(engine.cancel_run(TENANT, RUN, op(1))).unwrap();
    // The list of runs is current, and the next reads are stale.
    stale_reads.show_after(1, Revision::ZERO, 2);
    let (retention, mut out) = (Retention { ended_ms: 0, initializing_ms: u64::MAX }, Vec::new());
    site.run(engine.collect_into(retention, &mut out)).unwrap();
    let of_run = |name: &String| name.contains("07/0000000000000001");
    let left: Vec<_> = site.key_names().into_iter().filter(of_run).collect();
    assert!(left.is_empty(), "{left:?}");
    site.audit();
}

/// Another process changes the number of shards before a late commit of the deletion, and a read
/// after it is stale.
#[test]
fn run_is_reported_as_deleted_only_if_it_is() {
    let mut reported = 0;
    for (commits, reads) in (0..6).flat_map(|commits| (0..6).map(move |reads| (commits, reads))) {
        let site = Site::new();
        let (engine, store, stale_reads) = stale_engine(&site);
        site.run(start(&engine, 3));
        let before = site.store.revision();
        site.run(engine.cancel_run(TENANT, RUN, op(1))).unwrap();
        let (world, other) = (site.world.clone(), site.engine());
        store.on_fault(move || {
            world.run_or_drop(start_run(&other, RunId::from_raw(9), 2)).unwrap();
            stale_reads.show_after(reads, before, 1);
        });
        store.next(std::iter::repeat_n(Reaction::Apply, commits).chain([Reaction::Late]));
        let retention = Retention { ended_ms: 0, initializing_ms: u64::MAX };
        let mut out = Vec::new();
        let _may_fail = site.run(engine.collect_into(retention, &mut out));
        let is_left = site.key_names().iter().any(|key| key.contains("07/0000000000000001"));
        assert!(out.is_empty() || !is_left, "after {commits} commits and {reads} reads");
        reported += out.len();
    }
    assert!(reported > 20, "{reported} deletions");
}

#[test]
fn own_use_of_a_run_id_is_not_a_conflict() {
    let site = Site::new();
    let (engine, store, stale_reads) = stale_engine(&site);
    let label =
        RunLabel { name: RunName::new("data-1").unwrap(), description: b"".as_slice().into() };
    // The name is stored. Then the read of the name is stale, and the read of the run is not.
    store.on_fault(move || stale_reads.show(Revision::ZERO, 1));
    store.next([Reaction::LoseAnswer]);
    assert_eq!(site.run(engine.name_run(TENANT, RUN, &label, None)), Ok(RUN));
}

#[test]
fn stale_open_of_a_restored_store_uses_current_fences() {
    let site = Site::new();
    let before = site.engine();
    site.run(start(&before, 2));
    let lease = site.run(acquire(&before, 0, 1));
    drop(before);
    let old = site.store.revision();
    site.run(Engine::raise_generation(site.store.clone(), site.keys.keyspace())).unwrap();
    let stale_reads = Arc::new(StaleReads::default());
    stale_reads.show(old, ALL);
    let engine = site.engine_over(site.store.client(Arc::clone(&stale_reads)), Site::config());
    stale_reads.show(old, 0);
    let renewed = site.run(engine.renew(TENANT, &lease));
    assert!(matches!(renewed, Err(RenewError::StaleFence(_))), "{renewed:?}");
    for id in [0, 1] {
        let granted = site.run(acquire(&engine, id, 2)).fence();
        assert!(granted.as_raw() >= 1 << 32, "{granted:?}");
    }
    // A second restore is detected, too, and invalidates the known leases.
    let none = site.run(engine.claim_next_available(TENANT, RUN, worker(3)));
    assert!(matches!(none, Err(ClaimError::NoneAvailable(_))), "{none:?}");
    site.run(Engine::raise_generation(site.store.clone(), site.keys.keyspace())).unwrap();
    site.world.advance(2_000);
    for _ in 0..2 {
        let granted = site.run(engine.claim_next_available(TENANT, RUN, worker(3))).unwrap();
        assert!(granted.lease.fence().as_raw() >= 2 << 32, "{:?}", granted.lease);
    }
}
