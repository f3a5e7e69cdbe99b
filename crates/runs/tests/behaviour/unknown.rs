//! Answers that get lost: one effect, and nothing but the truth about it.

use std::time::Duration;

use shardwright_contracts::{
    CursorUpdate, RunId, ShardSpecRef, plan_split_replace, plan_split_residual,
};
use shardwright_coordination::{
    AcquireError, AsyncCoordinationBackend, AsyncRunManagement, AsyncShardClaiming,
    CheckpointError, CreateRunError, IdempotentOutcome, InfraError, Lease, ParkReason,
    RegisterShardsError, RunTransitionError, SplitRequestError,
};
use shardwright_runs::{EngineConfig, LeaseBinding};
use shardwright_store::memory::MemoryStore;

use crate::flaky::{Fate, Flaky};
use crate::site::{
    Engine, LEASE_MS, Manifest, RUN, Site, TENANT, acquire, list, op, run_config, shard, start,
    worker,
};

type Subject = Engine;

const OTHER: RunId = RunId::from_raw(2);

/// Everything that can be done and is stored, each after the same beginning: three shards, the
/// first held, the third parked.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Create,
    Register,
    CreateWith,
    Acquire,
    Claim,
    Renew,
    Checkpoint,
    Complete,
    Park,
    Release,
    Replace,
    Residual,
    Unpark,
    Pause,
    Cancel,
}

const DEEDS: [Deed; 15] = [
    Deed::Create,
    Deed::Register,
    Deed::CreateWith,
    Deed::Acquire,
    Deed::Claim,
    Deed::Renew,
    Deed::Checkpoint,
    Deed::Complete,
    Deed::Park,
    Deed::Release,
    Deed::Replace,
    Deed::Residual,
    Deed::Unpark,
    Deed::Pause,
    Deed::Cancel,
];

/// Whether it was done now, or had been before.
type Done = Result<IdempotentOutcome<()>, String>;

fn plain<T, E: std::fmt::Debug>(result: Result<T, E>) -> Done {
    result.map(|_| IdempotentOutcome::Executed(())).map_err(|error| format!("{error:?}"))
}

fn outcome<T, E: std::fmt::Debug>(result: Result<IdempotentOutcome<T>, E>) -> Done {
    result.map(|outcome| outcome.map(|_| ())).map_err(|error| format!("{error:?}"))
}

impl Deed {
    /// Whether it has an id, by which a retry is known.
    const fn has_id(self) -> bool {
        !matches!(self, Self::Create | Self::Acquire | Self::Claim | Self::Renew)
    }

    async fn begin(engine: &Subject) -> Lease {
        start(engine, 3).await;
        engine.create_run(TENANT, OTHER, run_config()).await.unwrap();
        let parked = acquire(engine, 2, 1).await;
        let reason = ParkReason::Other;
        engine.park_shard(TENANT, &parked, reason, b"", op(90)).await.unwrap();
        acquire(engine, 0, 1).await
    }

    async fn perform(self, engine: &Subject, lease: &Lease) -> Done {
        let (cursor, id) = (CursorUpdate::at(b"0000001"), op(1));
        let spec = ShardSpecRef::new(b"000000", b"000001", b"meta");
        let (manifest, third) = (Manifest::of(2), RunId::from_raw(3));
        let inputs = manifest.inputs();
        match self {
            Self::Create => plain(engine.create_run(TENANT, third, run_config()).await),
            Self::Register => outcome(engine.register_shards(TENANT, OTHER, &inputs, id).await),
            Self::CreateWith => {
                let config = run_config();
                let created = engine.create_run_with_shards(TENANT, third, config, &inputs, id);
                outcome(created.await)
            }
            Self::Acquire => plain(engine.acquire_and_restore(TENANT, shard(1), worker(2)).await),
            Self::Claim => plain(engine.claim_next_available(TENANT, RUN, worker(2)).await),
            Self::Renew => plain(engine.renew(TENANT, lease).await),
            Self::Checkpoint => outcome(engine.checkpoint(TENANT, lease, cursor, id).await),
            Self::Complete => outcome(engine.complete(TENANT, lease, cursor, id).await),
            Self::Park => {
                let reason = ParkReason::Poisoned;
                outcome(engine.park_shard(TENANT, lease, reason, b"bad", id).await)
            }
            Self::Release => outcome(engine.release(TENANT, lease, id).await),
            Self::Replace => {
                let initial = CursorUpdate::initial();
                let plan = plan_split_replace(spec, initial, &[b"0000005"]).unwrap();
                outcome(engine.split_replace(TENANT, lease, &plan, id).await)
            }
            Self::Residual => {
                let initial = CursorUpdate::initial();
                let plan = plan_split_residual(spec, initial, b"0000005").unwrap();
                outcome(engine.split_residual(TENANT, lease, &plan, id).await)
            }
            Self::Unpark => outcome(engine.unpark_shard(TENANT, shard(2), id).await),
            Self::Pause => outcome(engine.pause_run(TENANT, RUN, id).await),
            Self::Cancel => outcome(engine.cancel_run(TENANT, RUN, id).await),
        }
    }
}

