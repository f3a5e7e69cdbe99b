//! A store that shows an older state than it did before: nothing is denied or left behind for it.

use std::future::Future;
use std::sync::{Arc, Mutex};

use shardwright_contracts::CursorUpdate;
use shardwright_coordination::{
    AsyncCoordinationBackend, AsyncRunDirectory, AsyncRunManagement, AsyncShardClaiming,
    CheckpointError, ClaimError, InfraError, RenewError, RunLabel, RunName, RunTransitionError,
};
use shardwright_runs::Retention;
use shardwright_store::Revision;
use shardwright_store::memory::{Before, HookedCall, Hooks, MemoryStore};

use crate::flaky::{Fate, Flaky};
use crate::site::{Engine, LEASE_MS, RUN, Site, TENANT, acquire, op, start, start_run, worker};

/// What reads are shown instead of the present: after how many, and how often.
#[derive(Default)]
struct Memories(Mutex<Option<Memory>>);

struct Memory {
    skip: usize,
    at: Revision,
    times: usize,
}

impl Memories {
    fn show(&self, at: Revision, times: usize) {
        self.show_after(0, at, times);
    }

    fn show_after(&self, skip: usize, at: Revision, times: usize) {
        *self.0.lock().unwrap() = Some(Memory { skip, at, times });
    }
}

impl Hooks for Memories {
    fn before(&self, call: HookedCall<'_>) -> impl Future<Output = Before> + Send {
        let is_read = matches!(call, HookedCall::Load(_) | HookedCall::Scan(..));
        let mut memory = self.0.lock().unwrap();
        let shown = match memory.as_mut().filter(|_| is_read) {
            Some(memory) if memory.skip > 0 => {
                memory.skip -= 1;
                Before::Go
            }
            Some(memory) if memory.times > 0 => {
                memory.times -= 1;
                Before::AsOf(memory.at)
            }
            Some(_) | None => Before::Go,
        };
        std::future::ready(shown)
    }
}

type Forgetful = Flaky<MemoryStore<Memories>>;

fn forgetful(site: &Site) -> (Engine, Forgetful, Arc<Memories>) {
    let memories = Arc::new(Memories::default());
    let store = Flaky::new(site.store.client(Arc::clone(&memories)));
    let engine = site.engine_over(store.clone(), Site::config());
    (engine, store, memories)
}

/// More reads than a call makes.
const ALL: usize = 1_000;

#[test]
fn a_late_checkpoint_is_not_denied_because_an_old_read_has_no_such_shard() {
    let site = Site::new();
    let (engine, store, memories) = forgetful(&site);
    site.run(start(&engine, 2));
    let lease = site.run(acquire(&engine, 0, 1));
    store.henceforth(0, Fate::Late);
    memories.show(Revision::ZERO, ALL);
    let cursor = CursorUpdate::at(b"0000001");
    let told = site.run(engine.checkpoint(TENANT, &lease, cursor, op(1)));
    let unknown = matches!(told, Err(CheckpointError::BackendError(InfraError::Unknown { .. })));
    assert!(unknown, "{told:?}");
    assert_eq!(site.run(store.deliver_late()), 1, "it could still come");
    site.audit();
}

#[test]
fn a_late_checkpoint_is_not_denied_because_an_old_read_shows_another_holder() {
    let site = Site::new();
    let (engine, store, memories) = forgetful(&site);
    site.run(start(&engine, 2));
    let before = site.store.revision();
    let lease = site.run(acquire(&engine, 0, 1));
    store.henceforth(0, Fate::Late);
    memories.show(before, ALL);
    let cursor = CursorUpdate::at(b"0000001");
    let told = site.run(engine.checkpoint(TENANT, &lease, cursor, op(1)));
    let unknown = matches!(told, Err(CheckpointError::BackendError(InfraError::Unknown { .. })));
    assert!(unknown, "{told:?}");
    assert_eq!(site.run(store.deliver_late()), 1, "it could still come");
}

#[test]
fn a_lease_outweighs_a_read_from_before_there_was_the_shard() {
    let site = Site::new();
    let (engine, _, memories) = forgetful(&site);
    let other = site.engine();
    site.run(start(&other, 2));
    let lease = site.run(acquire(&other, 0, 1));
    memories.show(Revision::ZERO, 2);
    site.run(engine.renew(TENANT, &lease)).unwrap();
}

