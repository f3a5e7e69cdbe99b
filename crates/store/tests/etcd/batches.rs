//! Commits that travel together, and commits that fill a request by themselves.

use std::time::Duration;

use shardwright_store::{
    Commit, CommitBuilder, CommitError, EtcdOptions, EtcdServerLimits, EtcdStore, Expect, Key,
    Store, StoreLimits,
};

use crate::support::{create, get, key, replace, single, text};

#[tokio::test(flavor = "multi_thread")]
async fn commits_that_wait_together_share_a_revision_and_each_has_its_own_answer() {
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
async fn an_ended_session_is_named_even_among_several() {
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
        // What is expected is looked at first: the session of a commit that conflicts is not.
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

/// A commit that is all that it may be: as many of the longest keys, and as many writes.
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
async fn a_commit_that_is_all_it_may_be_passes_and_conflicts_as_a_whole() {
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
            panic!("it must conflict");
        };
        assert_eq!(conflict.found.len(), limits.expectations);
        assert_eq!(conflict.found[0].1.as_ref().unwrap().revision, revision);
        assert!(conflict.found[1..].iter().all(|(_, found)| found.is_none()));
        // One byte, one expectation, one write or one byte of a key beyond.
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

/// If we believed that the server takes more than it does, it would be the server that refuses,
/// and surely without having applied anything.
#[tokio::test(flavor = "multi_thread")]
async fn the_server_itself_refuses_what_is_beyond_the_limits() {
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

/// A server that was told to take less.
#[tokio::test(flavor = "multi_thread")]
async fn smaller_servers_are_given_smaller_requests() {
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

/// The shape of a split into many: one record is replaced, and a few hundred appear.
#[tokio::test(flavor = "multi_thread")]
async fn one_record_is_replaced_by_256_groups_of_puts_at_once() {
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
