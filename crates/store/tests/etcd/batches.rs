//! Commits that share a request, and commits that fill a request.

use std::time::Duration;

use shardwright_store::etcd::{EtcdOptions, EtcdServerLimits, EtcdStore};
use shardwright_store::{Commit, CommitBuilder, CommitError, Expect, Key, Store, StoreLimits};

use crate::support::{create, get, key, replace, single, text};

#[tokio::test(flavor = "multi_thread")]
async fn waiting_commits_share_a_request_and_get_their_own_answers() {
    let (_cluster, store) = single().await;
    let start = store.commit(create("taken", "").build().unwrap()).await.unwrap();
    let tasks: Vec<_> = (0..400)
        .map(|number| {
            let store = store.clone();
            let name = if number % 4 == 0 { "taken".to_owned() } else { format!("{number}") };
            let commit = create(&name, "").put(key(format!("own/{number}")), "").build().unwrap();
            tokio::spawn(async move { store.commit(commit).await })
        })
        .collect();
    let mut revisions = Vec::new();
    for (number, task) in tasks.into_iter().enumerate() {
        match task.await.unwrap() {
            Ok(revision) => {
                assert_ne!(number % 4, 0);
                let own = get(&store, &format!("own/{number}")).await.unwrap();
                assert_eq!(own.revision, revision);
                revisions.push(revision);
            }
            Err(CommitError::Conflict(conflict)) => {
                assert_eq!(number % 4, 0);
                assert_eq!(conflict.found[0].0, key("taken"));
                assert_eq!(conflict.found[0].1.as_ref().unwrap().revision, start);
                assert!(get(&store, &format!("own/{number}")).await.is_none());
            }
            Err(error) => panic!("{error}"),
        }
    }
    revisions.sort();
    revisions.dedup();
    assert!(revisions.len() < 150, "{} requests for 300 commits", revisions.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ended_session_is_named_among_several() {
    let (_cluster, store) = single().await;
    let mut sessions = Vec::new();
    for _ in 0..3 {
        sessions.push(store.open_session(Duration::from_secs(60)).await.unwrap().id);
    }
    for ended in sessions.clone() {
        store.close_session(ended).await.unwrap();
        let commit = sessions.iter().enumerate().fold(create("a", ""), |commit, (at, session)| {
            commit.put_in_session(key(format!("bound/{at}")), "", *session)
        });
        let refused = store.commit(commit.build().unwrap()).await;
        assert!(matches!(refused, Err(CommitError::SessionGone(id)) if id == ended), "{refused:?}");
        // Expectations are checked first: a conflict hides the ended session.
        let conflicts = Commit::builder().guard(key("missing"), Expect::At(1.into_revision()));
        let conflicts = conflicts.put_in_session(key("b"), "", ended).build().unwrap();
        assert!(matches!(store.commit(conflicts).await, Err(CommitError::Conflict(_))));
        let fresh = store.open_session(Duration::from_secs(60)).await.unwrap().id;
        let at = sessions.iter().position(|session| *session == ended).unwrap();
        sessions[at] = fresh;
    }
    assert!(get(&store, "a").await.is_none());
}

trait IntoRevision {
    fn into_revision(self) -> shardwright_store::Revision;
}

impl IntoRevision for u64 {
    fn into_revision(self) -> shardwright_store::Revision {
        shardwright_store::Revision::new(self)
    }
}

/// The largest commit: as many keys of maximum length, and as many writes.
fn heaviest(name: &str, limits: &StoreLimits, expect: impl Fn(usize) -> Expect) -> CommitBuilder {
    let width = limits.key_bytes - name.len() - 1;
    let long = |number: usize| Key::from(format!("{name}/{number:0width$}"));
    let mut left = limits.bytes;
    let mut commit = Commit::builder();
    for number in 0..limits.expectations {
        commit = commit.expect(long(number), expect(number));
        left -= limits.key_bytes;
    }
    for number in 1..limits.writes {
        let short = Key::from(format!("{name}/{number}"));
        left -= short.as_bytes().len();
        commit = commit.put(short, "");
    }
    commit.put(long(0), vec![7; left - limits.key_bytes])
}

#[tokio::test(flavor = "multi_thread")]
async fn the_largest_commit_passes_and_conflicts_as_a_whole() {
    let (cluster, _) = single().await;
    for namespace in ["n", "a-namespace-that-is-as-long-as-they-may-be----------------------/"] {
        let namespace = &namespace[..namespace.len().min(64)];
        let store = EtcdStore::connect(cluster.options().namespace(namespace)).await.unwrap();
        let limits = store.limits();
        let commit = heaviest("a", &limits, |_| Expect::Absent).build().unwrap();
        assert_eq!(commit.bytes(), limits.bytes);
        let revision = store.commit(commit.clone()).await.unwrap();
        let last = get(&store, &format!("a/{}", limits.writes - 1)).await.unwrap();
        assert_eq!(last.revision, revision);
        let Err(CommitError::Conflict(conflict)) = store.commit(commit).await else {
            panic!("the commit must conflict");
        };
        assert_eq!(conflict.found.len(), limits.expectations);
        assert_eq!(conflict.found[0].1.as_ref().unwrap().revision, revision);
        assert!(conflict.found[1..].iter().all(|(_, found)| found.is_none()));
        // One byte, one expectation, one write or one byte of a key beyond the limits.
        let beyond = [
            StoreLimits { bytes: limits.bytes + 1, ..limits },
            StoreLimits { expectations: limits.expectations + 1, ..limits },
            StoreLimits { writes: limits.writes + 1, ..limits },
            StoreLimits { key_bytes: limits.key_bytes + 1, ..limits },
        ];
        for beyond in beyond {
            let commit = heaviest("b", &beyond, |_| Expect::Absent).build().unwrap();
            let refused = store.commit(commit).await;
            assert!(matches!(refused, Err(CommitError::TooLarge(_))), "{beyond:?}: {refused:?}");
        }
        assert!(get(&store, "b/1").await.is_none());
    }
}

/// If the client assumed higher limits, the server itself would refuse, without applying anything.
#[tokio::test(flavor = "multi_thread")]
async fn the_server_refuses_requests_beyond_its_limits() {
    let (cluster, honest) = single().await;
    let connect = async |limits: EtcdServerLimits| {
        let options: EtcdOptions = cluster.options().server_limits(limits);
        EtcdStore::connect(options).await.unwrap()
    };
    let server = EtcdServerLimits::default();
    let wide = connect(EtcdServerLimits { bytes: server.bytes + 64_000, ..server }).await;
    let commit = heaviest("a", &wide.limits(), |_| Expect::Absent).build().unwrap();
    let refused = wide.commit(commit).await;
    assert!(matches!(refused, Err(CommitError::NotApplied(_))), "{refused:?}");
    let huge = connect(EtcdServerLimits { bytes: server.bytes * 2, ..server }).await;
    let value = vec![0; 2_200_000];
    let refused = huge.commit(create("b", value).build().unwrap()).await;
    assert!(matches!(refused, Err(CommitError::NotApplied(_))), "{refused:?}");
    assert!(get(&honest, "a/1").await.is_none() && get(&honest, "b").await.is_none());
}

/// A server with lower limits.
#[tokio::test(flavor = "multi_thread")]
async fn requests_fit_the_limits_of_smaller_servers() {
    let setup = shardwright_store::testing::EtcdSetup::members(1)
        .argument("--max-txn-ops=32")
        .argument("--max-request-bytes=524288");
    let cluster = setup.start().await.unwrap();
    let store = EtcdStore::connect(cluster.options().server_limits(EtcdServerLimits::LEAST));
    let store = store.await.unwrap();
    let limits = store.limits();
    assert_eq!((limits.expectations, limits.writes), (18, 18 * 13));
    let commit = heaviest("a", &limits, |_| Expect::Absent).build().unwrap();
    store.commit(commit).await.unwrap();
    let keys: Vec<Key> = (0..100).map(|number| key(format!("{number}"))).collect();
    assert_eq!(store.load(&keys).await.unwrap().values.len(), 100);
    let tasks: Vec<_> = (0..200)
        .map(|number| {
            let store = store.clone();
            let commit = create(&format!("b/{number}"), "").build().unwrap();
            tokio::spawn(async move { store.commit(commit).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
}

/// The shape of a large split: one record is replaced, and a few hundred are created.
#[tokio::test(flavor = "multi_thread")]
async fn one_commit_replaces_a_record_by_256_groups_of_puts() {
    let (_cluster, store) = single().await;
    let parent = store.commit(create("parent", "whole").build().unwrap()).await.unwrap();
    let gate = store.commit(create("gate", "open").build().unwrap()).await.unwrap();
    let split = |parent| {
        let commit = replace("parent", parent, "split").expect(key("gate"), Expect::At(gate));
        (0..256).fold(commit.delete(key("open/parent")), |commit, child| {
            commit
                .put(key(format!("definition/{child}")), vec![1; 4_000])
                .put(key(format!("progress/{child}")), vec![2; 400])
                .put(key(format!("open/{child}")), "")
        })
    };
    let revision = store.commit(split(parent).build().unwrap()).await.unwrap();
    assert_eq!(text(&store, "parent").await.unwrap(), "split");
    for child in [0, 128, 255] {
        for kind in ["definition", "progress", "open"] {
            let found = get(&store, &format!("{kind}/{child}")).await.unwrap();
            assert_eq!(found.revision, revision);
        }
    }
    let again = store.commit(split(parent).build().unwrap()).await;
    let Err(CommitError::Conflict(conflict)) = again else { panic!("{again:?}") };
    assert_eq!(conflict.found[0].1.as_ref().unwrap().revision, revision);
    assert_eq!(conflict.found[1].1.as_ref().unwrap().revision, gate);
}
