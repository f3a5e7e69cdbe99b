//! What every store does, as far as etcd has its own way to do it.

use std::time::Duration;

use shardwright_store::{CommitError, Expect, KeyRange, Page, ScanError, SessionError, Store};

use crate::support::{create, get, key, replace, single, soon, text, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_is_there_and_a_second_one_like_it_conflicts_with_what_is_there() {
    let (_cluster, store) = single().await;
    let revision = store.commit(create("a", "one").build().unwrap()).await.unwrap();
    let found = get(&store, "a").await.unwrap();
    assert_eq!((found.revision, &found.value[..]), (revision, &b"one"[..]));
    let again = create("a", "two").expect(key("b"), Expect::Absent).build().unwrap();
    match store.commit(again).await {
        Err(CommitError::Conflict(conflict)) => {
            assert_eq!(conflict.found, [(key("a"), Some(found)), (key("b"), None)]);
        }
        other => panic!("{other:?}"),
    }
    let later = store.commit(replace("a", revision, "two").build().unwrap()).await.unwrap();
    assert!(later > revision);
    assert_eq!(text(&store, "a").await.unwrap(), "two");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_takes_its_keys_along() {
    let (_cluster, store) = single().await;
    let session = store.open_session(Duration::from_secs(60)).await.unwrap();
    assert!(session.ttl >= Duration::from_secs(60));
    let bound = create("a", "one").put_in_session(key("b"), "two", session.id);
    store.commit(bound.build().unwrap()).await.unwrap();
    assert_eq!(get(&store, "b").await.unwrap().session, Some(session.id));
    store.keep_alive(session.id).await.unwrap();
    store.close_session(session.id).await.unwrap();
    assert!(get(&store, "b").await.is_none() && get(&store, "a").await.is_some());
    let gone = store.keep_alive(session.id).await;
    assert!(matches!(gone, Err(SessionError::Gone(id)) if id == session.id));
    let gone = store.close_session(session.id).await;
    assert!(matches!(gone, Err(SessionError::Gone(id)) if id == session.id));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_nobody_keeps_alive_ends() {
    let (_cluster, store) = single().await;
    let session = store.open_session(Duration::from_millis(200)).await.unwrap();
    assert!(session.ttl >= Duration::from_secs(1), "less than was asked for");
    let bound = create("a", "one").put_in_session(key("b"), "two", session.id);
    store.commit(bound.build().unwrap()).await.unwrap();
    until(async || get(&store, "b").await.is_none()).await;
    let gone = store.keep_alive(session.id).await;
    assert!(matches!(gone, Err(SessionError::Gone(_))), "{gone:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_tells_what_comes_after_and_all_of_a_commit_together() {
    let (_cluster, store) = single().await;
    let first = store.commit(create("a/1", "one").build().unwrap()).await.unwrap();
    let mut changes = store.watch(&KeyRange::prefix("a/"), first).await.unwrap();
    let both = create("a/2", "two").put(key("a/3"), "three").put(key("b"), "").delete(key("a/1"));
    let second = store.commit(both.build().unwrap()).await.unwrap();
    let set = soon(changes.next()).await.unwrap();
    assert_eq!(set.revision, second);
    let told: Vec<_> = set.changes.iter().map(|one| (one.key.clone(), one.now.is_some())).collect();
    assert_eq!(told, [(key("a/2"), true), (key("a/3"), true), (key("a/1"), false)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_is_of_one_moment_and_says_so_when_that_is_gone() {
    let (cluster, store) = single().await;
    for name in ["a", "b", "c"] {
        store.commit(create(name, name.to_owned()).build().unwrap()).await.unwrap();
    }
    let all = KeyRange::prefix("");
    let page = store.scan(&all, Page::first(2)).await.unwrap();
    assert_eq!(page.entries.len(), 2);
    let last = store.commit(create("d", "d").build().unwrap()).await.unwrap();
    let rest = Page { limit: 2, after: page.next };
    let page = store.scan(&all, rest.clone()).await.unwrap();
    assert_eq!(page.entries.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>(), [key("c")]);
    assert!(page.next.is_none() && page.revision < last);
    cluster.operator(0).await.unwrap().compact(last).await.unwrap();
    assert!(matches!(store.scan(&all, rest).await, Err(ScanError::Moved)));
}
