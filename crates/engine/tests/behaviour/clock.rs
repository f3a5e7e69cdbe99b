//! The coordinator's clock never goes back, whatever the calendar does.

use shardwright_contracts::LogicalTime;
use shardwright_coordination::AsyncCoordinationBackend;
use shardwright_engine::codec::{ClockMark, Record};
use shardwright_store::Store;

use crate::site::{Engine, LEASE_MS, Site, TENANT, acquire, op, start};

/// What time it is: a lease ends so long after it was granted.
async fn time<S: Store>(engine: &Engine<S>, id: u64) -> u64 {
    let lease = acquire(engine, id, 1).await;
    engine.release(TENANT, &lease, op(lease.fence().as_raw())).await.unwrap();
    lease.deadline().as_millis() - LEASE_MS
}

fn mark(site: &Site) -> LogicalTime {
    let loaded = site.run(site.store.load(&[site.keys.clock()])).unwrap();
    ClockMark::decode(&loaded.values[0].as_ref().unwrap().value).unwrap().reserved_until
}

#[test]
fn it_goes_with_the_calendar_and_never_back() {
    let site = Site::new();
    let engine = site.engine();
    site.run(start(&engine, 1));
    let mut last = site.run(time(&engine, 0));
    assert_eq!(last, site.world.now().as_millis());
    // Back by ten minutes, by a second, forward by an hour, and back again.
    for off_ms in [-600_000, -1_000, 3_600_000, 0, -3_600_000, 50] {
        site.world.set_calendar_off(off_ms);
        for step in [0, 1, 7, 500, 2_000] {
            site.world.advance(step);
            let now = site.run(time(&engine, 0));
            assert!(now >= last, "{last} and then {now}");
            assert!(now <= last.max(site.world.now().as_millis()) + 3_600_000 + step);
            assert!(now <= mark(&site).as_millis(), "{now} was told without a mark");
            last = now;
        }
    }
}

#[test]
fn it_goes_on_while_the_calendar_is_behind() {
    let site = Site::new();
    let engine = site.engine();
    site.run(start(&engine, 1));
    let before = site.run(time(&engine, 0));
    site.world.set_calendar_off(-86_400_000);
    site.world.advance(5_000);
    let after = site.run(time(&engine, 0));
    assert_eq!(after, before + 5_000, "leases must still end");
}

#[test]
fn it_never_goes_back_over_a_restart() {
    let site = Site::new();
    let first = site.engine();
    site.run(start(&first, 1));
    let mut last = site.run(time(&first, 0));
    drop(first);
    for off_ms in [-1_000_000, -500_000, 0, -999_999] {
        site.world.set_calendar_off(off_ms);
        let engine = site.engine();
        for _ in 0..3 {
            site.world.advance(100);
            let now = site.run(time(&engine, 0));
            assert!(now >= last, "{last} and then {now}");
            last = now;
        }
    }
}

/// One that starts begins where the mark of the one before allows, a little ahead.
#[test]
fn it_lets_the_calendar_catch_up_however_seldom_it_is_read() {
    for step in [10, 700, 5_000] {
        let site = Site::new();
        site.run(start(&site.engine(), 1));
        let engine = site.engine();
        let ahead = site.run(time(&engine, 0)) - site.world.now().as_millis();
        assert!(ahead > 100, "it is to start ahead");
        // At half the pace, it takes twice as long as it is ahead.
        for _ in 0..=2 * ahead / step {
            site.world.advance(step);
            site.run(time(&engine, 0));
        }
        assert_eq!(site.run(time(&engine, 0)), site.world.now().as_millis(), "in steps of {step}");
    }
}
