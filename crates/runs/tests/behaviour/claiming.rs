//! Concurrent claims, and claims on a damaged store.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use shardwright_coordination::{AsyncShardClaiming, Backend, ClaimError, InfraError};

use crate::flaky::{Reaction, YieldingStore};
use crate::site::{LEASE_MS, RUN, Site, TENANT, acquire, start, worker};

/// Polls a future once.
fn poll<T>(site: &Site, mut future: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    site.run(poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => Poll::Ready(None),
    }))
}

/// A claim reserves several candidates. A worker that finds none meanwhile waits, and must wake up
/// when they are returned.
#[test]
fn returned_candidates_wake_waiting_workers() {
    let mut waited = 0;
    for polls in 0..40 {
        let site = Site::new();
        let engine = site.engine_over(YieldingStore(site.store.clone()), Site::config());
        site.run(start(&engine, 4));
        // Creates the view.
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
        let mut claimable = pin!(engine.claimable(TENANT, RUN));
        if poll(&site, claimable.as_mut()).is_some() {
            continue;
        }
        waited += 1;
        site.run(one.as_mut()).unwrap();
        assert!(
            poll(&site, claimable.as_mut()).is_some(),
            "after {polls} steps of the other claim"
        );
        site.run(engine.claim_next_available(TENANT, RUN, worker(2))).unwrap();
    }
    assert!(waited > 0, "no worker waited");
}

#[test]
fn expired_lease_wakes_waiting_workers() {
    let site = Site::new();
    let (holder, engine) = (site.engine(), site.engine());
    site.run(start(&holder, 1));
    site.run(acquire(&holder, 0, 1));
    let none = site.run(engine.claim_next_available(TENANT, RUN, worker(2)));
    assert!(matches!(none, Err(ClaimError::NoneAvailable(_))), "{none:?}");
    let mut claimable = pin!(engine.claimable(TENANT, RUN));
    assert!(site.world.run_until_stuck(claimable.as_mut()).is_none());
    // A coordinator that has just started may be ahead of the wall clock, and others follow its
    // deadlines.
    site.world.advance(LEASE_MS + Site::config().clock_mark_interval_ms);
    assert!(site.world.run_until_stuck(claimable.as_mut()).is_some());
    site.run(engine.claim_next_available(TENANT, RUN, worker(2))).unwrap();
}

#[test]
fn damaged_store_is_not_reported_as_damaged_shards() {
    let site = Site::new();
    let (engine, store) = site.flaky_engine();
    site.run(start(&engine, 20));
    store.always_after(0, Reaction::Corrupt);
    let before = store.commits();
    let claimed = site.run(engine.claim_next_available(TENANT, RUN, worker(1)));
    assert!(
        matches!(claimed, Err(ClaimError::BackendError(InfraError::Corrupt { .. }))),
        "{claimed:?}"
    );
    assert_eq!(store.commits(), before + 1, "another shard was tried");
}