/// What is stored, apart from when and by whom it was last written.
fn contents(site: &Site) -> (Vec<String>, String) {
    let engine = site.engine();
    let shards = format!("{:?}", site.run(list(&engine)));
    let run = format!("{:?}", site.run(engine.get_run(TENANT, RUN)));
    (site.key_names(), shards + &run)
}

#[test]
fn a_lost_answer_is_found_again_and_the_deed_is_done_once() {
    for deed in DEEDS {
        let expected = {
            let site = Site::new();
            let (engine, _) = site.flaky_engine();
            let lease = site.run(Deed::begin(&engine));
            site.run(deed.perform(&engine, &lease)).unwrap();
            contents(&site)
        };
        for lost in 0..4 {
            let site = Site::new();
            let (engine, store) = site.flaky_engine();
            let lease = site.run(Deed::begin(&engine));
            let fates = std::iter::repeat_n(Fate::Go, lost).chain([Fate::LoseAnswer]);
            store.next(fates);
            let done = site.run(deed.perform(&engine, &lease));
            assert_eq!(done, Ok(IdempotentOutcome::Executed(())), "{deed:?}, lost {lost}");
            assert_eq!(contents(&site), expected, "{deed:?}, lost {lost}");
            store.next([]);
            if deed.has_id() {
                let again = site.run(deed.perform(&engine, &lease));
                assert_eq!(again, Ok(IdempotentOutcome::Replayed(())), "{deed:?} again");
                assert_eq!(contents(&site), expected, "{deed:?} again");
            }
            site.audit();
        }
    }
}

#[test]
fn a_commit_that_may_have_been_applied_is_never_told_as_not_applied() {
    for deed in DEEDS {
        for fate in [Fate::LoseAnswer, Fate::Late] {
            let site = Site::new();
            let (engine, store) = site.flaky_engine();
            let lease = site.run(Deed::begin(&engine));
            // From then on the store neither takes nor tells anything.
            let silent = store.clone();
            store.meanwhile(move || {
                silent.refuse_reads(true);
                silent.henceforth(0, Fate::Refuse);
            });
            store.henceforth(0, fate);
            let done = site.run(deed.perform(&engine, &lease));
            let text = done.expect_err("nothing could be found out");
            assert!(text.contains("Unknown"), "{deed:?}: {text}");
            // When the store is back, the same operation goes on from there.
            store.refuse_reads(false);
            store.next([]);
            site.run(store.deliver_late());
            if deed.has_id() {
                site.run(deed.perform(&engine, &lease)).unwrap();
                let again = site.run(deed.perform(&engine, &lease));
                assert_eq!(again, Ok(IdempotentOutcome::Replayed(())), "{deed:?}");
            }
            site.audit();
        }
    }
}

#[test]
fn an_acquire_that_comes_late_is_the_callers_own() {
    let site = Site::new();
    let (engine, store) = site.flaky_engine();
    site.run(start(&engine, 1));
    site.run(engine.claim_next_available(TENANT, OTHER, worker(1))).unwrap_err();
    // Two attempts get lost, and the first of them arrives before the third look.
    let late = store.clone();
    store.next([Fate::Late]);
    store.meanwhile({
        let world = site.world.clone();
        move || {
            let late = late.clone();
            let deliver = async move {
                late.deliver_late().await;
            };
            shardwright_contracts::Env::spawn(&world, Box::pin(deliver));
        }
    });
    let acquired = site.run(engine.acquire_and_restore(TENANT, shard(0), worker(1))).unwrap();
    site.run(engine.renew(TENANT, &acquired.lease)).unwrap();
    assert_eq!(site.run(list(&engine))[0].acquire_count, 1);
    site.run(store.deliver_late());
    assert_eq!(site.run(list(&engine))[0].acquire_count, 1);
    site.audit();
}

