//! Three members, some of which are killed or paused.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use shardwright_store::etcd::{EtcdStore, EtcdTimeouts};
use shardwright_store::testing::{EtcdCluster, EtcdSetup, Link};
use shardwright_store::{CommitError, Expect, FaultKind, Store, StoreRange};
use tokio::time::{Instant, sleep};

use crate::support::{create, key, replace, soon, text};

const TIMEOUTS: EtcdTimeouts = EtcdTimeouts {
    connect: Duration::from_millis(500),
    attempt: Duration::from_millis(500),
    call: Duration::from_millis(2_500),
    silence: Duration::from_millis(300),
    ping: Duration::from_secs(6),
};

/// A store that connects to these members, first to the first one.
async fn through(cluster: &EtcdCluster, members: &[usize]) -> EtcdStore {
    let addresses: Vec<_> =
        members.iter().map(|member| cluster.address(*member).unwrap()).collect();
    let options = cluster.options_through(&addresses).timeouts(TIMEOUTS);
    EtcdStore::connect(options).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_member_is_replaced_by_the_next() {
    let cluster = EtcdCluster::three().await.unwrap();
    let leader = cluster.leader().await.unwrap();
    let (still, other) = ((leader + 1) % 3, (leader + 2) % 3);
    let store = through(&cluster, &[still, leader, other]).await;
    let first = store.commit(create("a", "0").build().unwrap()).await.unwrap();
    let mut changes = store.watch(&StoreRange::prefix(""), first).await.unwrap();
    let session = store.open_session(Duration::from_secs(30)).await.unwrap();
    store.keep_alive(session.id).await.unwrap();
    cluster.pause(still).unwrap();
    let start = Instant::now();
    assert_eq!(text(&store, "a").await.unwrap(), "0");
    assert!(start.elapsed() < TIMEOUTS.call, "{:?}", start.elapsed());
    soon(store.keep_alive(session.id)).await.unwrap();
    let second = store.commit(replace("a", first, "1").build().unwrap()).await.unwrap();
    assert_eq!(soon(changes.next()).await.unwrap().revision, second);
    cluster.resume(still).unwrap();
    assert_eq!(text(&store, "a").await.unwrap(), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_to_a_paused_member_is_applied_at_most_once() {
    let cluster = EtcdCluster::three().await.unwrap();
    let leader = cluster.leader().await.unwrap();
    let still = (leader + 1) % 3;
    let store = through(&cluster, &[still, leader]).await;
    let first = store.commit(create("a", "0").build().unwrap()).await.unwrap();
    cluster.pause(still).unwrap();
    let late = replace("a", first, "late").build().unwrap();
    let outcome = soon(store.commit(late)).await;
    assert!(matches!(outcome, Err(CommitError::Unknown(_))), "{outcome:?}");
    // The next commit that is answered decides. If the late one is not applied by then, it
    // conflicts whenever it arrives. A loaded machine may leave further commits unanswered.
    let (revision, value) = soon(async {
        loop {
            match store.commit(replace("a", first, "decided").build().unwrap()).await {
                Ok(revision) => break (revision, "decided".into()),
                Err(CommitError::Conflict(conflict)) => {
                    let found = conflict.found[0].1.clone().unwrap();
                    break (found.revision, found.value);
                }
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
        }
    })
    .await;
    assert!(revision > first, "{revision:?} does not follow {first:?}");
    assert!(value == "late" || value == "decided", "{value:?}");
    cluster.resume(still).unwrap();
    // A read through that member is ordered after its earlier requests. The member may need a
    // moment to catch up.
    let found = soon(async {
        loop {
            let address = cluster.address(still).unwrap();
            let options = cluster.options_through(&[address]).timeouts(TIMEOUTS);
            let Ok(behind) = EtcdStore::connect(options).await else { continue };
            match behind.load(&[key("a")]).await {
                Ok(found) => break found.values[0].clone().unwrap(),
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
        }
    })
    .await;
    assert_eq!((found.revision, found.value), (revision, value));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_isolated_leader_serves_nothing_and_the_others_continue() {
    let cluster = EtcdSetup::members(3).linked().start().await.unwrap();
    let leader = cluster.leader().await.unwrap();
    let alone = through(&cluster, &[leader]).await;
    let rest = through(&cluster, &[(leader + 1) % 3, (leader + 2) % 3]).await;
    let first = rest.commit(create("a", "0").build().unwrap()).await.unwrap();
    cluster.link(leader, Link::Cut).unwrap();
    let lost = soon(alone.commit(replace("a", first, "lost").build().unwrap())).await;
    assert!(matches!(lost, Err(CommitError::Unknown(_) | CommitError::NotApplied(_))), "{lost:?}");
    // Until the others have elected a leader, they serve nothing either.
    soon(async {
        loop {
            match rest.commit(replace("a", first, "1").build().unwrap()).await {
                Ok(_) | Err(CommitError::Conflict(_)) => break,
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
        }
    })
    .await;
    assert_eq!(text(&rest, "a").await.unwrap(), "1");
    assert!(alone.load(&[key("a")]).await.is_err(), "an isolated member answers");
    cluster.link(leader, Link::Whole).unwrap();
    let healed = soon(async {
        loop {
            match alone.load(&[key("a")]).await {
                Ok(found) => break found.values[0].clone().unwrap(),
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
        }
    });
    assert_eq!(healed.await.value, "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_acknowledged_without_a_majority() {
    let mut cluster = EtcdCluster::three().await.unwrap();
    let store = through(&cluster, &[0, 1, 2]).await;
    let first = store.commit(create("a", "0").build().unwrap()).await.unwrap();
    let mut changes = store.watch(&StoreRange::prefix(""), first).await.unwrap();
    cluster.kill(1).unwrap();
    cluster.kill(2).unwrap();
    let start = Instant::now();
    let outcome = soon(store.commit(replace("a", first, "1").build().unwrap())).await;
    assert!(
        matches!(outcome, Err(CommitError::Unknown(_) | CommitError::NotApplied(_))),
        "{outcome:?}"
    );
    let error = soon(store.load(&[key("a")])).await.unwrap_err();
    let kind = error.fault().kind;
    assert!(matches!(kind, FaultKind::Unreachable | FaultKind::TimedOut), "{error}");
    assert!(start.elapsed() < TIMEOUTS.call * 3, "{:?}", start.elapsed());
    cluster.restart(1).await.unwrap();
    let now = soon(async {
        loop {
            if let Ok(snapshot) = store.load(&[key("a")]).await {
                break snapshot.values[0].clone().unwrap();
            }
        }
    });
    let now = now.await;
    let decided = match soon(store.commit(replace("a", now.revision, "2").build().unwrap())).await {
        Ok(revision) => revision,
        // The commit with unknown outcome was applied.
        Err(CommitError::Conflict(conflict)) => conflict.found[0].1.as_ref().unwrap().revision,
        Err(error) => panic!("{error}"),
    };
    loop {
        let set = soon(changes.next()).await.unwrap();
        assert!(set.revision > first && set.revision <= decided);
        if set.revision == decided {
            break;
        }
    }
}

/// Increments a key of its own. After an unknown outcome, it reads the count.
async fn count_up(store: EtcdStore, name: String, stop: Arc<AtomicBool>) -> (usize, usize) {
    let (mut count, mut unknown, mut expect) = (0_usize, 0, Expect::Absent);
    while !stop.load(Ordering::Relaxed) {
        let commit = shardwright_store::Commit::builder().expect(key(&*name), expect);
        let commit = commit.put(key(&*name), (count + 1).to_string()).build().unwrap();
        match store.commit(commit).await {
            Ok(revision) => {
                count += 1;
                expect = Expect::At(revision);
            }
            Err(CommitError::NotApplied(_)) => {}
            Err(CommitError::Unknown(_)) => {
                unknown += 1;
                // A write of only this key, which settles the outcome: a late commit then
                // conflicts.
                (count, expect) = settle(&store, &name, count, expect).await;
            }
            Err(error) => panic!("{name} at {count}: {error}"),
        }
    }
    (count, unknown)
}

/// Determines whether the count has gone up once, and prevents a late increment.
async fn settle(store: &EtcdStore, name: &str, count: usize, before: Expect) -> (usize, Expect) {
    loop {
        let commit = shardwright_store::Commit::builder().expect(key(name), before);
        let commit = commit.put(key(name), count.to_string()).build().unwrap();
        match store.commit(commit).await {
            // It was not applied, and can no longer be.
            Ok(revision) => return (count, Expect::At(revision)),
            Err(CommitError::Conflict(mut conflict)) => {
                let found = conflict.found.remove(0).1.unwrap();
                let value = String::from_utf8(found.value.to_vec()).unwrap();
                let value: usize = value.parse().unwrap();
                // It was applied, or an earlier settling write was.
                assert!(value == count || value == count + 1, "{name}: {value} after {count}");
                return (value, Expect::At(found.revision));
            }
            Err(CommitError::NotApplied(_) | CommitError::Unknown(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Watches all keys, and counts the changes.
async fn follow(store: EtcdStore, writers: usize, seen: Arc<AtomicUsize>) {
    let start = store.load(&[]).await.unwrap().revision;
    let mut changes = store.watch(&StoreRange::prefix("count/"), start).await.unwrap();
    let mut last = vec![0; writers];
    let mut revision = start;
    loop {
        let set = changes.next().await.unwrap();
        assert!(set.revision > revision, "the revision goes back");
        revision = set.revision;
        for change in set.changes {
            let name = String::from_utf8(change.key.as_bytes().to_vec()).unwrap();
            let writer: usize = name.strip_prefix("count/").unwrap().parse().unwrap();
            let value = String::from_utf8(change.now.unwrap().value.to_vec()).unwrap();
            let value: usize = value.parse().unwrap();
            // Settling writes the same count again.
            assert!(value == last[writer] || value == last[writer] + 1, "{name}: {value}");
            last[writer] = value;
            seen.store(last.iter().sum(), Ordering::Relaxed);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn counters_survive_killed_and_paused_members() {
    const WRITERS: usize = 12;
    let mut cluster = EtcdCluster::three().await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let seen = Arc::new(AtomicUsize::new(0));
    let follower = through(&cluster, &[2, 0, 1]).await;
    let following = tokio::spawn(follow(follower, WRITERS, Arc::clone(&seen)));
    let stores = [through(&cluster, &[0, 1, 2]).await, through(&cluster, &[1, 2, 0]).await];
    let counting: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let store = stores[writer % 2].clone();
            tokio::spawn(count_up(store, format!("count/{writer}"), Arc::clone(&stop)))
        })
        .collect();
    let progress = async |by: usize| {
        let goal = seen.load(Ordering::Relaxed) + by;
        let waiting = async {
            while seen.load(Ordering::Relaxed) < goal {
                sleep(Duration::from_millis(5)).await;
            }
        };
        soon(waiting).await;
    };
    progress(200).await;
    let leader = cluster.leader().await.unwrap();
    cluster.kill(leader).unwrap();
    progress(200).await;
    cluster.restart(leader).await.unwrap();
    let leader = cluster.leader().await.unwrap();
    cluster.pause(leader).unwrap();
    progress(200).await;
    cluster.resume(leader).unwrap();
    let next = (cluster.leader().await.unwrap() + 1) % 3;
    cluster.kill(next).unwrap();
    progress(200).await;
    cluster.restart(next).await.unwrap();
    progress(200).await;
    stop.store(true, Ordering::Relaxed);
    let mut unknown = 0;
    let mut total = 0;
    for (writer, task) in counting.into_iter().enumerate() {
        let (count, doubts) = soon(task).await.unwrap();
        let found = text(&stores[0], &format!("count/{writer}")).await.unwrap();
        assert_eq!(found, count.to_string(), "writer {writer}, {doubts} times unknown");
        unknown += doubts;
        total += count;
    }
    assert!(total >= 1_000 && unknown > 0, "{total} counted, {unknown} times unknown");
    soon(async {
        while seen.load(Ordering::Relaxed) < total {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert!(!following.is_finished());
    following.abort();
}
