//! The coordinator's clock never goes back, whatever the wall clock does.

use shardwright_contracts::LogicalTime;
use shardwright_coordination::{AcquireError, AsyncCoordinationBackend};
use shardwright_engine::codec::{ClockMarkRecord, Record};
use shardwright_runs::EngineConfig;
use shardwright_store::Store;

use crate::site::{Engine, LEASE_MS, Site, TENANT, acquire, list, op, shard, start, worker};

const HOUR_MS: u64 = 3_600_000;

/// Longest time that a starting clock may be ahead of its wall clock.
fn interval_ms() -> u64 {
    config().clock_mark_interval_ms
}

fn config() -> EngineConfig {
    EngineConfig { sessions: Site::config().sessions, ..EngineConfig::on_one_machine() }
}

fn opened(site: &Site) -> Engine {
    site.engine_over(site.store.clone(), config())
}

/// Reads the clock by the deadline of a new lease.
async fn time(engine: &Engine, id: u64) -> u64 {
    let lease = acquire(engine, id, 1).await;
    engine.release(TENANT, &lease, op(lease.fence().as_raw())).await.unwrap();
    lease.deadline().as_millis() - LEASE_MS
}

fn mark(site: &Site) -> LogicalTime {
    let loaded = site.run(site.store.load(&[site.keys.keyspace().clock()])).unwrap();
    ClockMarkRecord::decode(&loaded.values[0].as_ref().unwrap().value).unwrap().reserved_until
}

#[test]
fn clock_follows_the_wall_clock_and_never_goes_back() {
    let site = Site::new();
    let engine = opened(&site);
    site.run(start(&engine, 1));
    let mut last = site.run(time(&engine, 0));
    assert_eq!(last, site.world.now().as_millis());
    // Back by ten minutes, by a second, forward by an hour, and back again.
    for off_ms in [-600_000, -1_000, 3_600_000, 0, -3_600_000, 50] {
        site.world.set_wall_clock_offset(off_ms);
        for step in [0, 1, 7, 500, 2_000] {
            site.world.advance(step);
            let now = site.run(time(&engine, 0));
            assert!(now >= last, "{last} and then {now}");
            assert!(now <= last.max(site.world.now().as_millis()) + 3_600_000 + step);
            assert!(now <= mark(&site).as_millis(), "{now} was returned without a mark");
            last = now;
        }
    }
}

#[test]
fn clock_advances_while_the_wall_clock_is_behind() {
    let site = Site::new();
    let engine = opened(&site);
    site.run(start(&engine, 1));
    let before = site.run(time(&engine, 0));
    site.world.set_wall_clock_offset(-86_400_000);
    site.world.advance(5_000);
    let after = site.run(time(&engine, 0));
    assert_eq!(after, before + 2_500, "the clock did not advance");
}

#[test]
fn frequent_reads_do_not_stop_the_clock() {
    let site = Site::new();
    let engine = opened(&site);
    site.run(start(&engine, 1));
    let before = site.run(time(&engine, 0));
    site.world.set_wall_clock_offset(-60_000);
    for _ in 0..10_000 {
        site.world.advance(1);
        site.run(time(&engine, 0));
    }
    assert_eq!(site.run(time(&engine, 0)), before + 5_000);
}

#[test]
fn clock_never_goes_back_across_restarts() {
    let site = Site::new();
    let first = opened(&site);
    site.run(start(&first, 1));
    let mut last = site.run(time(&first, 0));
    drop(first);
    for off_ms in [-1_000_000, -500_000, 0, -999_999] {
        site.world.set_wall_clock_offset(off_ms);
        let engine = opened(&site);
        for _ in 0..3 {
            site.world.advance(100);
            let now = site.run(time(&engine, 0));
            assert!(now >= last, "{last} and then {now}");
            last = now;
        }
    }
}

/// A starting clock begins at the mark of the previous one, a little ahead.
#[test]
fn clock_ahead_waits_for_the_wall_clock() {
    for step in [10, 700, 5_000] {
        let site = Site::new();
        site.run(start(&opened(&site), 1));
        let engine = opened(&site);
        let first = site.run(time(&engine, 0));
        assert!(first > site.world.now().as_millis(), "the clock does not start ahead");
        let stored = mark(&site);
        while site.world.now().as_millis() < first {
            assert_eq!(site.run(time(&engine, 0)), first, "in steps of {step}");
            assert_eq!(mark(&site), stored, "a waiting clock stored a mark");
            site.world.advance(step);
        }
        assert_eq!(site.run(time(&engine, 0)), site.world.now().as_millis(), "in steps of {step}");
    }
}

