//! Reads, scans and watches when etcd compacts its history.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use shardwright_store::etcd::{EtcdStore, EtcdTimeouts};
use shardwright_store::testing::{EtcdCluster, Link, Proxy};
use shardwright_store::{ScanError, ScanFrom, Store, StoreRange, WatchError};
use tokio::time::sleep;

use crate::support::{create, key, replace, single, soon};

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_missed_compacted_changes_has_a_gap() {
    let cluster = EtcdCluster::single().await.unwrap();
    let proxy = Proxy::start(cluster.address(0).unwrap()).await.unwrap();
    let short = EtcdTimeouts { silence: Duration::from_millis(200), ..EtcdTimeouts::default() };
    let options = cluster.options_through(&[proxy.address()]).timeouts(short);
    let far = EtcdStore::connect(options).await.unwrap();
    let near = EtcdStore::connect(cluster.options()).await.unwrap();
    let first = near.commit(create("a", "0").build().unwrap()).await.unwrap();
    let mut changes = far.watch(&StoreRange::prefix(""), first).await.unwrap();
    proxy.set(Link::Cut);
    let second = near.commit(replace("a", first, "1").build().unwrap()).await.unwrap();
    let third = near.commit(replace("a", second, "2").build().unwrap()).await.unwrap();
    cluster.operator(0).await.unwrap().compact(third).await.unwrap();
    proxy.set(Link::Whole);
    assert!(matches!(soon(changes.next()).await, Err(WatchError::Gap)));
    // Reading everything again and watching from there misses nothing.
    let snapshot = far.load(&[key("a")]).await.unwrap();
    let mut changes = far.watch(&StoreRange::prefix(""), snapshot.revision).await.unwrap();
    let fourth = near.commit(replace("a", third, "3").build().unwrap()).await.unwrap();
    assert_eq!(soon(changes.next()).await.unwrap().revision, fourth);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_of_a_restored_cluster_has_a_gap() {
    let (mut cluster, store) = single().await;
    let mut last = store.commit(create("a", "0").build().unwrap()).await.unwrap();
    let mut changes = store.watch(&StoreRange::prefix(""), last).await.unwrap();
    for round in 0..5 {
        last = store.commit(replace("a", last, format!("{round}")).build().unwrap()).await.unwrap();
        assert_eq!(soon(changes.next()).await.unwrap().revision, last);
    }
    cluster.set_back(0).await.unwrap();
    assert!(matches!(soon(changes.next()).await, Err(WatchError::Gap)));
    // A new read returns the present state of the cluster.
    let snapshot = store.load(&[key("a")]).await.unwrap();
    assert!(snapshot.values[0].is_none() && snapshot.revision < last);
    let mut changes = store.watch(&StoreRange::prefix(""), snapshot.revision).await.unwrap();
    let first = store.commit(create("a", "again").build().unwrap()).await.unwrap();
    assert_eq!(soon(changes.next()).await.unwrap().revision, first);
}

#[tokio::test(flavor = "multi_thread")]
async fn constant_compaction_does_not_affect_current_readers() {
    const ROUNDS: usize = 150;
    let (cluster, store) = single().await;
    let done = Arc::new(AtomicBool::new(false));
    let operator = cluster.operator(0).await.unwrap();
    let stop = Arc::clone(&done);
    let sweeping = tokio::spawn(async move {
        let mut last = 0;
        while !stop.load(Ordering::Relaxed) {
            let revision = operator.status().await.unwrap().revision;
            if revision.get() > last {
                operator.compact(revision).await.unwrap();
                last = revision.get();
            }
            operator.defragment().await.unwrap();
            sleep(Duration::from_millis(10)).await;
        }
    });
    let mut last = store.commit(create("a", "").build().unwrap()).await.unwrap();
    let mut changes = store.watch(&StoreRange::prefix("a"), last).await.unwrap();
    let keys: Vec<_> = (0..80).map(|number| key(format!("b/{number}"))).collect();
    for round in 0..ROUNDS {
        let name = format!("b/{}", round % 80);
        let commit = replace("a", last, format!("{round}"));
        last = store.commit(commit.put(key(name), "").build().unwrap()).await.unwrap();
        assert_eq!(soon(changes.next()).await.unwrap().revision, last);
        // Three requests at one revision, which may be compacted in between.
        let snapshot = store.load(&keys).await.unwrap();
        assert_eq!(snapshot.values.iter().flatten().count(), (round + 1).min(80));
        match store.scan(&StoreRange::prefix("b/"), ScanFrom::first(1_000)).await {
            Ok(page) => assert_eq!(page.entries.len(), (round + 1).min(80)),
            Err(ScanError::Moved) => {}
            Err(error) => panic!("{error}"),
        }
    }
    done.store(true, Ordering::Relaxed);
    sweeping.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn many_keys_are_loaded_at_one_revision() {
    let (_cluster, store) = single().await;
    let names: Vec<String> = (0..150).map(|number| format!("{number:03}")).collect();
    let keys: Vec<_> = names.iter().map(key).collect();
    let all = |value: usize, commit: shardwright_store::CommitBuilder| {
        keys.iter().fold(commit, |commit, key| commit.put(key.clone(), value.to_string()))
    };
    let start = create("turn", "");
    let mut last = store.commit(all(0, start).build().unwrap()).await.unwrap();
    let reader = store.clone();
    let asked = keys.clone();
    let reading = tokio::spawn(async move {
        for _ in 0..40 {
            let snapshot = reader.load(&asked).await.unwrap();
            let first = snapshot.values[0].clone().unwrap();
            assert!(snapshot.values.iter().flatten().all(|found| *found == first));
            assert_eq!(snapshot.values.len(), asked.len());
            assert!(first.revision <= snapshot.revision);
        }
    });
    let mut round = 0;
    while !reading.is_finished() {
        round += 1;
        let turn = replace("turn", last, "");
        last = store.commit(all(round, turn).build().unwrap()).await.unwrap();
    }
    reading.await.unwrap();
    assert!(round > 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_small_when_its_entries_are_large() {
    let (_cluster, store) = single().await;
    for number in 0..12 {
        let value = vec![0; 1 << 20];
        store.commit(create(&format!("{number:02}"), value).build().unwrap()).await.unwrap();
    }
    let mut page = store.scan(&StoreRange::prefix(""), ScanFrom::first(1_000)).await.unwrap();
    let mut sizes = vec![page.entries.len()];
    while let Some(after) = page.next {
        let next = ScanFrom { limit: 1_000, after: Some(after) };
        page = store.scan(&StoreRange::prefix(""), next).await.unwrap();
        sizes.push(page.entries.len());
    }
    assert_eq!(sizes.iter().sum::<usize>(), 12);
    // The first part was requested before the size of entries was known.
    assert!(sizes.len() <= 4 && sizes[1..].iter().all(|size| *size <= 5), "{sizes:?}");
    let again = store.scan(&StoreRange::prefix(""), ScanFrom::first(1_000)).await.unwrap();
    assert!(again.entries.len() <= 5 && again.next.is_some(), "{}", again.entries.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fragmented_change_set_is_delivered_whole() {
    let (_cluster, store) = single().await;
    let start = store.load(&[]).await.unwrap().revision;
    // Together these are slightly less than one request and, with the overhead of each change, more
    // than one answer of a watch.
    let limits = store.limits();
    let count = limits.writes;
    let mut commit = create("first", "");
    for number in 1..count {
        commit = commit.put(key(format!("{number:06}")), vec![0; (limits.bytes - 50_000) / count]);
    }
    let mut changes = store.watch(&StoreRange::prefix(""), start).await.unwrap();
    let first = store.commit(commit.build().unwrap()).await.unwrap();
    let set = soon(changes.next()).await.unwrap();
    assert_eq!((set.revision, set.changes.len()), (first, count));
    // A watch from an earlier revision gets several of them in one fragmented answer.
    let mut last = first;
    for _ in 0..3 {
        let mut commit = replace("first", last, "");
        for number in 1..count {
            let value = vec![1; (limits.bytes - 50_000) / count];
            commit = commit.put(key(format!("{number:06}")), value);
        }
        last = store.commit(commit.build().unwrap()).await.unwrap();
    }
    let mut changes = store.watch(&StoreRange::prefix(""), start).await.unwrap();
    let mut seen = start;
    while seen < last {
        let set = soon(changes.next()).await.unwrap();
        assert_eq!(set.changes.len(), count);
        assert!(set.revision > seen);
        seen = set.revision;
    }
}
