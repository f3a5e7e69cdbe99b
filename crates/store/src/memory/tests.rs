use std::collections::VecDeque;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::*;
use crate::clock::ManualClock;
use crate::commit::Expect;
use crate::error::FaultKind;

/// Polls once. Only hooks wait here.
fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the call waits"),
    }
}

fn fault() -> Fault {
    Fault::new(FaultKind::Full, "no room")
}

/// Scripted hooks: one answer per call.
#[derive(Default)]
struct Script {
    before: Mutex<VecDeque<Before>>,
    after: Mutex<VecDeque<After>>,
}

impl Hooks for Script {
    async fn before(&self, _: HookedCall<'_>) -> Before {
        self.before.lock().unwrap().pop_front().unwrap_or(Before::Go)
    }

    async fn after(&self, _: HookedCall<'_>) -> After {
        self.after.lock().unwrap().pop_front().unwrap_or(After::Answer)
    }
}

struct Fixture {
    clock: Arc<ManualClock>,
    store: MemoryStore,
    script: Arc<Script>,
    client: MemoryStore<Script>,
}

impl Fixture {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new());
        let store = MemoryStore::new(clock.clone());
        let script = Arc::new(Script::default());
        let client = store.client(Arc::clone(&script));
        Self { clock, store, script, client }
    }

    fn before(&self, before: Before) {
        self.script.before.lock().unwrap().push_back(before);
    }

    fn after(&self, after: After) {
        self.script.after.lock().unwrap().push_back(after);
    }

    fn value(&self) -> Option<String> {
        let found = now(self.store.load(&[Key::from("a")])).unwrap().values.pop().unwrap()?;
        Some(String::from_utf8(found.value.to_vec()).unwrap())
    }

    fn put(&self, value: &'static str) -> Revision {
        let found = now(self.store.load(&[Key::from("a")])).unwrap().values.pop().unwrap();
        let expect = found.map_or(Expect::Absent, |found| Expect::At(found.revision));
        now(self.store.commit(commit(expect, value))).unwrap()
    }
}

fn commit(expect: Expect, value: &'static str) -> Commit {
    let key = Key::from("a");
    Commit::builder().expect(key.clone(), expect).put(key, value).build().unwrap()
}

#[test]
fn lost_requests_do_nothing_and_lost_answers_hide_the_effect() {
    let fixture = Fixture::new();
    let create = || now(fixture.client.commit(commit(Expect::Absent, "1")));
    fixture.before(Before::Refuse(fault()));
    assert!(
        matches!(create(), Err(CommitError::NotApplied(fault)) if fault.kind == FaultKind::Full)
    );
    fixture.before(Before::Damaged(fault()));
    assert!(matches!(create(), Err(CommitError::Corrupt(_))));
    fixture.before(Before::Lose(fault()));
    assert!(matches!(create(), Err(CommitError::Unknown(_))));
    assert_eq!(fixture.value(), None);
    fixture.after(After::Lose(fault()));
    assert!(matches!(create(), Err(CommitError::Unknown(_))));
    assert_eq!(fixture.value().as_deref(), Some("1"));
    fixture.before(Before::Refuse(fault()));
    let read = now(fixture.client.load(&[]));
    assert!(matches!(read, Err(StoreError::Unavailable(_))));
    fixture.after(After::Lose(fault()));
    let opened = now(fixture.client.open_session(Duration::from_secs(1)));
    assert!(matches!(opened, Err(SessionError::Store(StoreError::Unavailable(_)))));
    assert_eq!(fixture.store.until_next_expiry(), Some(Duration::from_secs(1)));
}

#[test]
fn a_stale_read_shows_an_earlier_revision_but_decides_nothing() {
    let fixture = Fixture::new();
    let (first, second) = (fixture.put("1"), fixture.put("2"));
    fixture.before(Before::AsOf(first));
    let snapshot = now(fixture.client.load(&[Key::from("a")])).unwrap();
    let found = snapshot.values[0].clone().unwrap();
    assert_eq!((snapshot.revision, found.revision, &found.value[..]), (first, first, &b"1"[..]));
    fixture.before(Before::AsOf(first));
    let page = now(fixture.client.scan(&StoreRange::prefix(""), ScanFrom::first(1))).unwrap();
    assert_eq!((page.revision, page.entries[0].1.revision), (first, first));
    fixture.before(Before::AsOf(first));
    let stale = now(fixture.client.commit(commit(Expect::At(first), "3")));
    let Err(CommitError::Conflict(conflict)) = stale else { panic!("{stale:?}") };
    assert_eq!(conflict.found[0].1.as_ref().unwrap().revision, second);
    fixture.store.compact(second);
    fixture.before(Before::AsOf(first));
    assert_eq!(now(fixture.client.load(&[])).unwrap().revision, second);
}

