//! Lists, progress and hints show a holder only while a claim must respect it.

use std::time::Duration;

use shardwright_contracts::CursorUpdate;
use shardwright_coordination::error::reason::NoneAvailable;
use shardwright_coordination::{
    AcquireError, AsyncCoordinationBackend, AsyncRunManagement, AsyncShardClaiming, ClaimError,
    ShardFilter,
};
use shardwright_runs::{EngineConfig, LeaseBinding};

use crate::flaky::YieldingStore;
use crate::quarantine::corrupt;
use crate::site::{Engine, RUN, SESSION, Site, TENANT, acquire, list, op, shard, start, worker};

/// A TTL that ends before the lease.
const SHORT: Duration = Duration::from_secs(6);

/// The default clock and allowances, and none of both, where timing is exact.
fn configs() -> [EngineConfig; 2] {
    let sessions = LeaseBinding::Session { ttl: SESSION };
    [EngineConfig { sessions, ..EngineConfig::default() }, Site::config()]
}

/// Checks all that a coordinator shows of the only shard, and then whether it can be acquired.
fn check_held(site: &Site, engine: &Engine, is_held: bool) {
    site.world.run_tasks();
    let deadlines = site.run(list(engine)).into_iter().map(|shard| shard.lease_deadline.is_some());
    assert_eq!(deadlines.collect::<Vec<_>>(), [is_held], "a list");
    let available = site.run(engine.list_shards(TENANT, RUN, ShardFilter::available())).unwrap();
    assert_eq!(available.is_empty(), is_held, "available shards");
    let progress = site.run(engine.get_run_progress(TENANT, RUN)).unwrap();
    assert_eq!(progress.leased, u32::from(is_held), "progress");
    let candidates = site.run(engine.collect_claim_candidates(TENANT, RUN, worker(9), 9)).unwrap();
    assert_eq!(candidates.0.is_empty(), is_held, "candidates");
    match site.run(engine.acquire_and_restore(TENANT, shard(0), worker(9))) {
        Ok(_) => assert!(!is_held, "acquired"),
        Err(AcquireError::AlreadyLeased(_)) => assert!(is_held, "not acquired"),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn holder_whose_session_has_ended_is_not_shown() {
    for (is_silent, others) in configs().map(|config| [(false, config), (true, config)]).concat() {
        let site = Site::new();
        let sessions = LeaseBinding::Session { ttl: SHORT };
        let engine = |config| site.engine_over(site.store.clone(), config);
        let holder = engine(EngineConfig { sessions, ..others });
        let other = engine(others);
        site.run(start(&holder, 1));
        site.run(acquire(&holder, 0, 1));
        check_held(&site, &other, true);
        if is_silent {
            // Its tasks do not run, so the session is not kept alive.
            site.world.clock().advance(6_000);
        } else {
            site.run(holder.close()).unwrap();
        }
        check_held(&site, &other, false);
    }
}

#[test]
fn holder_is_shown_until_its_lease_can_be_taken_over() {
    for (config, is_bound) in configs().map(|config| [(config, false), (config, true)]).concat() {
        let sessions = if is_bound { config.sessions } else { LeaseBinding::Deadline };
        for skew_allowance_ms in [config.skew_allowance_ms, config.skew_allowance_ms + 500] {
            let site = Site::new();
            let config = EngineConfig { sessions, skew_allowance_ms, ..config };
            let engine = || site.engine_over(site.store.clone(), config);
            let (holder, other) = (engine(), engine());
            site.run(start(&holder, 1));
            // The other clock starts ahead by the interval of marks.
            site.run(list(&other));
            let lease = site.run(acquire(&holder, 0, 1));
            let over_at = lease.deadline().saturating_add(skew_allowance_ms);
            site.world.advance(over_at.millis_since(site.world.now()) - 1);
            for engine in [&holder, &other] {
                // The hint is the first time at which a claim succeeds.
                let none = site.run(engine.claim_next_available(TENANT, RUN, worker(2)));
                let earliest_deadline = Some(over_at);
                assert_eq!(none, Err(ClaimError::from(NoneAvailable { earliest_deadline })));
            }
            check_held(&site, &other, true);
            site.world.advance(1);
            check_held(&site, &other, false);
        }
    }
}

#[test]
fn restarted_coordinator_shows_what_its_own_clock_grants() {
    let site = Site::new();
    let [config, _] = configs();
    let engine = || site.engine_over(site.store.clone(), config);
    let holder = engine();
    site.run(start(&holder, 1));
    let lease = site.run(acquire(&holder, 0, 1));
    let over_at = lease.deadline().saturating_add(config.skew_allowance_ms);
    // A new mark, and then a clock that starts at it.
    site.world.advance(over_at.millis_since(site.world.now()) - config.clock_mark_interval_ms);
    check_held(&site, &holder, true);
    check_held(&site, &engine(), false);
}

#[test]
fn live_holder_is_always_shown() {
    let mut acquired_meanwhile = 0;
    for seed in 0..100 {
        let site = Site::new();
        let config = configs()[seed as usize % 2];
        let yielding = || site.engine_over(YieldingStore(site.store.clone()), config);
        let (one, other) = (yielding(), yielding());
        site.run(start(&one, 2));
        let lease = site.run(acquire(&one, 0, 1));
        let work = async {
            for step in 1..4 {
                let key = format!("000000{step}");
                let cursor = CursorUpdate::at(key.as_bytes());
                one.checkpoint(TENANT, &lease, cursor, op(step)).await.unwrap();
            }
            acquire(&one, 1, 1).await;
        };
        let look = async {
            let mut seen = Vec::new();
            for _ in 0..4 {
                seen.extend(list(&other).await);
            }
            seen
        };
        let ((), seen) = site.race(seed, work, look);
        for shard in seen {
            let is_held = shard.lease_deadline.is_some();
            assert_eq!(is_held, shard.acquire_count > 0, "seed {seed}: {shard:?}");
            acquired_meanwhile += usize::from(is_held && shard.shard.as_raw() == 1);
        }
    }
    assert!(acquired_meanwhile > 20, "{acquired_meanwhile}");
}

#[test]
fn holder_with_a_damaged_binding_is_shown() {
    let site = Site::new();
    let (one, other) = (site.engine(), site.engine());
    site.run(start(&one, 1));
    site.run(acquire(&one, 0, 1));
    site.run(corrupt(&site, site.keys.owner(TENANT, shard(0))));
    assert!(site.run(list(&other))[0].lease_deadline.is_some());
    assert_eq!(site.run(other.get_run_progress(TENANT, RUN)).unwrap().leased, 1);
}
