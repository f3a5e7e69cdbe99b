use std::fs;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use tempfile::TempDir;

use super::*;
use crate::clock::ManualClock;
use crate::commit::Expect;
use crate::store::Continuation;

/// Polls until the future is done. Other threads make progress meanwhile.
fn now<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
        assert!(Instant::now() < deadline, "the call waits for ever");
        std::thread::yield_now();
    }
}

fn put(store: &FileStore, name: &str, value: Vec<u8>) -> Revision {
    let key = Key::from(name.to_owned());
    let found = now(store.load(std::slice::from_ref(&key))).unwrap().values.pop().unwrap();
    let expect = found.map_or(Expect::Absent, |found| Expect::At(found.revision));
    let commit = Commit::builder().expect(key.clone(), expect).put(key, value);
    now(store.commit(commit.build().unwrap())).unwrap()
}

fn count(store: &FileStore, table: &str) -> i64 {
    let connection = rusqlite::Connection::open(store.path()).unwrap();
    connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

#[test]
fn a_single_caller_is_answered_on_its_own_thread() {
    let folder = TempDir::new().unwrap();
    let store = FileStore::open(folder.path(), FileOptions::default()).unwrap();
    for round in 0..20 {
        let key = Key::from(format!("{round}"));
        let commit = Commit::builder().expect(key.clone(), Expect::Absent).put(key, "");
        let mut waiting = pin!(store.commit(commit.build().unwrap()));
        let polled = waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Ready(Ok(_))), "round {round}");
    }
}

#[test]
fn recorded_changes_are_bounded_by_number_and_by_bytes() {
    let folder = TempDir::new().unwrap();
    let options =
        FileOptions { history_revisions: 80, history_bytes: 100_000, ..FileOptions::default() };
    let store = FileStore::open(folder.path(), options).unwrap();
    for round in 0..299 {
        put(&store, &format!("{}", round % 7), vec![1]);
    }
    let last = put(&store, "last", vec![1]).get();
    let kept = count(&store, "change");
    assert!((80..=91).contains(&kept), "{kept}");
    let after = |revision: u64| now(store.watch(&StoreRange::prefix(""), Revision::new(revision)));
    let mut changes = after(last - 80).unwrap();
    assert_eq!(now(changes.next()).unwrap().revision.get(), last - 79);
    assert!(matches!(after(last - 100), Err(WatchError::Gap)));
    for _ in 0..30 {
        put(&store, "heavy", vec![1; 20_000]);
    }
    let kept = count(&store, "change");
    assert!((4..=6).contains(&kept), "{kept}");
    put(&store, "heaviest", vec![1; 200_000]);
    let last = put(&store, "light", vec![1]).get();
    assert!(after(last).is_ok() && after(last - 1).is_ok());
}

#[test]
fn scans_hold_few_revisions_for_a_limited_time() {
    let folder = TempDir::new().unwrap();
    let scan_time = Duration::from_millis(50);
    let options = FileOptions { scans_max: 2, scan_time, ..FileOptions::default() };
    let store = FileStore::open(folder.path(), options).unwrap();
    for name in ["a", "b", "c"] {
        put(&store, name, vec![]);
    }
    let range = StoreRange::prefix("");
    let begin = || now(store.scan(&range, ScanFrom::first(1))).unwrap().next.unwrap();
    let go_on = |after: &Continuation| {
        now(store.scan(&range, ScanFrom { limit: 1, after: Some(after.clone()) }))
    };
    let first = begin();
    assert!(go_on(&first).is_ok(), "nothing has changed");
    let mut later = Vec::new();
    for _ in 0..2 {
        put(&store, "a", vec![]);
        later.push(begin());
    }
    put(&store, "a", vec![]);
    assert!(matches!(go_on(&first), Err(ScanError::Moved)), "two other revisions are held");
    let deadline = Instant::now() + Duration::from_secs(30);
    while store.inner.readers.has_pins() {
        assert!(Instant::now() < deadline, "a revision is held for ever");
        std::thread::yield_now();
    }
    assert!(later.iter().all(|after| matches!(go_on(after), Err(ScanError::Moved))));
}

