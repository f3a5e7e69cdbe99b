//! The changes that a watch delivers.

use std::sync::Arc;

use super::{Harness, Space, Task, gone, put};
use crate::{Commit, Expect, Revision, Store, WatchError};

/// A watch delivers every change, in order.
pub async fn changes_arrive_once_and_in_order<H: Harness>(harness: &H) {
    let space = Space::new(harness).await;
    let mut watcher = space.watch(&space.range(), space.now().await).await;
    let mut expected = Vec::new();
    for round in 0..20 {
        let (name, value) = (format!("{}", round % 3), format!("{round}"));
        let revision = space.put(&name, value.clone()).await;
        expected.push((revision, vec![put(&name, &value)]));
    }
    for expected in expected {
        assert_eq!(watcher.names().await, expected);
    }
}

/// All changes of a commit are in one set.
pub async fn changes_of_one_commit_arrive_together<H: Harness>(harness: &H) {
    let space = Space::new(harness).await;
    space.put("b", "old").await;
    let mut watcher = space.watch(&space.range(), space.now().await).await;
    let commit = Commit::builder()
        .expect(space.key("a"), Expect::Absent)
        .put(space.key("a"), "1")
        .delete(space.key("b"))
        .put(space.key("c"), "3");
    let revision = space.commit(commit).await.unwrap();
    let expected = vec![put("a", "1"), gone("b"), put("c", "3")];
    assert_eq!(watcher.names().await, (revision, expected));
}

/// A change at the start revision is not delivered.
pub async fn watch_starts_after_its_revision<H: Harness>(harness: &H) {
    let space = Space::new(harness).await;
    space.put("a", "1").await;
    let second = space.put("a", "2").await;
    let mut watcher = space.watch(&space.range(), second).await;
    let third = space.put("a", "3").await;
    assert_eq!(watcher.names().await, (third, vec![put("a", "3")]));
}

/// A watch from an earlier revision delivers the missed changes and then continues.
pub async fn watch_delivers_earlier_changes_first<H: Harness>(harness: &H) {
    let space = Space::new(harness).await;
    let first = space.put("a", "1").await;
    let second = space.put("b", "2").await;
    let third = space.delete("a").await;
    let mut watcher = space.watch(&space.range(), first).await;
    let fourth = space.put("c", "4").await;
    assert_eq!(watcher.names().await, (second, vec![put("b", "2")]));
    assert_eq!(watcher.names().await, (third, vec![gone("a")]));
    assert_eq!(watcher.names().await, (fourth, vec![put("c", "4")]));
}

/// Deleting an existing key is a change. Deleting a missing key is none.
pub async fn only_deletions_of_existing_keys_are_changes<H: Harness>(harness: &H) {
    let space = Space::new(harness).await;
    space.put("a", "1").await;
    let mut watcher = space.watch(&space.range(), space.now().await).await;
    let commit =
        Commit::builder().expect(space.key("missing"), Expect::Absent).delete(space.key("missing"));
    space.commit(commit).await.unwrap();
    let deleted = space.delete("a").await;
    assert_eq!(watcher.names().await, (deleted, vec![gone("a")]));
}

/// Changes outside the range are not delivered, even those of a commit that changes both.
pub async fn watch_delivers_only_its_range<H: Harness>(harness: &H) {
    let space = Space::new(harness).await;
    let mut watcher = space.watch(&space.range_of("in/"), space.now().await).await;
    space.put("in", "no").await;
    space.put("in0", "no").await;
    let commit = Commit::builder()
        .expect(space.key("in/a"), Expect::Absent)
        .put(space.key("in/a"), "yes")
        .put(space.key("out/a"), "no");
    let revision = space.commit(commit).await.unwrap();
    assert_eq!(watcher.names().await, (revision, vec![put("in/a", "yes")]));
}

/// Each watch gets all changes, and dropping one does not affect the others.
pub async fn watches_are_independent<H: Harness>(harness: &H) {
    let space = Space::new(harness).await;
    let now = space.now().await;
    let mut watchers = Vec::new();
    for _ in 0..5 {
        watchers.push(space.watch(&space.range(), now).await);
    }
    let first = space.put("a", "1").await;
    drop(watchers.swap_remove(2));
    let second = space.put("a", "2").await;
    for watcher in &mut watchers {
        assert_eq!(watcher.names().await, (first, vec![put("a", "1")]));
        assert_eq!(watcher.names().await, (second, vec![put("a", "2")]));
    }
}