fn is_unknown(error: &InfraError) -> bool {
    matches!(error, InfraError::Unknown { .. })
}

#[test]
fn a_refusal_is_not_told_while_an_attempt_may_still_be_applied() {
    let site = Site::new();
    let (engine, store) = site.flaky_engine();
    site.run(start(&engine, 1));
    let lease = site.run(acquire(&engine, 0, 1));
    // The attempt is on its way when the lease ends.
    let world = site.world.clone();
    store.meanwhile(move || world.advance(LEASE_MS));
    store.henceforth(0, Fate::Late);
    let cursor = CursorUpdate::at(b"0000001");
    let moved = site.run(engine.checkpoint(TENANT, &lease, cursor, op(1)));
    assert!(matches!(&moved, Err(CheckpointError::BackendError(e)) if is_unknown(e)), "{moved:?}");
    // And indeed it arrives: of all its copies, one is applied.
    store.next([]);
    assert_eq!(site.run(store.deliver_late()), 1);
    let again = site.run(engine.checkpoint(TENANT, &lease, cursor, op(1)));
    assert!(again.unwrap().is_replay());
}

#[test]
fn a_refusal_is_told_once_no_attempt_can_be_applied_any_more() {
    let site = Site::new();
    let (engine, store) = site.flaky_engine();
    site.run(start(&engine, 1));
    let lease = site.run(acquire(&engine, 0, 1));
    // While the attempt is on its way, the lease ends and somebody else takes the shard.
    let (world, other) = (site.world.clone(), site.engine());
    store.meanwhile(move || {
        world.advance(LEASE_MS);
        let taken = other.acquire_and_restore(TENANT, shard(0), worker(2));
        world.run_or_drop(taken).unwrap().unwrap();
    });
    store.next([Fate::Late]);
    let cursor = CursorUpdate::at(b"0000001");
    let moved = site.run(engine.checkpoint(TENANT, &lease, cursor, op(1)));
    assert!(matches!(moved, Err(CheckpointError::StaleFence(_))), "{moved:?}");
    assert_eq!(site.run(store.deliver_late()), 0);
    assert_eq!(site.run(list(&engine))[0].last_key, None);
}

/// Takes the only shard away from whoever has it, as soon as a commit meets with an accident.
fn overtake(site: &Site, store: &Flaky<MemoryStore>) {
    let (world, other) = (site.world.clone(), site.engine());
    store.meanwhile(move || {
        world.advance(LEASE_MS);
        let taken = other.acquire_and_restore(TENANT, shard(0), worker(2));
        world.run_or_drop(taken).unwrap().unwrap();
    });
}

#[test]
fn an_acquire_that_was_applied_and_overtaken_is_not_told_as_a_refusal() {
    let site = Site::new();
    let (engine, store) = site.flaky_engine();
    site.run(start(&engine, 1));
    overtake(&site, &store);
    store.next([Fate::LoseAnswer]);
    let taken = site.run(engine.acquire_and_restore(TENANT, shard(0), worker(1)));
    assert!(matches!(&taken, Err(AcquireError::BackendError(e)) if is_unknown(e)), "{taken:?}");
    assert_eq!(site.run(list(&engine))[0].acquire_count, 2);
    site.audit();
}

#[test]
fn an_acquire_that_was_overtaken_before_it_was_applied_is_refused() {
    let site = Site::new();
    let (engine, store) = site.flaky_engine();
    site.run(start(&engine, 1));
    overtake(&site, &store);
    store.next([Fate::Late]);
    let taken = site.run(engine.acquire_and_restore(TENANT, shard(0), worker(1)));
    assert!(matches!(taken, Err(AcquireError::AlreadyLeased(_))), "{taken:?}");
    assert_eq!(site.run(store.deliver_late()), 0);
    assert_eq!(site.run(list(&engine))[0].acquire_count, 1);
}

#[test]
fn a_split_request_that_was_declined_before_its_answer_came_is_not_reported_as_refused() {
    let site = Site::new();
    let (engine, store) = site.flaky_engine();
    site.run(start(&engine, 1));
    let (world, holder) = (site.world.clone(), site.engine());
    let lease = site.run(acquire(&holder, 0, 1));
    store.meanwhile(move || {
        let declined = holder.decline_split(TENANT, &lease, LEASE_MS);
        world.run_or_drop(declined).unwrap().unwrap();
    });
    store.next([Fate::LoseAnswer]);
    let requested = site.run(engine.request_split(TENANT, shard(0), worker(2), LEASE_MS));
    let is_unknown = matches!(&requested, Err(SplitRequestError::BackendError(e)) if is_unknown(e));
    assert!(is_unknown, "{requested:?}");
}