#[test]
fn repeated_starts_do_not_advance_the_clock() {
    for pause in [0, 2, 100, 999] {
        let site = Site::new();
        site.run(start(&opened(&site), 1));
        for start in 0..50 {
            let engine = opened(&site);
            for _ in 0..2 {
                let (returned, wall_clock) =
                    (site.run(time(&engine, 0)), site.world.now().as_millis());
                let most = wall_clock + interval_ms();
                assert!(
                    returned <= most,
                    "start {start}: {returned} at {wall_clock}, each {pause} ms"
                );
                assert!(mark(&site).as_millis() <= most);
                site.world.advance(pause);
            }
        }
    }
}

#[test]
fn starting_coordinator_takes_no_renewed_lease() {
    let site = Site::new();
    let holder = opened(&site);
    site.run(start(&holder, 1));
    let lease = site.run(acquire(&holder, 0, 1));
    let mut lease_end = lease.deadline();
    for _ in 0..40 {
        site.world.advance(LEASE_MS / 4);
        lease_end = site.run(holder.renew(TENANT, &lease)).unwrap().new_deadline;
        for _ in 0..10 {
            let taken = site.run(opened(&site).acquire_and_restore(TENANT, shard(0), worker(2)));
            assert!(matches!(taken, Err(AcquireError::AlreadyLeased(_))), "{taken:?}");
            site.world.advance(2);
        }
    }
    // Near the end of the lease, a starting clock is ahead of the clock that granted it.
    site.world.advance(LEASE_MS - 20 - interval_ms() / 2);
    site.run(list(&holder));
    assert!(mark(&site) > lease_end, "the mark is not after the end of the lease");
    let taken = site.run(opened(&site).acquire_and_restore(TENANT, shard(0), worker(2)));
    assert!(matches!(taken, Err(AcquireError::AlreadyLeased(_))), "{taken:?}");
    site.run(holder.renew(TENANT, &lease)).unwrap();
}

#[test]
fn clock_recovers_from_a_wrong_wall_clock() {
    let site = Site::new();
    site.run(start(&opened(&site), 1));
    site.world.set_wall_clock_offset(HOUR_MS as i64);
    let misled = site.run(time(&opened(&site), 0));
    assert!(misled >= site.world.now().as_millis() + HOUR_MS);
    site.world.set_wall_clock_offset(0);
    // The mark is an interval ahead of the wrong wall clock.
    let most = misled + interval_ms();
    let begun = site.world.now().as_millis();
    let engine = opened(&site);
    let mut last = misled;
    while site.world.now().as_millis() < begun + 2 * HOUR_MS + 4 * interval_ms() {
        let half = (site.world.now().as_millis() - begun) / 2;
        for returned in [site.run(time(&engine, 0)), site.run(time(&opened(&site), 0))] {
            assert!(returned >= last, "{last} and then {returned}");
            assert!(returned <= (most + half).max(site.world.now().as_millis() + interval_ms()));
        }
        last = site.run(time(&engine, 0));
        site.world.advance(7_777);
    }
    assert_eq!(site.run(time(&engine, 0)), site.world.now().as_millis());
    let next = site.run(time(&opened(&site), 0));
    assert!(next <= site.world.now().as_millis() + interval_ms());
}

#[test]
fn running_clock_follows_one_that_is_far_ahead() {
    let site = Site::new();
    let (right, misled) = (opened(&site), opened(&site));
    site.run(start(&right, 2));
    site.world.set_wall_clock_offset(HOUR_MS as i64);
    site.run(time(&misled, 0));
    site.world.set_wall_clock_offset(0);
    for _ in 0..100 {
        // When the clock needs a mark, it finds the other one's.
        site.world.advance(2 * interval_ms());
        let (one, other) = (site.run(time(&right, 0)), site.run(time(&misled, 1)));
        assert!(one.abs_diff(other) <= 2 * interval_ms(), "{one} and {other}");
    }
}
