//! Events are told after what they are about is stored, and never before.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use shardwright_contracts::CursorUpdate;
use shardwright_coordination::{AsyncCoordinationBackend, AsyncRunManagement, EventKind};
use shardwright_runs::{Delivery, EngineConfig, EventStream};

use crate::flaky::Fate;
use crate::site::{RUN, Site, TENANT, acquire, op, start};

/// What can be heard now.
fn heard(site: &Site, listener: &mut EventStream) -> Vec<Delivery> {
    let mut all = Vec::new();
    loop {
        let next = poll_fn(|context| match pin!(listener.next()).poll(context) {
            Poll::Ready(heard) => Poll::Ready(heard),
            Poll::Pending => Poll::Ready(None),
        });
        match site.run(next) {
            Some(event) => all.push(event),
            None => return all,
        }
    }
}

fn is_checkpoint(heard: &Delivery) -> bool {
    let Delivery::Event(event) = heard else { return false };
    matches!(event.kind, EventKind::ShardCheckpointed { .. })
}

#[test]
fn nothing_is_told_before_it_is_stored_or_if_it_never_is() {
    let site = Site::new();
    let (engine, store) = site.flaky_engine();
    site.run(start(&engine, 1));
    let lease = site.run(acquire(&engine, 0, 1));
    let mut listener = engine.subscribe();
    let checkpoint =
        |key: &'static [u8], id| engine.checkpoint(TENANT, &lease, CursorUpdate::at(key), op(id));
    store.next([Fate::Refuse]);
    assert!(site.run(checkpoint(b"0000001", 1)).is_err());
    assert_eq!(heard(&site, &mut listener), []);
    store.next([Fate::HangAfter]);
    assert!(site.world.run_or_drop(checkpoint(b"0000001", 1)).is_none());
    assert_eq!(heard(&site, &mut listener), [], "the commit was not acknowledged");
    // A replay is no event; what comes after it is.
    assert!(site.run(checkpoint(b"0000001", 1)).unwrap().is_replay());
    assert_eq!(heard(&site, &mut listener), []);
    site.run(checkpoint(b"0000002", 2)).unwrap();
    let told = heard(&site, &mut listener);
    assert!(told.len() == 1 && is_checkpoint(&told[0]), "{told:?}");
}

#[test]
fn what_was_stored_in_spite_of_a_lost_answer_is_told_once() {
    let site = Site::new();
    let (engine, store) = site.flaky_engine();
    site.run(start(&engine, 1));
    let lease = site.run(acquire(&engine, 0, 1));
    let mut listener = engine.subscribe();
    store.next([Fate::LoseAnswer]);
    let cursor = CursorUpdate::at(b"0000001");
    site.run(engine.checkpoint(TENANT, &lease, cursor, op(1))).unwrap();
    let told = heard(&site, &mut listener);
    assert!(told.len() == 1 && is_checkpoint(&told[0]), "{told:?}");
}

#[test]
fn a_listener_that_is_too_slow_is_told_how_much_it_missed() {
    let site = Site::new();
    let config = EngineConfig { event_capacity: 4, ..Site::config() };
    let engine = site.engine_over(site.store.clone(), config);
    site.run(start(&engine, 1));
    let lease = site.run(acquire(&engine, 0, 1));
    let mut listener = engine.subscribe();
    for id in 0..10_u64 {
        let key = format!("0000001{id}");
        let cursor = CursorUpdate::at(key.as_bytes());
        site.run(engine.checkpoint(TENANT, &lease, cursor, op(id))).unwrap();
    }
    let told = heard(&site, &mut listener);
    assert_eq!(told[0], Delivery::Lagged(6));
    assert!(told.len() == 5 && told[1..].iter().all(is_checkpoint), "{told:?}");
}

/// The answer is lost, and before anybody looks, the record goes on.
#[test]
fn what_was_stored_is_told_once_though_others_changed_the_record_before_it_was_found() {
    let site = Site::new();
    let (engine, store) = site.flaky_engine();
    site.run(start(&engine, 1));
    let lease = site.run(acquire(&engine, 0, 1));
    let mut listener = engine.subscribe();
    let (world, other) = (site.world.clone(), site.engine());
    store.meanwhile(move || {
        world.advance(1);
        assert!(world.run_or_drop(other.renew(TENANT, &lease)).unwrap().is_ok());
    });
    store.next([Fate::LoseAnswer]);
    let cursor = CursorUpdate::at(b"0000001");
    let moved = site.run(engine.checkpoint(TENANT, &lease, cursor, op(1))).unwrap();
    assert!(moved.is_replay(), "it is found in the op log");
    let told = heard(&site, &mut listener);
    assert_eq!(told.iter().filter(|heard| is_checkpoint(heard)).count(), 1, "{told:?}");
    // And of a run.
    let (world, other) = (site.world.clone(), site.engine());
    store.meanwhile(move || {
        let resumed = other.resume_run(TENANT, RUN, op(6));
        assert!(world.run_or_drop(resumed).unwrap().is_ok());
    });
    store.next([Fate::LoseAnswer]);
    assert!(site.run(engine.pause_run(TENANT, RUN, op(5))).unwrap().is_replay());
    let told = heard(&site, &mut listener);
    let is_pause = |heard: &&Delivery| {
        let Delivery::Event(event) = heard else { return false };
        matches!(event.kind, EventKind::RunPaused)
    };
    assert_eq!(told.iter().filter(is_pause).count(), 1, "{told:?}");
}