/// Commits of another client are delivered.
pub async fn watch_delivers_commits_of_other_clients<H: Harness>(harness: &H) {
    let space = Space::new(harness).await;
    let other = space.other_client().await;
    let mut watcher = space.watch(&space.range(), space.now().await).await;
    for round in 0..10 {
        let writer = if round % 3 == 0 { &space } else { &other };
        let revision = writer.put("a", format!("{round}")).await;
        assert_eq!(watcher.names().await, (revision, vec![put("a", &format!("{round}"))]));
    }
}

/// A reader that does not read gets what fits, in order, and then a gap.
pub async fn slow_reader_gets_a_gap<H: Harness>(harness: &H) {
    let space = Space::new(harness).await;
    let capacity = harness.watch_capacity();
    let mut watcher = space.watch(&space.range(), space.now().await).await;
    let mut written = Vec::new();
    for round in 0..capacity + 10 {
        written.push(space.put("a", format!("{round}")).await);
    }
    let mut seen = Vec::new();
    loop {
        match watcher.next().await {
            Ok(set) => seen.push(set.revision),
            Err(WatchError::Gap) => break,
            Err(WatchError::Store(error)) => panic!("{error}"),
        }
    }
    assert!(seen.len() <= capacity && written.starts_with(&seen), "{} were read", seen.len());
    assert!(matches!(watcher.next().await, Err(WatchError::Gap)), "no change follows a gap");
}

/// After a compaction, a watch from an earlier revision reports a gap.
pub async fn compacted_changes_cannot_be_watched<H: Harness>(harness: &H) {
    let space = Space::new(harness).await;
    let first = space.put("a", "1").await;
    let second = space.put("a", "2").await;
    let third = space.put("a", "3").await;
    if !harness.compact(third).await {
        return;
    }
    for missed in [first, second] {
        let ended = match space.store.watch(&space.range(), missed).await {
            Ok(mut changes) => changes.next().await.map(|set| set.revision),
            Err(error) => Err(error),
        };
        // Later changes may still be delivered, but none may be left out.
        match ended {
            Err(WatchError::Gap) => {}
            Ok(revision) => assert_eq!((missed, revision), (second, third)),
            Err(WatchError::Store(error)) => panic!("{error}"),
        }
    }
    let mut watcher = space.watch(&space.range(), third).await;
    let fourth = space.put("a", "4").await;
    assert_eq!(watcher.names().await, (fourth, vec![put("a", "4")]));
}

/// With many writers, a reader sees the values of each key rise without a hole.
pub async fn watch_misses_nothing_under_load<H: Harness>(harness: &H) {
    const WRITERS: usize = 8;
    const ROUNDS: usize = 25;
    let space = Space::new(harness).await;
    let other = space.other_client().await;
    let mut watcher = space.watch(&space.range(), space.now().await).await;
    let tasks = (0..WRITERS).map(|writer| -> Task {
        let store = Arc::clone(if writer % 2 == 0 { &space.store } else { &other.store });
        let key = space.key([u8::try_from(writer).unwrap()]);
        Box::pin(async move {
            let mut expect = Expect::Absent;
            for round in 0..ROUNDS {
                let value = vec![u8::try_from(round).unwrap()];
                let commit = Commit::builder().expect(key.clone(), expect).put(key.clone(), value);
                expect = Expect::At(store.commit(commit.build().unwrap()).await.unwrap());
            }
        })
    });
    harness.run_together(tasks.collect()).await;
    let mut next = [0; WRITERS];
    let mut last = Revision::ZERO;
    while next.iter().any(|seen| *seen < ROUNDS) {
        let set = watcher.next().await.unwrap();
        assert!(set.revision > last);
        last = set.revision;
        for change in set.changes {
            let writer = usize::from(*change.key.as_bytes().last().unwrap());
            let value = usize::from(change.now.unwrap().value[0]);
            assert_eq!(value, next[writer], "writer {writer}");
            next[writer] += 1;
        }
    }
}
