//! Events are published after their commit is stored, never before.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use shardwright_contracts::CursorUpdate;
use shardwright_coordination::{AsyncCoordinationBackend, AsyncRunManagement, EventKind};
use shardwright_runs::{Delivery, EngineConfig, EventStream};

use crate::flaky::Reaction;
use crate::site::{RUN, Site, TENANT, acquire, op, start};

/// The events that are available now.
fn available(site: &Site, stream: &mut EventStream) -> Vec<Delivery> {
    let mut all = Vec::new();
    loop {
        let next = poll_fn(|context| match pin!(stream.next()).poll(context) {
            Poll::Ready(next) => Poll::Ready(next),
            Poll::Pending => Poll::Ready(None),
        });
        match site.run(next) {
            Some(event) => all.push(event),
            None => return all,
        }
    }
}

fn is_checkpoint(delivery: &Delivery) -> bool {
    let Delivery::Event(event) = delivery else { return false };
    matches!(event.kind, EventKind::ShardCheckpointed { .. })
}

#[test]
fn no_event_before_its_commit_is_stored() {
    let site = Site::new();
    let (engine, store) = site.flaky_engine();
    site.run(start(&engine, 1));
    let lease = site.run(acquire(&engine, 0, 1));
    let mut stream = engine.subscribe();
    let checkpoint =
        |key: &'static [u8], id| engine.checkpoint(TENANT, &lease, CursorUpdate::at(key), op(id));
    store.next([Reaction::Refuse]);
    assert!(site.run(checkpoint(b"0000001", 1)).is_err());
    assert_eq!(available(&site, &mut stream), []);
    store.next([Reaction::HangAfter]);
    assert!(site.world.run_or_drop(checkpoint(b"0000001", 1)).is_none());
    assert_eq!(available(&site, &mut stream), [], "the commit was not acknowledged");
    // A replay publishes no event. The next operation does.
    assert!(site.run(checkpoint(b"0000001", 1)).unwrap().is_replay());
    assert_eq!(available(&site, &mut stream), []);
    site.run(checkpoint(b"0000002", 2)).unwrap();
    let events = available(&site, &mut stream);
    assert!(events.len() == 1 && is_checkpoint(&events[0]), "{events:?}");
}

#[test]
fn commit_with_a_lost_answer_is_published_once() {
    let site = Site::new();
    let (engine, store) = site.flaky_engine();
    site.run(start(&engine, 1));
    let lease = site.run(acquire(&engine, 0, 1));
    let mut stream = engine.subscribe();
    store.next([Reaction::LoseAnswer]);
    let cursor = CursorUpdate::at(b"0000001");
    site.run(engine.checkpoint(TENANT, &lease, cursor, op(1))).unwrap();
    let events = available(&site, &mut stream);
    assert!(events.len() == 1 && is_checkpoint(&events[0]), "{events:?}");
}

#[test]
fn slow_subscriber_learns_how_many_events_it_missed() {
    let site = Site::new();
    let config = EngineConfig { event_capacity: 4, ..Site::config() };
    let engine = site.engine_over(site.store.clone(), config);
    site.run(start(&engine, 1));
    let lease = site.run(acquire(&engine, 0, 1));
    let mut stream = engine.subscribe();
    for id in 0..10_u64 {
        let key = format!("0000001{id}");
        let cursor = CursorUpdate::at(key.as_bytes());
        site.run(engine.checkpoint(TENANT, &lease, cursor, op(id))).unwrap();
    }
    let events = available(&site, &mut stream);
    assert_eq!(events[0], Delivery::Lagged(6));
    assert!(events.len() == 5 && events[1..].iter().all(is_checkpoint), "{events:?}");
}

/// The answer is lost, and the record changes before the outcome is read.
#[test]
fn overtaken_commit_is_published_once() {
    let site = Site::new();
    let (engine, store) = site.flaky_engine();
    site.run(start(&engine, 1));
    let lease = site.run(acquire(&engine, 0, 1));
    let mut stream = engine.subscribe();
    let (world, other) = (site.world.clone(), site.engine());
    store.on_fault(move || {
        world.advance(1);
        assert!(world.run_or_drop(other.renew(TENANT, &lease)).unwrap().is_ok());
    });
    store.next([Reaction::LoseAnswer]);
    let cursor = CursorUpdate::at(b"0000001");
    let moved = site.run(engine.checkpoint(TENANT, &lease, cursor, op(1))).unwrap();
    assert!(moved.is_replay(), "it is found in the op log");
    let events = available(&site, &mut stream);
    assert_eq!(events.iter().filter(|event| is_checkpoint(event)).count(), 1, "{events:?}");
    // The same for a run.
    let (world, other) = (site.world.clone(), site.engine());
    store.on_fault(move || {
        let resumed = other.resume_run(TENANT, RUN, op(6));
        assert!(world.run_or_drop(resumed).unwrap().is_ok());
    });
    store.next([Reaction::LoseAnswer]);
    assert!(site.run(engine.pause_run(TENANT, RUN, op(5))).unwrap().is_replay());
    let events = available(&site, &mut stream);
    let is_pause = |delivery: &&Delivery| {
        let Delivery::Event(event) = delivery else { return false };
        matches!(event.kind, EventKind::RunPaused)
    };
    assert_eq!(events.iter().filter(is_pause).count(), 1, "{events:?}");
}
