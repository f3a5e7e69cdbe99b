//! Claims that run at the same time, and claims on a store that is damaged.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use shardwright_coordination::{AsyncShardClaiming, Backend, ClaimError, InfraError};

use crate::flaky::{Fate, Polite};
use crate::site::{LEASE_MS, RUN, Site, TENANT, acquire, start, worker};

/// Polls a future once.
fn poll<T>(site: &Site, mut future: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    site.run(poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => Poll::Ready(None),
    }))
}

/// A claim takes several candidates out of the view. Whoever finds none meanwhile waits, and has to
/// hear of those that are given back.
#[test]
fn whoever_waits_hears_of_candidates_that_another_claim_gives_back() {
    let mut waited = 0;
    for polls in 0..40 {
        let site = Site::new();
        let engine = site.engine_over(Polite(site.store.clone()), Site::config());
        site.run(start(&engine, 4));
        // Makes the view.
        drop(site.run(engine.claim_next_available(TENANT, RUN, worker(9))));
        let mut one = pin!(engine.claim_next_available(TENANT, RUN, worker(1)));
        let mut done = None;
        for _ in 0..polls {
            if done.is_none() {
                done = poll(&site, one.as_mut());
            }
        }
        if done.is_some() {
            break;
        }
        let other = site.run(engine.claim_next_available(TENANT, RUN, worker(2)));
        if other.is_ok() {
            continue;
        }
        assert!(matches!(other, Err(ClaimError::NoneAvailable(_))), "{other:?}");
        let mut bell = pin!(engine.claimable(TENANT, RUN));
        if poll(&site, bell.as_mut()).is_some() {
            continue;
        }
        waited += 1;
        site.run(one.as_mut()).unwrap();
        assert!(poll(&site, bell.as_mut()).is_some(), "after {polls} steps of the other claim");
        site.run(engine.claim_next_available(TENANT, RUN, worker(2))).unwrap();
    }
    assert!(waited > 0, "somebody was to wait");
}

#[test]
fn whoever_waits_hears_that_the_time_of_a_holder_is_up() {
    let site = Site::new();
    let (holder, engine) = (site.engine(), site.engine());
    site.run(start(&holder, 1));
    site.run(acquire(&holder, 0, 1));
    let none = site.run(engine.claim_next_available(TENANT, RUN, worker(2)));
    assert!(matches!(none, Err(ClaimError::NoneAvailable(_))), "{none:?}");
    let mut bell = pin!(engine.claimable(TENANT, RUN));
    assert!(site.world.run_until_stuck(bell.as_mut()).is_none());
    // One that has just started waits for the calendar, and so do those whom it tells.
    site.world.advance(LEASE_MS + Site::config().clock_mark_interval_ms);
    assert!(site.world.run_until_stuck(bell.as_mut()).is_some());
    site.run(engine.claim_next_available(TENANT, RUN, worker(2))).unwrap();
}

#[test]
fn a_damaged_store_is_told_as_such_and_not_as_many_damaged_shards() {
    let site = Site::new();
    let (engine, store) = site.flaky_engine();
    site.run(start(&engine, 20));
    store.henceforth(0, Fate::Corrupt);
    let before = store.commits();
    let claimed = site.run(engine.claim_next_available(TENANT, RUN, worker(1)));
    assert!(
        matches!(claimed, Err(ClaimError::BackendError(InfraError::Corrupt { .. }))),
        "{claimed:?}"
    );
    assert_eq!(store.commits(), before + 1, "no other shard was tried");
}
