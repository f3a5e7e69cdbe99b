//! Which commits are applied, and which are refused.

use super::{Harness, Space};
use crate::{Commit, CommitError, Expect, Revision, Store};

/// A load returns one value per key, in the order of the keys.
pub async fn load_returns_values_in_the_order_of_its_keys<H: Harness>(harness: &H) {
    let space = Space::new(harness).await;
    let (a, b) = (space.put("a", "1").await, space.put("b", "2").await);
    let keys = ["b", "missing", "a", "b"].map(|name| space.key(name));
    let snapshot = space.store.load(&keys).await.unwrap();
    assert!(snapshot.revision >= b);
    let found: Vec<_> = snapshot
        .values
        .iter()
        .map(|value| value.as_ref().map(|found| (found.value.as_ref(), found.revision)))
        .collect();
    let (one, two): ((&[u8], _), (&[u8], _)) = ((b"1", a), (b"2", b));
    assert_eq!(found, [Some(two), None, Some(one), Some(two)]);
    assert!(space.store.load(&[]).await.unwrap().values.is_empty());
}

/// A key that is expected to be absent must not exist.
pub async fn expected_absence_requires_that_the_key_does_not_exist<H: Harness>(harness: &H) {
    let space = Space::new(harness).await;
    let create = |value: &'static str| {
        let key = space.key("a");
        space.commit(Commit::builder().expect(key.clone(), Expect::Absent).put(key, value))
    };
    create("first").await.unwrap();
    assert!(matches!(create("second").await, Err(CommitError::Conflict(_))));
    assert_eq!(space.text("a").await.unwrap(), "first");
    space.delete("a").await;
    create("third").await.unwrap();
    assert_eq!(space.text("a").await.unwrap(), "third");
}

/// A key that is expected at a revision exists and was last written then.
pub async fn expected_revision_requires_the_last_write<H: Harness>(harness: &H) {
    let space = Space::new(harness).await;
    let first = space.put("a", "1").await;
    let update = |revision: Revision, value: &'static str| {
        let key = space.key("a");
        space.commit(Commit::builder().expect(key.clone(), Expect::At(revision)).put(key, value))
    };
    let second = update(first, "2").await.unwrap();
    assert!(matches!(update(first, "stale").await, Err(CommitError::Conflict(_))));
    let future = Revision::new(second.get() + 100);
    assert!(matches!(update(future, "early").await, Err(CommitError::Conflict(_))));
    assert_eq!(space.text("a").await.unwrap(), "2");
    space.delete("a").await;
    assert!(matches!(update(second, "undead").await, Err(CommitError::Conflict(_))));
    // No key exists at revision zero.
    assert!(matches!(update(Revision::ZERO, "zero").await, Err(CommitError::Conflict(_))));
    assert!(space.get("a").await.is_none());
}

/// One expectation that does not hold prevents all writes.
pub async fn writes_are_all_or_nothing<H: Harness>(harness: &H) {
    let space = Space::new(harness).await;
    let revision = space.put("a", "1").await;
    space.put("b", "1").await;
    let commit = |expected| {
        Commit::builder()
            .expect(space.key("a"), Expect::At(revision))
            .expect(space.key("c"), expected)
            .put(space.key("a"), "2")
            .delete(space.key("b"))
            .put(space.key("d"), "2")
    };
    let refused = space.commit(commit(Expect::At(revision))).await;
    assert!(matches!(refused, Err(CommitError::Conflict(_))));
    assert_eq!(space.text("a").await.as_deref(), Some("1"));
    assert_eq!(space.text("b").await.as_deref(), Some("1"));
    assert!(space.get("d").await.is_none());
    let done = space.commit(commit(Expect::Absent)).await.unwrap();
    let keys = ["a", "b", "d"].map(|name| space.key(name));
    let values = space.store.load(&keys).await.unwrap().values;
    let revisions: Vec<_> =
        values.iter().map(|value| value.as_ref().map(|found| found.revision)).collect();
    assert_eq!(revisions, [Some(done), None, Some(done)]);
}

/// After a conflict the caller can continue without another load.
pub async fn conflict_returns_values_in_the_order_of_expectations<H: Harness>(harness: &H) {
    let space = Space::new(harness).await;
    let (z, a) = (space.put("z", "here").await, space.put("a", "").await);
    let names = ["z", "missing", "a"];
    let commit = Commit::builder()
        .expect(space.key("z"), Expect::At(z))
        .expect(space.key("missing"), Expect::At(a))
        .expect(space.key("a"), Expect::At(z))
        .put(space.key("z"), "changed");
    let Err(CommitError::Conflict(conflict)) = space.commit(commit).await else {
        panic!("the commit must conflict");
    };
    let keys: Vec<_> = conflict.found.iter().map(|(key, _)| key.clone()).collect();
    assert_eq!(keys, names.map(|name| space.key(name)));
    let loaded = space.store.load(&keys).await.unwrap().values;
    let found: Vec<_> = conflict.found.into_iter().map(|(_, found)| found).collect();
    assert_eq!(found, loaded);
    assert_eq!(found[0].as_ref().unwrap().value, "here");
}

