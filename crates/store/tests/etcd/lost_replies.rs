//! The outcome of a write when the connection to etcd fails.

use std::time::Duration;

use shardwright_store::etcd::{EtcdStore, EtcdTimeouts};
use shardwright_store::testing::{EtcdCluster, Link, Proxy};
use shardwright_store::{CommitError, FaultKind, Store};

use crate::support::{create, replace, soon, text};

/// An etcd, a store that connects through a proxy, and one that connects directly.
struct Scene {
    cluster: EtcdCluster,
    proxy: Proxy,
    far: EtcdStore,
    near: EtcdStore,
}

async fn scene() -> Scene {
    let cluster = EtcdCluster::single().await.unwrap();
    let proxy = Proxy::start(cluster.address(0).unwrap()).await.unwrap();
    let options = cluster.options_through(&[proxy.address()]).timeouts(EtcdTimeouts {
        connect: Duration::from_millis(400),
        attempt: Duration::from_millis(400),
        call: Duration::from_millis(1_000),
        ..EtcdTimeouts::default()
    });
    let far = EtcdStore::connect(options).await.unwrap();
    let near = EtcdStore::connect(cluster.options()).await.unwrap();
    Scene { cluster, proxy, far, near }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_with_a_lost_answer_is_unknown_and_applied_once() {
    let Scene { cluster, proxy, far, near } = scene().await;
    let first = far.commit(create("a", "before").build().unwrap()).await.unwrap();
    proxy.set(Link::Deaf);
    let update = replace("a", first, "after").build().unwrap();
    let outcome = soon(far.commit(update.clone())).await;
    let Err(CommitError::Unknown(fault)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(fault.kind, FaultKind::TimedOut);
    assert_eq!(text(&near, "a").await.unwrap(), "after", "the commit was applied");
    proxy.set(Link::Whole);
    // The store works again. Every request in flight before has been decided by then.
    assert_eq!(text(&far, "a").await.unwrap(), "after");
    far.commit(create("b", "").build().unwrap()).await.unwrap();
    let status = cluster.operator(0).await.unwrap().status().await.unwrap();
    assert_eq!(status.revision.get(), first.get() + 2, "something was written twice");
    // If the caller sends it again, it conflicts with itself.
    let again = far.commit(update).await;
    assert!(matches!(again, Err(CommitError::Conflict(_))), "{again:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_with_a_lost_request_is_unknown_and_not_applied() {
    let Scene { cluster, proxy, far, near } = scene().await;
    let first = far.commit(create("a", "before").build().unwrap()).await.unwrap();
    proxy.set(Link::Silent);
    let outcome = soon(far.commit(replace("a", first, "after").build().unwrap())).await;
    assert!(matches!(outcome, Err(CommitError::Unknown(_))), "{outcome:?}");
    proxy.set(Link::Whole);
    far.commit(create("b", "").build().unwrap()).await.unwrap();
    assert_eq!(text(&near, "a").await.unwrap(), "before");
    let status = cluster.operator(0).await.unwrap().status().await.unwrap();
    assert_eq!(status.revision.get(), first.get() + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_makes_the_whole_batch_unknown() {
    let Scene { cluster: _cluster, proxy, far, near } = scene().await;
    far.commit(create("a", "").build().unwrap()).await.unwrap();
    proxy.set(Link::Deaf);
    let tasks: Vec<_> = (0..20)
        .map(|number| {
            let far = far.clone();
            let commit = create(&format!("b/{number}"), "").build().unwrap();
            tokio::spawn(async move { far.commit(commit).await })
        })
        .collect();
    for (number, task) in tasks.into_iter().enumerate() {
        match soon(task).await.unwrap() {
            Err(CommitError::Unknown(_)) => {}
            // Commits that waited until the connection was dropped were never sent.
            Err(CommitError::NotApplied(_)) => {
                assert!(text(&near, &format!("b/{number}")).await.is_none());
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_connection_nothing_is_applied() {
    let Scene { mut cluster, proxy: _proxy, far, near: _ } = scene().await;
    let first = far.commit(create("a", "before").build().unwrap()).await.unwrap();
    cluster.kill(0).unwrap();
    let mut outcome = soon(far.commit(replace("a", first, "after").build().unwrap())).await;
    if matches!(outcome, Err(CommitError::Unknown(_))) {
        // It was sent into the connection that was just breaking.
        outcome = soon(far.commit(replace("a", first, "after").build().unwrap())).await;
    }
    let Err(CommitError::NotApplied(fault)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(fault.kind, FaultKind::Unreachable);
    let read = soon(far.load(&[])).await;
    assert_eq!(read.unwrap_err().fault().kind, FaultKind::Unreachable);
    cluster.restart(0).await.unwrap();
    let again = replace("a", first, "again").build().unwrap();
    soon(far.commit(again)).await.unwrap();
    assert_eq!(text(&far, "a").await.unwrap(), "again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_connection_is_reopened() {
    let Scene { cluster: _cluster, proxy, far, near: _ } = scene().await;
    for round in 0..5 {
        proxy.set(Link::Cut);
        proxy.set(Link::Whole);
        let name = format!("a/{round}");
        let outcome = soon(far.commit(create(&name, "").build().unwrap())).await;
        assert!(matches!(outcome, Ok(_) | Err(CommitError::Unknown(_))), "{outcome:?}");
        soon(far.load(&[])).await.unwrap();
    }
}
