//! Streams that die silently.

use std::time::Duration;

use shardwright_store::etcd::{EtcdStore, EtcdTimeouts};
use shardwright_store::testing::{EtcdCluster, Link, Proxy};
use shardwright_store::{FaultKind, SessionError, Store, StoreRange};
use tokio::time::Instant;

use crate::support::{create, replace, soon};

const TIMEOUTS: EtcdTimeouts = EtcdTimeouts {
    connect: Duration::from_millis(400),
    attempt: Duration::from_millis(400),
    call: Duration::from_millis(2_500),
    silence: Duration::from_millis(200),
    ping: Duration::from_secs(6),
};

/// An etcd, a proxy in front of it, and a store with both addresses that uses the proxy first.
async fn two_ways() -> (EtcdCluster, Proxy, EtcdStore) {
    let cluster = EtcdCluster::single().await.unwrap();
    let direct = cluster.address(0).unwrap();
    let proxy = Proxy::start(direct).await.unwrap();
    let options = cluster.options_through(&[proxy.address(), direct]).timeouts(TIMEOUTS);
    let store = EtcdStore::connect(options).await.unwrap();
    (cluster, proxy, store)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_continues_over_another_connection_exactly() {
    let (cluster, proxy, watching) = two_ways().await;
    let writer = EtcdStore::connect(cluster.options()).await.unwrap();
    let mut last = writer.commit(create("a", "0").build().unwrap()).await.unwrap();
    let mut changes = watching.watch(&StoreRange::prefix(""), last).await.unwrap();
    for round in 0..6 {
        match round {
            2 => proxy.set(Link::Silent),
            4 => proxy.set(Link::Cut),
            _ => {}
        }
        for _ in 0..5 {
            last = writer.commit(replace("a", last, "more").build().unwrap()).await.unwrap();
            let set = soon(changes.next()).await.unwrap();
            assert_eq!((set.revision, set.changes.len()), (last, 1), "round {round}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_watch_detects_a_dead_connection() {
    let (cluster, proxy, watching) = two_ways().await;
    let writer = EtcdStore::connect(cluster.options()).await.unwrap();
    let first = writer.commit(create("a", "0").build().unwrap()).await.unwrap();
    let mut changes = watching.watch(&StoreRange::prefix(""), first).await.unwrap();
    proxy.set(Link::Silent);
    // Nothing else uses this connection. A progress request without an answer leads to another
    // connection.
    let start = Instant::now();
    let second = writer.commit(replace("a", first, "1").build().unwrap()).await.unwrap();
    assert_eq!(soon(changes.next()).await.unwrap().revision, second);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_kept_alive_over_another_connection() {
    let (_cluster, proxy, store) = two_ways().await;
    let session = store.open_session(Duration::from_secs(30)).await.unwrap();
    store.keep_alive(session.id).await.unwrap();
    proxy.set(Link::Silent);
    let start = Instant::now();
    soon(store.keep_alive(session.id)).await.unwrap();
    assert!(start.elapsed() < TIMEOUTS.call, "{:?}", start.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_without_an_answer_times_out() {
    let cluster = EtcdCluster::single().await.unwrap();
    let proxy = Proxy::start(cluster.address(0).unwrap()).await.unwrap();
    let options = cluster.options_through(&[proxy.address()]).timeouts(TIMEOUTS);
    let store = EtcdStore::connect(options).await.unwrap();
    let sessions: Vec<_> = (0..10).map(|_| store.open_session(Duration::from_secs(30))).collect();
    let mut ids = Vec::new();
    for opening in sessions {
        ids.push(opening.await.unwrap().id);
    }
    for id in &ids {
        store.keep_alive(*id).await.unwrap();
    }
    proxy.set(Link::Silent);
    let start = Instant::now();
    let renewals: Vec<_> = ids
        .iter()
        .map(|id| {
            let (store, id) = (store.clone(), *id);
            tokio::spawn(async move { store.keep_alive(id).await })
        })
        .collect();
    for renewal in renewals {
        let Err(SessionError::Store(error)) = soon(renewal).await.unwrap() else {
            panic!("the renewal must fail")
        };
        let kind = error.fault().kind;
        assert!(matches!(kind, FaultKind::TimedOut | FaultKind::Unreachable), "{error}");
    }
    assert!(start.elapsed() < TIMEOUTS.call * 2, "{:?}", start.elapsed());
    proxy.set(Link::Whole);
    for id in ids {
        soon(store.keep_alive(id)).await.unwrap();
    }
}

/// On one thread, so that concurrent commits share a batch.
#[tokio::test]
async fn later_commits_do_not_wait_for_an_unanswered_batch() {
    let (_cluster, proxy, store) = two_ways().await;
    let put = |name: String| {
        let store = store.clone();
        tokio::spawn(async move { store.commit(create(&name, "").build().unwrap()).await })
    };
    put("before".to_owned()).await.unwrap().unwrap();
    proxy.set(Link::Silent);
    let stuck: Vec<_> = (0..20).map(|number| put(format!("{number}"))).collect();
    tokio::task::yield_now().await;
    tokio::task::yield_now().await;
    let late = put("late".to_owned());
    soon(late).await.unwrap().unwrap();
    assert!(stuck.iter().all(|one| !one.is_finished()), "the later commit waited for the batch");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_network_is_tolerated() {
    let (_cluster, proxy, store) = two_ways().await;
    proxy.set(Link::Slow(Duration::from_millis(20)));
    let first = store.commit(create("a", "").build().unwrap()).await.unwrap();
    let mut changes = store.watch(&StoreRange::prefix(""), first).await.unwrap();
    let second = store.commit(replace("a", first, "").build().unwrap()).await.unwrap();
    assert_eq!(soon(changes.next()).await.unwrap().revision, second);
}