#[test]
fn a_finished_scan_holds_no_revision() {
    let folder = TempDir::new().unwrap();
    let store = FileStore::open(folder.path(), FileOptions::default()).unwrap();
    for name in ["a", "b", "c"] {
        put(&store, name, vec![]);
    }
    let range = StoreRange::prefix("");
    let mut pages = [ScanFrom::first(1), ScanFrom::first(1)];
    for _ in 0..3 {
        for page in &mut pages {
            page.after = now(store.scan(&range, page.clone())).unwrap().next;
        }
    }
    assert!(pages.iter().all(|page| page.after.is_none()) && !store.inner.readers.has_pins());
}

#[test]
fn a_long_log_is_restarted() {
    let folder = TempDir::new().unwrap();
    let options = FileOptions { log_pages: 50, ..FileOptions::default() };
    let store = FileStore::open(folder.path(), options).unwrap();
    for round in 0..400 {
        put(&store, &format!("{}", round % 20), vec![7; 500]);
    }
    let log = fs::metadata(folder.path().join("state.db-wal")).unwrap().len();
    assert!(log < 100 * 4_200, "{log} bytes");
}

#[test]
fn the_last_user_marks_the_store_as_closed() {
    let folder = TempDir::new().unwrap();
    let closed = || -> bool {
        let connection = rusqlite::Connection::open(folder.path().join("state.db")).unwrap();
        let row = connection.query_row("SELECT closed FROM store", [], |row| row.get(0));
        row.unwrap()
    };
    let one = FileStore::open(folder.path(), FileOptions::default()).unwrap();
    let other = FileStore::open(folder.path(), FileOptions::default()).unwrap();
    put(&one, "a", vec![1]);
    drop(one);
    assert!(!closed(), "the other user is still there");
    drop(other);
    assert!(closed());
    let again = FileStore::open(folder.path(), FileOptions::default()).unwrap();
    assert!(!closed());
    let snapshot = now(again.load(&[Key::from("a")])).unwrap();
    assert_eq!(&snapshot.values[0].as_ref().unwrap().value[..], [1]);
}

#[test]
fn an_opener_beside_the_last_user_becomes_the_first() {
    let folder = TempDir::new().unwrap();
    let leaving = FileStore::open(folder.path(), FileOptions::default()).unwrap();
    put(&leaving, "a", vec![1]);
    // It has left the users, but its connections are not closed yet.
    users::leave(&leaving.inner.setup);
    let next = FileStore::open(folder.path(), FileOptions::default()).unwrap();
    let closed = "SELECT closed FROM store";
    let connection = rusqlite::Connection::open(next.path()).unwrap();
    assert!(!connection.query_row(closed, [], |row| row.get::<_, bool>(0)).unwrap());
    drop(leaving);
    assert!(!connection.query_row(closed, [], |row| row.get::<_, bool>(0)).unwrap());
}

#[test]
fn sessions_expire_by_the_configured_clock() {
    let folder = TempDir::new().unwrap();
    let clock = Arc::new(ManualClock::new());
    let options = FileOptions { clock: clock.clone(), ..FileOptions::default() };
    let store = FileStore::open(folder.path(), options).unwrap();
    let ttl = Duration::from_secs(5);
    let session = now(store.open_session(ttl)).unwrap().id;
    clock.advance(ttl - Duration::from_millis(1));
    now(store.keep_alive(session)).unwrap();
    clock.advance(ttl);
    let late = now(store.keep_alive(session));
    assert!(matches!(late, Err(SessionError::Gone(_))), "{late:?}");
    let key = Key::from("a");
    let commit = Commit::builder().expect(key.clone(), Expect::Absent);
    let commit = commit.put_in_session(key, "", session).build().unwrap();
    let refused = now(store.commit(commit));
    assert!(matches!(refused, Err(CommitError::SessionGone(_))), "{refused:?}");
    let deadline = Instant::now() + Duration::from_secs(30);
    while count(&store, "session") > 0 {
        assert!(Instant::now() < deadline, "the session is never deleted");
    }
}

#[test]
fn the_readable_view_shows_keys_as_text() {
    let folder = TempDir::new().unwrap();
    let store = FileStore::open(folder.path(), FileOptions::default()).unwrap();
    put(&store, "run/1/gate", b"open".to_vec());
    let connection = rusqlite::Connection::open(store.path()).unwrap();
    let read = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap();
    assert_eq!(read("SELECT key FROM readable"), "run/1/gate");
    assert_eq!(read("SELECT CAST(value AS TEXT) FROM entry"), "open");
    assert_eq!(read("SELECT now FROM readable_change WHERE revision = 1"), "4 bytes");
    assert_eq!(read("SELECT id FROM store").len(), 32);
}
