//! Lost answers: each operation takes effect once, and its outcome is reported correctly.

use std::num::NonZeroU32;
use std::time::Duration;

use shardwright_contracts::{
    CursorUpdate, RunId, ShardSpecRef, plan_split_replace, plan_split_residual,
};
use shardwright_coordination::{
    AcquireError, AsyncCoordinationBackend, AsyncRunManagement, AsyncShardClaiming,
    CheckpointError, ClaimError, CreateRunError, EventKind, IdempotentOutcome, InfraError, Lease,
    ParkReason, RegisterShardsError, RunConfig, RunTransitionError, SplitRequestError,
};
use shardwright_runs::{Delivery, EngineConfig, LeaseBinding};
use shardwright_store::memory::MemoryStore;

use crate::flaky::{FlakyStore, Reaction};
use crate::site::{
    Engine, LEASE_MS, Manifest, RUN, Site, TENANT, acquire, list, op, run_config, shard, start,
    worker,
};

const OTHER: RunId = RunId::from_raw(2);

/// Every operation that stores something. Each starts with three shards, the first held and the
/// third parked.
#[derive(Clone, Copy, Debug)]
enum Operation {
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

const OPERATIONS: [Operation; 15] = [
    Operation::Create,
    Operation::Register,
    Operation::CreateWith,
    Operation::Acquire,
    Operation::Claim,
    Operation::Renew,
    Operation::Checkpoint,
    Operation::Complete,
    Operation::Park,
    Operation::Release,
    Operation::Replace,
    Operation::Residual,
    Operation::Unpark,
    Operation::Pause,
    Operation::Cancel,
];

/// Executed, replayed or failed.
type Done = Result<IdempotentOutcome<()>, String>;

fn plain<T, E: std::fmt::Debug>(result: Result<T, E>) -> Done {
    result.map(|_| IdempotentOutcome::Executed(())).map_err(|error| format!("{error:?}"))
}

fn outcome<T, E: std::fmt::Debug>(result: Result<IdempotentOutcome<T>, E>) -> Done {
    result.map(|outcome| outcome.map(|_| ())).map_err(|error| format!("{error:?}"))
}

impl Operation {
    /// Whether it has an operation id that identifies retries.
    const fn has_id(self) -> bool {
        !matches!(self, Self::Create | Self::Acquire | Self::Claim | Self::Renew)
    }

    async fn begin(engine: &Engine) -> Lease {
        start(engine, 3).await;
        engine.create_run(TENANT, OTHER, run_config()).await.unwrap();
        let parked = acquire(engine, 2, 1).await;
        let reason = ParkReason::Other;
        engine.park_shard(TENANT, &parked, reason, b"", op(90)).await.unwrap();
        acquire(engine, 0, 1).await
    }