#[test]
fn a_shard_that_an_old_read_did_not_show_is_claimed_later() {
    let site = Site::new();
    let (engine, _, memories) = forgetful(&site);
    site.run(start(&site.engine(), 1));
    // The view is listed as it is; the shard is looked up in an older state.
    memories.show_after(1, Revision::ZERO, 1);
    let nothing = site.run(engine.claim_next_available(TENANT, RUN, worker(1)));
    assert!(matches!(nothing, Err(ClaimError::NoneAvailable(_))), "{nothing:?}");
    site.world.advance(LEASE_MS);
    site.run(engine.claim_next_available(TENANT, RUN, worker(1))).unwrap();
}

#[test]
fn a_late_cancellation_is_not_denied_because_an_old_read_has_no_such_run() {
    for before_create in [true, false] {
        let site = Site::new();
        let (engine, store, memories) = forgetful(&site);
        site.run(start(&engine, 2));
        let before = site.store.revision();
        site.run(engine.pause_run(TENANT, RUN, op(7))).unwrap();
        // The first read of the call is as it should be, and all after it are old.
        let happens =
            move || memories.show(if before_create { Revision::ZERO } else { before }, ALL);
        store.meanwhile(happens);
        store.next([Fate::Late, Fate::Refuse]);
        let told = site.run(engine.cancel_run(TENANT, RUN, op(8)));
        let unknown =
            matches!(told, Err(RunTransitionError::BackendError(InfraError::Unknown { .. })));
        assert!(unknown, "{told:?}");
        assert_eq!(site.run(store.deliver_late()), 1, "it could still come");
    }
}

#[test]
fn a_run_is_taken_away_whole_though_a_listing_is_from_before_it_had_shards() {
    let site = Site::new();
    let (engine, _, memories) = forgetful(&site);
    site.run(start(&engine, 3));
    site.run(start_run(&engine, shardwright_contracts::RunId::from_raw(9), 2));
    site.run(engine.cancel_run(TENANT, RUN, op(1))).unwrap();
    // The list of runs is as it should be; what comes after it is old at first.
    memories.show_after(1, Revision::ZERO, 2);
    let (retention, mut out) = (Retention { ended_ms: 0, initializing_ms: u64::MAX }, Vec::new());
    site.run(engine.collect_into(retention, &mut out)).unwrap();
    let of_run = |name: &String| name.contains("07/0000000000000001");
    let left: Vec<_> = site.key_names().into_iter().filter(of_run).collect();
    assert!(left.is_empty(), "{left:?}");
    site.audit();
}

#[test]
fn a_run_id_is_not_told_as_used_by_the_call_that_has_used_it() {
    let site = Site::new();
    let (engine, store, memories) = forgetful(&site);
    let job =
        RunLabel { name: RunName::new("data-1").unwrap(), description: b"".as_slice().into() };
    // It is stored. Then the name is looked up in an older state, and the run is not.
    store.meanwhile(move || memories.show(Revision::ZERO, 1));
    store.next([Fate::LoseAnswer]);
    assert_eq!(site.run(engine.name_run(TENANT, RUN, &job, None)), Ok(RUN));
}

#[test]
fn whoever_opened_a_restored_store_as_it_was_before_goes_by_no_fence_of_then() {
    let site = Site::new();
    let before = site.engine();
    site.run(start(&before, 2));
    let lease = site.run(acquire(&before, 0, 1));
    drop(before);
    let old = site.store.revision();
    site.run(Engine::raise_generation(site.store.clone(), site.keys.keyspace())).unwrap();
    let memories = Arc::new(Memories::default());
    memories.show(old, ALL);
    let engine = site.engine_over(site.store.client(Arc::clone(&memories)), Site::config());
    memories.show(old, 0);
    let renewed = site.run(engine.renew(TENANT, &lease));
    assert!(matches!(renewed, Err(RenewError::StaleFence(_))), "{renewed:?}");
    for id in [0, 1] {
        let granted = site.run(acquire(&engine, id, 2)).fence();
        assert!(granted.as_raw() >= 1 << 32, "{granted:?}");
    }
    // It hears of the next time, too, and what it knew of leases counts no more.
    let none = site.run(engine.claim_next_available(TENANT, RUN, worker(3)));
    assert!(matches!(none, Err(ClaimError::NoneAvailable(_))), "{none:?}");
    site.run(Engine::raise_generation(site.store.clone(), site.keys.keyspace())).unwrap();
    site.world.advance(2_000);
    for _ in 0..2 {
        let granted = site.run(engine.claim_next_available(TENANT, RUN, worker(3))).unwrap();
        assert!(granted.lease.fence().as_raw() >= 2 << 32, "{:?}", granted.lease);
    }
}