#[test]
fn an_acquire_whose_session_ended_before_it_could_look_is_not_done_again() {
    let site = Site::new();
    let store = Flaky::new(site.store.clone());
    let sessions = LeaseBinding::Session { ttl: Duration::from_millis(LEASE_MS / 2) };
    let engine = site.engine_over(store.clone(), EngineConfig { sessions, ..Site::config() });
    site.run(start(&engine, 1));
    let world = site.world.clone();
    store.meanwhile(move || world.advance(LEASE_MS / 2));
    store.next([Fate::LoseAnswer]);
    let taken = site.run(engine.acquire_and_restore(TENANT, shard(0), worker(1)));
    assert!(matches!(&taken, Err(AcquireError::BackendError(e)) if is_unknown(e)), "{taken:?}");
    assert_eq!(site.run(list(&engine))[0].acquire_count, 1);
    // Asked again, it is given anew.
    let again = site.run(engine.acquire_and_restore(TENANT, shard(0), worker(1)));
    assert!(again.is_ok(), "{again:?}");
    site.audit();
}

#[test]
fn attempts_that_all_stay_unknown_end_as_unknown() {
    let site = Site::new();
    let (engine, store) = site.flaky_engine();
    let lease = site.run(Deed::begin(&engine));
    store.henceforth(0, Fate::Late);
    let cursor = CursorUpdate::at(b"0000001");
    let moved = site.run(engine.checkpoint(TENANT, &lease, cursor, op(1)));
    assert!(matches!(&moved, Err(CheckpointError::BackendError(e)) if is_unknown(e)), "{moved:?}");
    let taken = site.run(engine.acquire_and_restore(TENANT, shard(1), worker(1)));
    assert!(matches!(&taken, Err(AcquireError::BackendError(e)) if is_unknown(e)), "{taken:?}");
    let paused = site.run(engine.pause_run(TENANT, RUN, op(1)));
    let is_told = matches!(&paused, Err(RunTransitionError::BackendError(e)) if is_unknown(e));
    assert!(is_told, "{paused:?}");
    let created = site.run(engine.create_run(TENANT, RunId::from_raw(9), run_config()));
    assert!(matches!(&created, Err(CreateRunError::BackendError(e)) if is_unknown(e)));
    let manifest = Manifest::of(2);
    let registered = site.run(engine.register_shards(TENANT, OTHER, &manifest.inputs(), op(1)));
    assert!(matches!(&registered, Err(RegisterShardsError::BackendError(e)) if is_unknown(e)));
    // Of all the attempts of each, exactly one can be applied.
    store.next([]);
    let applied = site.run(store.deliver_late());
    assert_eq!(applied, 5);
    assert!(site.run(engine.checkpoint(TENANT, &lease, cursor, op(1))).unwrap().is_replay());
    site.audit();
}

#[test]
fn a_mark_of_the_clock_whose_answer_is_lost_troubles_nobody() {
    let site = Site::new();
    let (engine, store) = site.flaky_engine();
    site.run(start(&engine, 1));
    let lease = site.run(acquire(&engine, 0, 1));
    // Long enough that the next call has to store a mark before anything else.
    site.world.advance(5_000);
    store.next([Fate::LoseAnswer]);
    site.run(engine.renew(TENANT, &lease)).unwrap();
    site.world.advance(5_000);
    store.next([Fate::Late, Fate::Refuse]);
    let renewed = site.run(engine.renew(TENANT, &lease));
    let text = format!("{renewed:?}");
    assert!(text.contains("NotApplied"), "nothing was done yet: {text}");
}

#[test]
fn a_run_that_was_made_and_then_changed_is_not_told_as_that_of_somebody_else() {
    let site = Site::new();
    let (engine, store) = site.flaky_engine();
    site.run(start(&engine, 1));
    let (world, other) = (site.world.clone(), site.engine());
    store.meanwhile(move || {
        world.run_or_drop(other.cancel_run(TENANT, OTHER, op(1))).unwrap().unwrap();
    });
    store.next([Fate::LoseAnswer]);
    let made = site.run(engine.create_run(TENANT, OTHER, run_config()));
    assert!(matches!(&made, Err(CreateRunError::BackendError(e)) if is_unknown(e)), "{made:?}");
}