/// Each commit has a higher revision than the one before. The keys that it wrote have that
/// revision.
pub async fn revisions_rise_and_match_the_written_keys<H: Harness>(harness: &H) {
    let space = Space::new(harness).await;
    let mut last = space.now().await;
    for round in 0..20 {
        let revision = space.put("a", format!("{round}")).await;
        assert!(revision > last, "{revision} comes after {last}");
        assert_eq!(space.get("a").await.unwrap().revision, revision);
        assert!(space.now().await >= revision);
        last = revision;
    }
    let deleted = space.delete("a").await;
    assert!(deleted > last);
}

/// Deleting a missing key succeeds.
pub async fn a_missing_key_can_be_deleted<H: Harness>(harness: &H) {
    let space = Space::new(harness).await;
    let commit = Commit::builder()
        .expect(space.key("a"), Expect::Absent)
        .put(space.key("a"), "1")
        .delete(space.key("missing"));
    space.commit(commit).await.unwrap();
    assert_eq!(space.text("a").await.unwrap(), "1");
    assert!(space.get("missing").await.is_none());
    let alone =
        Commit::builder().expect(space.key("missing"), Expect::Absent).delete(space.key("missing"));
    space.commit(alone).await.unwrap();
}

/// Keys and values are arbitrary bytes.
pub async fn values_may_be_empty_and_keys_any_bytes<H: Harness>(harness: &H) {
    let space = Space::new(harness).await;
    space.put("empty", "").await;
    assert_eq!(space.get("empty").await.unwrap().value.len(), 0);
    let all: Vec<u8> = (0..=u8::MAX).collect();
    for name in [&all[..], &[0], &[0, 0], &[0xff; 40], "käse'\"\\%_\n".as_bytes()] {
        let value = [name, b"/value"].concat();
        space.put(name, value.clone()).await;
        assert_eq!(space.get(name).await.unwrap().value, value);
    }
}

/// A commit at the limits is applied, and one beyond is refused.
pub async fn commit_limits_are_inclusive<H: Harness>(harness: &H) {
    let space = Space::new(harness).await;
    let limits = space.store.limits();
    let refused = |result: Result<Revision, CommitError>, what: &str| match result {
        Err(CommitError::TooLarge(error)) => assert_eq!(error.what, what),
        other => panic!("too many {what}: {other:?}"),
    };
    let expects = |count: usize, name: &str| {
        let first = space.key(name);
        let commit = Commit::builder().expect(first.clone(), Expect::Absent).put(first, "");
        (1..count).fold(commit, |commit, number| {
            commit.expect(space.key(format!("{name}/{number}")), Expect::Absent)
        })
    };
    space.commit(expects(limits.expectations, "e")).await.unwrap();
    refused(space.commit(expects(limits.expectations + 1, "f")).await, "expectations");

    let writes = |count: usize, name: &str| {
        let first = space.key(name);
        let commit = Commit::builder().expect(first.clone(), Expect::Absent).put(first, "");
        (1..count)
            .fold(commit, |commit, number| commit.put(space.key(format!("{name}/{number}")), ""))
    };
    let revision = space.commit(writes(limits.writes, "w")).await.unwrap();
    let last = space.get(format!("w/{}", limits.writes - 1)).await.unwrap();
    assert_eq!(last.revision, revision);
    refused(space.commit(writes(limits.writes + 1, "x")).await, "writes");

    let long = |bytes: usize| {
        let key = space.key("k".repeat(bytes - space.prefix.len()));
        Commit::builder().expect(key.clone(), Expect::Absent).put(key, "")
    };
    space.commit(long(limits.key_bytes)).await.unwrap();
    refused(space.commit(long(limits.key_bytes + 1)).await, "bytes of a key");

    let heavy = |bytes: usize, name: &str| {
        let key = space.key(name);
        let value = vec![7; bytes - 2 * key.as_bytes().len()];
        Commit::builder().expect(key.clone(), Expect::Absent).put(key, value)
    };
    space.commit(heavy(limits.bytes, "h")).await.unwrap();
    let stored = space.get("h").await.unwrap().value;
    assert_eq!(stored.len(), limits.bytes - 2 * space.key("h").as_bytes().len());
    refused(space.commit(heavy(limits.bytes + 1, "i")).await, "bytes");
    assert!(space.get("i").await.is_none());
    // Large values are deleted when the scenario no longer needs them.
    space.delete("h").await;
}

/// Commits of one client are visible to the other.
pub async fn two_clients_see_each_other<H: Harness>(harness: &H) {
    let one = Space::new(harness).await;
    let other = one.other_client().await;
    for round in 0..10 {
        let (writer, reader) = if round % 2 == 0 { (&one, &other) } else { (&other, &one) };
        let revision = writer.put("a", format!("{round}")).await;
        let found = reader.get("a").await.unwrap();
        assert_eq!((found.revision, found.value), (revision, format!("{round}").into()));
    }
}
