//! A store that does not answer: callers that wait for the same result fail together, and others do
//! not wait.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use shardwright_contracts::{Env, RunId};
use shardwright_coordination::{AsyncCoordinationBackend, AsyncShardClaiming};
use shardwright_store::memory::{Before, HookedCall, Hooks};
use shardwright_store::{Fault, FaultKind};

use crate::site::{Engine, RUN, Site, TENANT, acquire, list, shard, start, start_run, worker};
use crate::support::world::World;

const TIMEOUT_MS: u64 = 5_000;
const CALLERS: u64 = 256;
const OTHER: RunId = RunId::from_raw(2);

type Which = Box<dyn Fn(HookedCall<'_>) -> bool + Send>;

/// Delays some calls, and then refuses them.
struct Unanswered {
    world: World,
    unanswered: Mutex<Option<Which>>,
}

impl Unanswered {
    fn begin(&self, unanswered: impl Fn(HookedCall<'_>) -> bool + Send + 'static) {
        *self.unanswered.lock().unwrap() = Some(Box::new(unanswered));
    }

    fn end(&self) {
        *self.unanswered.lock().unwrap() = None;
    }
}

impl Hooks for Unanswered {
    fn before(&self, call: HookedCall<'_>) -> impl Future<Output = Before> + Send {
        let is_unanswered = self.unanswered.lock().unwrap().as_ref().is_some_and(|it| it(call));
        async move {
            if !is_unanswered {
                return Before::Go;
            }
            self.world.sleep(Duration::from_millis(TIMEOUT_MS)).await;
            Before::Refuse(Fault::new(FaultKind::TimedOut, "no answer"))
        }
    }
}

fn unanswered_engine(site: &Site) -> (Engine, Arc<Unanswered>) {
    let silence = Arc::new(Unanswered { world: site.world.clone(), unanswered: Mutex::default() });
    let engine = site.engine_over(site.store.client(Arc::clone(&silence)), Site::config());
    (engine, silence)
}

/// Fails unless all callers get the failure as soon as the first one does.
fn assert_all_fail_together<T, E>(
    site: &Site,
    calls: impl Iterator<Item: Future<Output = Result<T, E>>>,
) {
    let mut calls = pin!(join_all(calls));
    assert!(site.world.run_until_stuck(calls.as_mut()).is_none(), "no caller waited");
    site.world.advance(TIMEOUT_MS);
    let Some(answers) = site.world.run_until_stuck(calls.as_mut()) else {
        panic!("a caller waits longer than one timeout");
    };
    assert!(answers.iter().all(Result::is_err));
}

#[test]
fn failed_mark_reaches_all_waiting_callers_at_once() {
    let site = Site::new();
    let (engine, silence) = unanswered_engine(&site);
    site.run(start(&engine, 1));
    site.world.advance(10_000);
    silence.begin(|call| matches!(call, HookedCall::Commit(_)));
    let acquire_as = |by| engine.acquire_and_restore(TENANT, shard(0), worker(by));
    assert_all_fail_together(&site, (0..CALLERS).map(acquire_as));
    let mut again = pin!(acquire_as(1));
    assert!(site.world.run_until_stuck(again.as_mut()).is_none());
    let seen = site.world.run_or_drop(list(&engine));
    assert_eq!(seen.expect("a read waits for the mark").len(), 1);
    silence.end();
    site.world.advance(TIMEOUT_MS);
    assert!(site.run(again).is_err(), "the call started before the store recovered");
    site.run(acquire(&engine, 0, 1));
}

#[test]
fn failed_session_reaches_all_waiting_callers_at_once() {
    let site = Site::new();
    let (engine, silence) = unanswered_engine(&site);
    site.run(start(&engine, 1));
    silence.begin(|call| matches!(call, HookedCall::OpenSession(_)));
    let acquire_as = |by| engine.acquire_and_restore(TENANT, shard(0), worker(by));
    assert_all_fail_together(&site, (0..CALLERS).map(acquire_as));
    silence.end();
    site.run(acquire(&engine, 0, 1));
}

#[test]
fn failed_listing_reaches_only_the_callers_of_its_run() {
    let site = Site::new();
    let (engine, silence) = unanswered_engine(&site);
    site.run(start(&engine, 1));
    site.run(start_run(&engine, OTHER, 1));
    let gate = site.keys.gate(TENANT, RUN);
    silence.begin(move |call| matches!(call, HookedCall::Scan(range, _) if range.contains(&gate)));
    let claim_as = |by| engine.claim_next_available(TENANT, RUN, worker(by));
    let mut waits = pin!(claim_as(1));
    assert!(site.world.run_until_stuck(waits.as_mut()).is_none());
    let other = site.world.run_or_drop(engine.claim_next_available(TENANT, OTHER, worker(2)));
    other.expect("the claim waits for the listing of another run").unwrap();
    site.world.advance(TIMEOUT_MS);
    assert!(site.run(waits).is_err());
    assert_all_fail_together(&site, (0..CALLERS).map(claim_as));
    silence.end();
    site.run(claim_as(1)).unwrap();
}
