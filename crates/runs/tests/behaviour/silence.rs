//! A store that says nothing for a while: whoever waits for the same thing hears of it together,
//! and nobody else waits.

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

const PATIENCE_MS: u64 = 5_000;
const CALLERS: u64 = 256;
const OTHER: RunId = RunId::from_raw(2);

type Which = Box<dyn Fn(HookedCall<'_>) -> bool + Send>;

/// Lets some calls wait, and refuses them after that.
struct Silence {
    world: World,
    unanswered: Mutex<Option<Which>>,
}

impl Silence {
    fn begin(&self, unanswered: impl Fn(HookedCall<'_>) -> bool + Send + 'static) {
        *self.unanswered.lock().unwrap() = Some(Box::new(unanswered));
    }

    fn end(&self) {
        *self.unanswered.lock().unwrap() = None;
    }
}

impl Hooks for Silence {
    fn before(&self, call: HookedCall<'_>) -> impl Future<Output = Before> + Send {
        let is_unanswered = self.unanswered.lock().unwrap().as_ref().is_some_and(|it| it(call));
        async move {
            if !is_unanswered {
                return Before::Go;
            }
            self.world.sleep(Duration::from_millis(PATIENCE_MS)).await;
            Before::Refuse(Fault::new(FaultKind::TimedOut, "nothing was heard"))
        }
    }
}

fn silent_engine(site: &Site) -> (Engine, Arc<Silence>) {
    let silence = Arc::new(Silence { world: site.world.clone(), unanswered: Mutex::default() });
    let engine = site.engine_over(site.store.client(Arc::clone(&silence)), Site::config());
    (engine, silence)
}

/// Fails if not all of many callers hear of a failure as soon as the first of them does.
fn all_hear_of_it<T, E>(site: &Site, calls: impl Iterator<Item: Future<Output = Result<T, E>>>) {
    let mut calls = pin!(join_all(calls));
    assert!(site.world.run_until_stuck(calls.as_mut()).is_none(), "nobody was to wait");
    site.world.advance(PATIENCE_MS);
    let Some(told) = site.world.run_until_stuck(calls.as_mut()) else {
        panic!("somebody waits for longer than the store takes once");
    };
    assert!(told.iter().all(Result::is_err));
}

#[test]
fn all_hear_at_once_that_no_mark_can_be_stored_and_nobody_who_looks_waits_for_the_next_try() {
    let site = Site::new();
    let (engine, silence) = silent_engine(&site);
    site.run(start(&engine, 1));
    site.world.advance(10_000);
    silence.begin(|call| matches!(call, HookedCall::Commit(_)));
    let acquire_as = |by| engine.acquire_and_restore(TENANT, shard(0), worker(by));
    all_hear_of_it(&site, (0..CALLERS).map(acquire_as));
    let mut again = pin!(acquire_as(1));
    assert!(site.world.run_until_stuck(again.as_mut()).is_none());
    let seen = site.world.run_or_drop(list(&engine));
    assert_eq!(seen.expect("whoever looks waits").len(), 1);
    silence.end();
    site.world.advance(PATIENCE_MS);
    assert!(site.run(again).is_err(), "it had begun before");
    site.run(acquire(&engine, 0, 1));
}

#[test]
fn all_hear_at_once_that_no_session_can_be_opened() {
    let site = Site::new();
    let (engine, silence) = silent_engine(&site);
    site.run(start(&engine, 1));
    silence.begin(|call| matches!(call, HookedCall::OpenSession(_)));
    let acquire_as = |by| engine.acquire_and_restore(TENANT, shard(0), worker(by));
    all_hear_of_it(&site, (0..CALLERS).map(acquire_as));
    silence.end();
    site.run(acquire(&engine, 0, 1));
}

#[test]
fn all_hear_at_once_that_a_run_cannot_be_listed_and_those_of_other_runs_go_on() {
    let site = Site::new();
    let (engine, silence) = silent_engine(&site);
    site.run(start(&engine, 1));
    site.run(start_run(&engine, OTHER, 1));
    let gate = site.keys.gate(TENANT, RUN);
    silence.begin(move |call| matches!(call, HookedCall::Scan(range, _) if range.contains(&gate)));
    let claim_as = |by| engine.claim_next_available(TENANT, RUN, worker(by));
    let mut waits = pin!(claim_as(1));
    assert!(site.world.run_until_stuck(waits.as_mut()).is_none());
    let other = site.world.run_or_drop(engine.claim_next_available(TENANT, OTHER, worker(2)));
    other.expect("another run's listing is waited for").unwrap();
    site.world.advance(PATIENCE_MS);
    assert!(site.run(waits).is_err());
    all_hear_of_it(&site, (0..CALLERS).map(claim_as));
    silence.end();
    site.run(claim_as(1)).unwrap();
}