    async fn perform(self, engine: &Engine, lease: &Lease) -> Done {
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

/// The stored state without revisions and sessions.
fn contents(site: &Site) -> (Vec<String>, String) {
    let engine = site.engine();
    let shards = format!("{:?}", site.run(list(&engine)));
    let run = format!("{:?}", site.run(engine.get_run(TENANT, RUN)));
    (site.key_names(), shards + &run)
}

#[test]
fn lost_answer_is_resolved_and_the_operation_runs_once() {
    for operation in OPERATIONS {
        let expected = {
            let site = Site::new();
            let (engine, _) = site.flaky_engine();
            let lease = site.run(Operation::begin(&engine));
            site.run(operation.perform(&engine, &lease)).unwrap();
            contents(&site)
        };
        for lost in 0..4 {
            let site = Site::new();
            let (engine, store) = site.flaky_engine();
            let lease = site.run(Operation::begin(&engine));
            let reactions =
                std::iter::repeat_n(Reaction::Apply, lost).chain([Reaction::LoseAnswer]);
            store.next(reactions);
            let done = site.run(operation.perform(&engine, &lease));
            assert_eq!(done, Ok(IdempotentOutcome::Executed(())), "{operation:?}, lost {lost}");
            assert_eq!(contents(&site), expected, "{operation:?}, lost {lost}");
            store.next([]);
            if operation.has_id() {
                let again = site.run(operation.perform(&engine, &lease));
                assert_eq!(again, Ok(IdempotentOutcome::Replayed(())), "{operation:?} again");
                assert_eq!(contents(&site), expected, "{operation:?} again");
            }
            site.audit();
        }
    }
}

#[test]
fn possibly_applied_commit_is_never_reported_as_not_applied() {
    for operation in OPERATIONS {
        for reaction in [Reaction::LoseAnswer, Reaction::Late] {
            let site = Site::new();
            let (engine, store) = site.flaky_engine();
            let lease = site.run(Operation::begin(&engine));
            // From then on the store rejects writes and reads.
            let silent = store.clone();
            store.on_fault(move || {
                silent.refuse_reads(true);
                silent.always_after(0, Reaction::Refuse);
            });
            store.always_after(0, reaction);
            let done = site.run(operation.perform(&engine, &lease));
            let text = done.expect_err("the outcome is known");
            assert!(text.contains("Unknown"), "{operation:?}: {text}");
            // When the store is available again, the same operation resumes.
            store.refuse_reads(false);
            store.next([]);
            site.run(store.deliver_late());
            if operation.has_id() {
                site.run(operation.perform(&engine, &lease)).unwrap();
                let again = site.run(operation.perform(&engine, &lease));
                assert_eq!(again, Ok(IdempotentOutcome::Replayed(())), "{operation:?}");
            }
            site.audit();
        }
    }
}

#[test]
fn late_acquire_belongs_to_its_caller() {
    let site = Site::new();
    let (engine, store) = site.flaky_engine();
    site.run(start(&engine, 1));
    site.run(engine.claim_next_available(TENANT, OTHER, worker(1))).unwrap_err();
    // The attempt is delayed and arrives before the retry.
    let late = store.clone();
    store.next([Reaction::Late]);
    store.on_fault({
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
fn no_refusal_while_an_attempt_may_be_applied() {
    let site = Site::new();
    let (engine, store) = site.flaky_engine();
    site.run(start(&engine, 1));
    let lease = site.run(acquire(&engine, 0, 1));
    // The lease ends while the attempt is in flight.
    let world = site.world.clone();
    store.on_fault(move || world.advance(LEASE_MS));
    store.always_after(0, Reaction::Late);
    let cursor = CursorUpdate::at(b"0000001");
    let moved = site.run(engine.checkpoint(TENANT, &lease, cursor, op(1)));
    assert!(matches!(&moved, Err(CheckpointError::BackendError(e)) if is_unknown(e)), "{moved:?}");
    // The attempt arrives: one of its copies is applied.
    store.next([]);
    assert_eq!(site.run(store.deliver_late()), 1);
    let again = site.run(engine.checkpoint(TENANT, &lease, cursor, op(1)));
    assert!(again.unwrap().is_replay());
}

#[test]
fn refusal_once_no_attempt_can_be_applied() {
    let site = Site::new();
    let (engine, store) = site.flaky_engine();
    site.run(start(&engine, 1));
    let lease = site.run(acquire(&engine, 0, 1));
    // While the attempt is in flight, the lease ends and another worker acquires the shard.
    let (world, other) = (site.world.clone(), site.engine());
    store.on_fault(move || {
        world.advance(LEASE_MS);
        let taken = other.acquire_and_restore(TENANT, shard(0), worker(2));
        world.run_or_drop(taken).unwrap().unwrap();
    });
    store.next([Reaction::Late]);
    let cursor = CursorUpdate::at(b"0000001");
    let moved = site.run(engine.checkpoint(TENANT, &lease, cursor, op(1)));
    assert!(matches!(moved, Err(CheckpointError::StaleFence(_))), "{moved:?}");
    assert_eq!(site.run(store.deliver_late()), 0);
    assert_eq!(site.run(list(&engine))[0].last_key, None);
}

/// Lets another worker acquire the only shard as soon as a scripted fault occurs.
fn overtake(site: &Site, store: &FlakyStore<MemoryStore>) {
    let (world, other) = (site.world.clone(), site.engine());
    store.on_fault(move || {
        world.advance(LEASE_MS);
        let taken = other.acquire_and_restore(TENANT, shard(0), worker(2));
        world.run_or_drop(taken).unwrap().unwrap();
    });
}

#[test]
fn applied_and_overtaken_acquire_is_unknown() {
    let site = Site::new();
    let (engine, store) = site.flaky_engine();
    site.run(start(&engine, 1));
    overtake(&site, &store);
    store.next([Reaction::LoseAnswer]);
    let taken = site.run(engine.acquire_and_restore(TENANT, shard(0), worker(1)));
    assert!(matches!(&taken, Err(AcquireError::BackendError(e)) if is_unknown(e)), "{taken:?}");
    assert_eq!(site.run(list(&engine))[0].acquire_count, 2);
    site.audit();
}

/// A shard without retries left is parked at the fence of the lost grant. Its record does not show
/// who had the grant.
#[test]
fn claim_of_a_shard_parked_before_the_answer_is_unknown() {
    let site = Site::new();
    let (engine, store) = site.flaky_engine();
    let config = RunConfig { max_shard_retries: NonZeroU32::new(1), ..run_config() };
    let (manifest, id) = (Manifest::of(1), op(1));
    let inputs = manifest.inputs();
    site.run(engine.create_run_with_shards(TENANT, RUN, config, &inputs, id)).unwrap();
    let (world, other) = (site.world.clone(), site.engine());
    store.on_fault(move || {
        world.advance(LEASE_MS);
        let parked = world.run_or_drop(other.acquire_and_restore(TENANT, shard(0), worker(2)));
        assert!(matches!(parked, Some(Err(AcquireError::RetriesExhausted(_)))), "{parked:?}");
    });
    store.next([Reaction::LoseAnswer]);
    let claimed = site.run(engine.claim_next_available(TENANT, RUN, worker(1)));
    assert!(matches!(&claimed, Err(ClaimError::BackendError(e)) if is_unknown(e)), "{claimed:?}");
    assert_eq!(site.run(list(&engine))[0].acquire_count, 1);
    site.audit();
}

#[test]
fn overtaken_and_unapplied_acquire_is_refused() {
    let site = Site::new();
    let (engine, store) = site.flaky_engine();
    site.run(start(&engine, 1));
    overtake(&site, &store);
    store.next([Reaction::Late]);
    let taken = site.run(engine.acquire_and_restore(TENANT, shard(0), worker(1)));
    assert!(matches!(taken, Err(AcquireError::AlreadyLeased(_))), "{taken:?}");
    assert_eq!(site.run(store.deliver_late()), 0);
    assert_eq!(site.run(list(&engine))[0].acquire_count, 1);
}

#[test]
fn split_request_declined_before_its_answer_is_unknown() {
    let site = Site::new();
    let (engine, store) = site.flaky_engine();
    site.run(start(&engine, 1));
    let (world, holder) = (site.world.clone(), site.engine());
    let lease = site.run(acquire(&holder, 0, 1));
    store.on_fault(move || {
        let declined = holder.decline_split(TENANT, &lease, LEASE_MS);
        world.run_or_drop(declined).unwrap().unwrap();
    });
    store.next([Reaction::LoseAnswer]);
    let requested = site.run(engine.request_split(TENANT, shard(0), worker(2), LEASE_MS));
    let is_unknown = matches!(&requested, Err(SplitRequestError::BackendError(e)) if is_unknown(e));
    assert!(is_unknown, "{requested:?}");
}

#[test]
fn split_whose_child_is_claimed_before_the_answer_is_a_replay() {
    let site = Site::new();
    let (engine, store) = site.flaky_engine();
    site.run(start(&engine, 1));
    let lease = site.run(acquire(&engine, 0, 1));
    let mut events = engine.subscribe();
    let (world, other) = (site.world.clone(), site.engine());
    store.on_fault(move || {
        let claimed = other.claim_next_available(TENANT, RUN, worker(2));
        world.run_or_drop(claimed).unwrap().unwrap();
    });
    store.next([Reaction::LoseAnswer]);
    let spec = ShardSpecRef::new(b"000000", b"000001", b"meta");
    let plan = plan_split_replace(spec, CursorUpdate::initial(), &[b"0000005"]).unwrap();
    let split = site.run(engine.split_replace(TENANT, &lease, &plan, op(1))).unwrap();
    assert!(split.is_replay(), "one rewritten key leaves the outcome of the commit unknown");
    let Some(Delivery::Event(event)) = site.run(events.next()) else { panic!("no event") };
    let children = split.into_inner().children.to_vec();
    let expected = EventKind::ShardSplit { parent: shard(0).shard, children };
    assert_eq!(event.kind, expected);
    site.audit();
}

/// An engine whose session ends as soon as a scripted fault occurs.
fn engine_with_short_session(site: &Site) -> (Engine, FlakyStore<MemoryStore>) {
    let store = FlakyStore::new(site.store.clone());
    let sessions = LeaseBinding::Session { ttl: Duration::from_millis(LEASE_MS / 2) };
    let engine = site.engine_over(store.clone(), EngineConfig { sessions, ..Site::config() });
    site.run(start(&engine, 1));
    let world = site.world.clone();
    store.on_fault(move || world.advance(LEASE_MS / 2));
    (engine, store)
}

#[test]
fn unapplied_acquire_is_repeated_in_a_new_session() {
    let site = Site::new();
    let (engine, store) = engine_with_short_session(&site);
    store.next([Reaction::Late]);
    let taken = site.run(engine.acquire_and_restore(TENANT, shard(0), worker(1))).unwrap();
    site.run(engine.renew(TENANT, &taken.lease)).unwrap();
    // The first attempt belongs to the ended session.
    assert_eq!(site.run(store.deliver_late()), 0);
    assert_eq!(site.run(list(&engine))[0].acquire_count, 1);
    site.audit();
}

#[test]
fn acquire_whose_session_ended_is_unknown() {
    let site = Site::new();
    let (engine, store) = engine_with_short_session(&site);
    store.next([Reaction::LoseAnswer]);
    let taken = site.run(engine.acquire_and_restore(TENANT, shard(0), worker(1)));
    assert!(matches!(&taken, Err(AcquireError::BackendError(e)) if is_unknown(e)), "{taken:?}");
    assert_eq!(site.run(list(&engine))[0].acquire_count, 1);
    // Another call acquires the shard.
    let again = site.run(engine.acquire_and_restore(TENANT, shard(0), worker(1)));
    assert!(again.is_ok(), "{again:?}");
    site.audit();
}

#[test]
fn unresolved_attempts_end_as_unknown() {
    let site = Site::new();
    let (engine, store) = site.flaky_engine();
    let lease = site.run(Operation::begin(&engine));
    store.always_after(0, Reaction::Late);
    let cursor = CursorUpdate::at(b"0000001");
    let moved = site.run(engine.checkpoint(TENANT, &lease, cursor, op(1)));
    assert!(matches!(&moved, Err(CheckpointError::BackendError(e)) if is_unknown(e)), "{moved:?}");
    let taken = site.run(engine.acquire_and_restore(TENANT, shard(1), worker(1)));
    assert!(matches!(&taken, Err(AcquireError::BackendError(e)) if is_unknown(e)), "{taken:?}");
    let paused = site.run(engine.pause_run(TENANT, RUN, op(1)));
    let is_paused_unknown =
        matches!(&paused, Err(RunTransitionError::BackendError(e)) if is_unknown(e));
    assert!(is_paused_unknown, "{paused:?}");
    let created = site.run(engine.create_run(TENANT, RunId::from_raw(9), run_config()));
    assert!(matches!(&created, Err(CreateRunError::BackendError(e)) if is_unknown(e)));
    let manifest = Manifest::of(2);
    let registered = site.run(engine.register_shards(TENANT, OTHER, &manifest.inputs(), op(1)));
    assert!(matches!(&registered, Err(RegisterShardsError::BackendError(e)) if is_unknown(e)));
    // Exactly one attempt of each operation can be applied.
    store.next([]);
    let applied = site.run(store.deliver_late());
    assert_eq!(applied, 5);
    assert!(site.run(engine.checkpoint(TENANT, &lease, cursor, op(1))).unwrap().is_replay());
    site.audit();
}

#[test]
fn lost_answer_of_a_clock_mark_is_harmless() {
    let site = Site::new();
    let (engine, store) = site.flaky_engine();
    site.run(start(&engine, 1));
    let lease = site.run(acquire(&engine, 0, 1));
    // Long enough that the next call must store a mark first.
    site.world.advance(5_000);
    store.next([Reaction::LoseAnswer]);
    site.run(engine.renew(TENANT, &lease)).unwrap();
    site.world.advance(5_000);
    store.next([Reaction::Late, Reaction::Refuse]);
    let renewed = site.run(engine.renew(TENANT, &lease));
    let text = format!("{renewed:?}");
    assert!(text.contains("NotApplied"), "{text}");
}

#[test]
fn created_and_changed_run_is_unknown_not_a_conflict() {
    let site = Site::new();
    let (engine, store) = site.flaky_engine();
    site.run(start(&engine, 1));
    let (world, other) = (site.world.clone(), site.engine());
    store.on_fault(move || {
        world.run_or_drop(other.cancel_run(TENANT, OTHER, op(1))).unwrap().unwrap();
    });
    store.next([Reaction::LoseAnswer]);
    let made = site.run(engine.create_run(TENANT, OTHER, run_config()));
    assert!(matches!(&made, Err(CreateRunError::BackendError(e)) if is_unknown(e)), "{made:?}");
}
