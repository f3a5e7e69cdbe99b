//! Conformance of sessions: which keys belong to a session, and for how long.

use std::sync::Arc;

use super::{Harness, Space, Task, gone};
use crate::{Commit, CommitError, Expect, SessionError, Store};

/// When a session expires, all its keys are deleted at one revision, and watches report it.
pub async fn session_end_deletes_its_keys<H: Harness>(harness: &H) {
    let space = Space::new(harness).await;
    let session = space.store.open_session(harness.ttl()).await.unwrap();
    assert!(session.ttl >= harness.ttl());
    space.put_in("a", "bound", session.id).await;
    space.put_in("b", "bound", session.id).await;
    space.put("c", "unbound").await;
    assert_eq!(space.get("a").await.unwrap().session, Some(session.id));
    assert_eq!(space.get("c").await.unwrap().session, None);
    let mut watcher = space.watch(&space.range(), space.now().await).await;
    harness.pass(session.ttl).await;
    let (revision, changes) = watcher.names().await;
    assert_eq!(changes, [gone("a"), gone("b")]);
    assert!(space.now().await >= revision);
    assert!(space.get("a").await.is_none() && space.get("b").await.is_none());
    assert_eq!(space.text("c").await.unwrap(), "unbound");
}

/// A session lives for as long as keep-alives arrive in time.
pub async fn keep_alive_extends_a_session<H: Harness>(harness: &H) {
    let space = Space::new(harness).await;
    let session = space.store.open_session(harness.ttl()).await.unwrap();
    space.put_in("a", "bound", session.id).await;
    for _ in 0..4 {
        harness.pass(session.ttl / 2).await;
        space.store.keep_alive(session.id).await.unwrap();
        assert!(space.get("a").await.is_some());
    }
    harness.pass(session.ttl).await;
    space.until_gone("a").await;
    let late = space.store.keep_alive(session.id).await;
    assert!(matches!(late, Err(SessionError::Gone(id)) if id == session.id), "{late:?}");
}

/// Closing ends a session. A second close reports that it has ended.
pub async fn closed_session_ends_at_once<H: Harness>(harness: &H) {
    let space = Space::new(harness).await;
    let kept = space.store.open_session(harness.ttl()).await.unwrap();
    let closed = space.store.open_session(harness.ttl()).await.unwrap();
    assert_ne!(kept.id, closed.id);
    space.put_in("kept", "", kept.id).await;
    space.put_in("closed", "", closed.id).await;
    space.store.close_session(closed.id).await.unwrap();
    assert!(space.get("closed").await.is_none());
    assert!(space.get("kept").await.is_some());
    let again = space.store.close_session(closed.id).await;
    assert!(matches!(again, Err(SessionError::Gone(_))), "{again:?}");
    let kept_alive = space.store.keep_alive(closed.id).await;
    assert!(matches!(kept_alive, Err(SessionError::Gone(_))), "{kept_alive:?}");
    space.store.close_session(kept.id).await.unwrap();
    assert!(space.get("kept").await.is_none());
}

/// A commit that puts a key into an ended session is refused as a whole.
pub async fn ended_session_accepts_no_keys<H: Harness>(harness: &H) {
    let space = Space::new(harness).await;
    let session = space.store.open_session(harness.ttl()).await.unwrap();
    space.store.close_session(session.id).await.unwrap();
    let commit = Commit::builder()
        .expect(space.key("a"), Expect::Absent)
        .put(space.key("a"), "first")
        .put_in_session(space.key("b"), "second", session.id);
    let refused = space.commit(commit).await;
    assert!(matches!(refused, Err(CommitError::SessionGone(id)) if id == session.id));
    assert!(space.get("a").await.is_none() && space.get("b").await.is_none());
}

/// The other commits of the same batch are applied.
pub async fn ended_session_fails_only_its_own_commit<H: Harness>(harness: &H) {
    let space = Space::new(harness).await;
    let dead = space.store.open_session(harness.ttl()).await.unwrap();
    space.store.close_session(dead.id).await.unwrap();
    let tasks = (0..30).map(|number| -> Task {
        let store = Arc::clone(&space.store);
        let key = space.key(format!("{number:02}"));
        Box::pin(async move {
            let commit = Commit::builder().expect(key.clone(), Expect::Absent);
            if number % 5 == 0 {
                let commit = commit.put_in_session(key, "", dead.id).build().unwrap();
                let refused = store.commit(commit).await;
                assert!(matches!(refused, Err(CommitError::SessionGone(_))), "{refused:?}");
            } else {
                store.commit(commit.put(key, "").build().unwrap()).await.unwrap();
            }
        })
    });
    harness.run_together(tasks.collect()).await;
    for number in 0..30 {
        let there = space.get(format!("{number:02}")).await.is_some();
        assert_eq!(there, number % 5 != 0, "{number}");
    }
}

/// A put without a session removes the key from its session.
pub async fn key_put_without_a_session_leaves_its_session<H: Harness>(harness: &H) {
    let space = Space::new(harness).await;
    let session = space.store.open_session(harness.ttl()).await.unwrap();
    space.put_in("a", "bound", session.id).await;
    space.put_in("b", "bound", session.id).await;
    space.put("a", "unbound").await;
    assert_eq!(space.get("a").await.unwrap().session, None);
    space.store.close_session(session.id).await.unwrap();
    assert_eq!(space.text("a").await.unwrap(), "unbound");
    assert!(space.get("b").await.is_none());
}

/// A key belongs to one session only: the last one that wrote it.
pub async fn key_belongs_to_the_session_that_wrote_it_last<H: Harness>(harness: &H) {
    let space = Space::new(harness).await;
    let first = space.store.open_session(harness.ttl()).await.unwrap();
    let second = space.store.open_session(harness.ttl()).await.unwrap();
    space.put_in("a", "first", first.id).await;
    space.put_in("a", "second", second.id).await;
    space.store.close_session(first.id).await.unwrap();
    assert_eq!(space.text("a").await.unwrap(), "second");
    space.store.close_session(second.id).await.unwrap();
    assert!(space.get("a").await.is_none());
}

/// The end of a session deletes only keys that still belong to it.
pub async fn deleted_key_is_not_deleted_again_by_its_session<H: Harness>(harness: &H) {
    let space = Space::new(harness).await;
    let session = space.store.open_session(harness.ttl()).await.unwrap();
    space.put_in("a", "bound", session.id).await;
    space.put_in("b", "bound", session.id).await;
    space.delete("a").await;
    space.put("a", "again").await;
    let mut watcher = space.watch(&space.range(), space.now().await).await;
    space.store.close_session(session.id).await.unwrap();
    assert_eq!(watcher.names().await.1, [gone("b")]);
    assert_eq!(space.text("a").await.unwrap(), "again");
}

/// Any client that has the id of a session can use, extend and close it.
pub async fn session_is_shared_by_all_clients<H: Harness>(harness: &H) {
    let space = Space::new(harness).await;
    let other = space.other_client().await;
    let session = space.store.open_session(harness.ttl()).await.unwrap();
    other.put_in("a", "", session.id).await;
    harness.pass(session.ttl / 2).await;
    other.store.keep_alive(session.id).await.unwrap();
    harness.pass(session.ttl / 2).await;
    assert!(space.get("a").await.is_some());
    other.store.close_session(session.id).await.unwrap();
    assert!(space.get("a").await.is_none());
    let commit = Commit::builder().expect(space.key("a"), Expect::Absent);
    let refused = space.commit(commit.put_in_session(space.key("a"), "", session.id)).await;
    assert!(matches!(refused, Err(CommitError::SessionGone(_))), "{refused:?}");
}