#[test]
fn sessions_may_end_before_or_after_their_ttl() {
    let fixture = Fixture::new();
    let ttl = Duration::from_secs(10);
    let open = || now(fixture.store.open_session(ttl)).unwrap().id;
    let put = |session| {
        let key = Key::from("a");
        let commit = Commit::builder().expect(key.clone(), Expect::Absent);
        now(fixture.store.commit(commit.put_in_session(key, "", session).build().unwrap()))
    };
    put(open()).unwrap();
    fixture.clock.advance(ttl - Duration::from_nanos(1));
    assert!(fixture.value().is_some());
    fixture.clock.advance(Duration::from_nanos(1));
    assert_eq!(fixture.value(), None);

    let early = open();
    put(early).unwrap();
    assert!(fixture.store.end_session(early) && !fixture.store.end_session(early));
    assert_eq!(fixture.value(), None);

    put(open()).unwrap();
    fixture.store.let_sessions_outlive(Duration::from_secs(5));
    fixture.clock.advance(ttl);
    assert!(fixture.value().is_some());
    assert_eq!(fixture.store.until_next_expiry(), Some(Duration::from_secs(5)));
    fixture.clock.advance(Duration::from_secs(5));
    assert_eq!(fixture.value(), None);
}

#[test]
fn reaping_reports_the_end_of_a_session_to_watches() {
    let fixture = Fixture::new();
    let ttl = Duration::from_millis(30);
    let session = now(fixture.store.open_session(ttl)).unwrap().id;
    let key = Key::from("a");
    let commit = Commit::builder().expect(key.clone(), Expect::Absent);
    let commit = commit.put_in_session(key, "", session).build().unwrap();
    let revision = now(fixture.store.commit(commit)).unwrap();
    let mut changes = now(fixture.store.watch(&StoreRange::prefix(""), revision)).unwrap();
    let clock = Arc::clone(&fixture.clock);
    let rounds = std::cell::Cell::new(0);
    let mut reaper = Box::pin(fixture.store.reap(|time| {
        clock.advance(time);
        rounds.set(rounds.get() + 1);
        let asleep = rounds.get() > 2;
        std::future::poll_fn(move |_| if asleep { Poll::Pending } else { Poll::Ready(()) })
    }));
    let polled = reaper.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending());
    assert!(now(changes.next()).unwrap().changes[0].now.is_none());
}

#[test]
fn watches_can_be_held_broken_and_compacted() {
    let fixture = Fixture::new();
    let watch =
        || now(fixture.store.watch(&StoreRange::prefix(""), fixture.store.revision())).unwrap();
    let mut held = watch();
    fixture.store.hold_watches();
    let first = fixture.put("1");
    let mut waiting = Box::pin(held.next());
    assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(waiting);
    fixture.store.release_watches();
    assert_eq!(now(held.next()).unwrap().revision, first);

    let mut broken = watch();
    fixture.store.break_watches();
    assert!(matches!(now(broken.next()), Err(WatchError::Gap)));

    let mut overtaken = watch();
    fixture.store.hold_watches();
    let last = fixture.put("2");
    fixture.store.compact(last);
    fixture.store.release_watches();
    assert!(matches!(now(overtaken.next()), Err(WatchError::Gap)));
}

#[test]
fn stores_are_independent() {
    let one = Fixture::new();
    let key = Key::from("a");
    let commit = Commit::builder().expect(key.clone(), Expect::Absent).put(key.clone(), "1");
    now(one.store.commit(commit.build().unwrap())).unwrap();
    assert!(now(one.client.load(std::slice::from_ref(&key))).unwrap().values[0].is_some());
    let other = Fixture::new();
    let loaded = now(other.store.load(&[key])).unwrap();
    assert_eq!((loaded.values, loaded.revision), (vec![None], Revision::ZERO));
}

#[test]
fn compacted_history_takes_no_memory() {
    let clock = Arc::new(ManualClock::new());
    let options = MemoryOptions { history: 3, ..MemoryOptions::default() };
    let store = MemoryStore::with_options(clock, options);
    let mut expect = Expect::Absent;
    for _ in 0..50 {
        expect = Expect::At(now(store.commit(commit(expect, "x"))).unwrap());
    }
    let key = Key::from("a");
    let delete = Commit::builder().expect(key.clone(), expect).delete(key);
    let deleted = now(store.commit(delete.build().unwrap())).unwrap();
    assert_eq!(store.inspect(MemoryState::compacted), Revision::new(deleted.get() - 3));
    store.compact(deleted);
    let empty = store.inspect(|state| format!("{state:?}").contains("entries: {}"));
    assert!(empty, "{:?}", store.inspect(Clone::clone));
}

#[test]
fn all_futures_can_be_sent() {
    fn is_send<T: Send>(_: &T) {}
    let fixture = Fixture::new();
    let (store, range) = (&fixture.client, StoreRange::prefix(""));
    is_send(&store.load(&[]));
    is_send(&store.scan(&range, ScanFrom::first(1)));
    is_send(&store.commit(commit(Expect::Absent, "")));
    is_send(&store.watch(&range, Revision::ZERO));
}
