//! Leases of a coordinator end with its session.

use std::time::Duration;

use shardwright_contracts::CursorUpdate;
use shardwright_coordination::error::reason::AlreadyLeased;
use shardwright_coordination::{AcquireError, AsyncCoordinationBackend, CheckpointError};
use shardwright_runs::{EngineConfig, LeaseBinding};

use crate::flaky::{FlakyStore, Reaction};
use crate::site::{LEASE_MS, Site, TENANT, acquire, op, shard, start, worker};

#[test]
fn closing_a_coordinator_ends_its_leases_at_once() {
    let site = Site::new();
    let (one, other) = (site.engine(), site.engine());
    site.run(start(&one, 2));
    let lease = site.run(acquire(&one, 0, 1));
    let refused = site.run(other.acquire_and_restore(TENANT, shard(0), worker(2)));
    let leased = AlreadyLeased { current_owner: worker(1), deadline: lease.deadline() };
    assert_eq!(refused, Err(leased.into()));
    site.run(one.close()).unwrap();
    // The old holder is refused even before another worker acquires the shard.
    let cursor = CursorUpdate::at(b"0000001");
    let late = site.run(one.checkpoint(TENANT, &lease, cursor, op(1)));
    assert!(matches!(late, Err(CheckpointError::LeaseExpired(_))), "{late:?}");
    let taken = site.run(acquire(&other, 0, 2));
    assert!(taken.fence() > lease.fence());
    let late = site.run(one.checkpoint(TENANT, &lease, cursor, op(1)));
    assert!(matches!(late, Err(CheckpointError::StaleFence(_))), "{late:?}");
    // The coordinator can acquire again, with a new session.
    let again = site.run(acquire(&one, 1, 1));
    site.run(one.checkpoint(TENANT, &again, CursorUpdate::at(b"0000011"), op(2))).unwrap();
    site.audit();
}

#[test]
fn silent_coordinator_loses_its_leases_after_the_ttl() {
    let site = Site::new();
    let sessions = LeaseBinding::Session { ttl: Duration::from_millis(LEASE_MS / 10) };
    let config = EngineConfig { sessions, ..Site::config() };
    let silent = site.engine_over(site.store.clone(), config);
    let other = site.engine();
    site.run(start(&silent, 2));
    let lease = site.run(acquire(&silent, 0, 1));
    // Its tasks do not run, so the session is not kept alive.
    site.world.clock().advance(LEASE_MS / 10);
    let taken = site.run(acquire(&other, 0, 2));
    assert!(taken.fence() > lease.fence());
    let late = site.run(silent.checkpoint(TENANT, &lease, CursorUpdate::at(b"0000001"), op(1)));
    assert!(matches!(late, Err(CheckpointError::StaleFence(_))), "{late:?}");
    // It detects the end of its session and opens another.
    let again = site.run(acquire(&silent, 1, 1));
    site.run(silent.renew(TENANT, &again)).unwrap();
}

#[test]
fn session_lives_as_long_as_its_coordinator() {
    let site = Site::new();
    let sessions = LeaseBinding::Session { ttl: Duration::from_secs(6) };
    let config = EngineConfig { sessions, ..Site::config() };
    let (one, other) = (site.engine_over(site.store.clone(), config), site.engine());
    site.run(start(&one, 1));
    let lease = site.run(acquire(&one, 0, 1));
    for _ in 0..9 {
        site.world.advance(1_000);
        site.world.run_tasks();
    }
    let refused = site.run(other.acquire_and_restore(TENANT, shard(0), worker(2)));
    assert!(matches!(refused, Err(AcquireError::AlreadyLeased(_))), "{refused:?}");
    site.run(one.renew(TENANT, &lease)).unwrap();
}

#[test]
fn outage_of_half_a_ttl_costs_no_lease() {
    for reaction in [Reaction::Refuse, Reaction::HangBefore] {
        let site = Site::new();
        let store = FlakyStore::new(site.store.clone());
        let sessions = LeaseBinding::Session { ttl: Duration::from_secs(10) };
        let config = EngineConfig { sessions, ..Site::config() };
        let (one, other) = (site.engine_over(store.clone(), config), site.engine());
        site.run(start(&one, 1));
        let lease = site.run(acquire(&one, 0, 1));
        let pass = |tenths: u32| {
            for _ in 0..tenths {
                site.world.advance(100);
                site.world.run_tasks();
            }
        };
        pass(33);
        store.keep_alives(reaction);
        pass(51);
        store.keep_alives(Reaction::Apply);
        site.run(one.renew(TENANT, &lease)).unwrap();
        pass(41);
        let refused = site.run(other.acquire_and_restore(TENANT, shard(0), worker(2)));
        assert!(
            matches!(refused, Err(AcquireError::AlreadyLeased(_))),
            "{reaction:?}: {refused:?}"
        );
        site.run(one.renew(TENANT, &lease)).unwrap();
    }
}

#[test]
fn unanswered_keep_alive_does_not_outlive_its_coordinator() {
    let site = Site::new();
    let store = FlakyStore::new(site.store.clone());
    let sessions = LeaseBinding::Session { ttl: Duration::from_secs(10) };
    let config = EngineConfig { sessions, ..Site::config() };
    let one = site.engine_over(store.clone(), config);
    site.run(start(&one, 1));
    let lease = site.run(acquire(&one, 0, 1));
    store.keep_alives(Reaction::HangBefore);
    site.world.advance(2_000);
    site.world.run_tasks();
    drop(one);
    store.keep_alives(Reaction::Apply);
    for _ in 0..8 {
        site.world.advance(1_000);
        site.world.run_tasks();
    }
    let taken = site.run(acquire(&site.engine(), 0, 2));
    assert!(taken.fence() > lease.fence());
}

#[test]
fn without_sessions_only_the_deadline_counts() {
    let site = Site::new();
    let config = EngineConfig { sessions: LeaseBinding::Deadline, ..Site::config() };
    let one = site.engine_over(site.store.clone(), config);
    site.run(start(&one, 1));
    let lease = site.run(acquire(&one, 0, 1));
    site.run(one.close()).unwrap();
    drop(one);
    // A restarted server serves the holders of the previous one.
    let next = site.engine_over(site.store.clone(), config);
    site.run(next.checkpoint(TENANT, &lease, CursorUpdate::at(b"0000001"), op(1))).unwrap();
    let refused = site.run(next.acquire_and_restore(TENANT, shard(0), worker(2)));
    assert!(matches!(refused, Err(AcquireError::AlreadyLeased(_))), "{refused:?}");
    site.world.advance(LEASE_MS);
    site.run(acquire(&next, 0, 2));
}

#[test]
fn lease_is_taken_over_only_after_the_skew_allowance() {
    let site = Site::new();
    let config = EngineConfig { skew_allowance_ms: 500, ..Site::config() };
    let (one, other) = (
        site.engine_over(site.store.clone(), config),
        site.engine_over(site.store.clone(), config),
    );
    site.run(start(&one, 1));
    site.run(acquire(&one, 0, 1));
    site.world.advance(LEASE_MS + 499);
    let refused = site.run(other.acquire_and_restore(TENANT, shard(0), worker(2)));
    assert!(matches!(refused, Err(AcquireError::AlreadyLeased(_))), "{refused:?}");
    site.world.advance(1);
    site.run(acquire(&other, 0, 2));
}
