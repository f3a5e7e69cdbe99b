//! An etcd that is full.

use shardwright_store::etcd::EtcdStore;
use shardwright_store::testing::EtcdSetup;
use shardwright_store::{CommitError, Fault, FaultKind, SessionError, Store};

use crate::support::{create, get, key, replace, single, text};

const QUOTA: usize = 4 << 20;

/// The known outcome of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Applied,
    NotApplied,
    Unknown,
}

fn outcome_of(outcome: Result<shardwright_store::Revision, CommitError>) -> Outcome {
    let full = |fault: &Fault| assert_eq!(fault.kind, FaultKind::Full, "{fault}");
    match outcome {
        Ok(_) => Outcome::Applied,
        Err(CommitError::NotApplied(fault)) => {
            full(&fault);
            Outcome::NotApplied
        }
        Err(CommitError::Unknown(fault)) => {
            full(&fault);
            Outcome::Unknown
        }
        Err(error) => panic!("{error}"),
    }
}

/// Many writers overwrite their keys until the server is full. A full server reports no space even
/// for commits that it has applied. The reported outcome of each must be true.
#[tokio::test(flavor = "multi_thread")]
async fn reported_outcomes_are_true_when_space_runs_out() {
    const WRITERS: usize = 24;
    let cluster = EtcdSetup::members(1).quota(QUOTA).start().await.unwrap();
    let store = EtcdStore::connect(cluster.options()).await.unwrap();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                let name = format!("{writer}");
                let mut last = store.commit(create(&name, "").build().unwrap()).await.unwrap();
                let mut counts = [0; 3];
                while counts[Outcome::NotApplied as usize] == 0 {
                    let commit = replace(&name, last, vec![0; 4_000]).build().unwrap();
                    let outcome = store.commit(commit).await;
                    let acknowledged = outcome.as_ref().ok().copied();
                    let (known, found) =
                        (outcome_of(outcome), get(&store, &name).await.unwrap().revision);
                    match known {
                        Outcome::Applied => {
                            assert_eq!(Some(found), acknowledged, "{name}: acknowledged")
                        }
                        Outcome::NotApplied => assert_eq!(found, last, "{name}: not applied"),
                        Outcome::Unknown => assert!(found >= last),
                    }
                    last = found;
                    counts[known as usize] += 1;
                }
                counts
            })
        })
        .collect();
    let mut counts = [0; 3];
    for writer in writers {
        for (sum, count) in counts.iter_mut().zip(writer.await.unwrap()) {
            *sum += count;
        }
    }
    let [applied, not_applied, _unknown] = counts;
    assert!(applied > 100 && not_applied == WRITERS, "{counts:?}");
    let operator = cluster.operator(0).await.unwrap();
    assert_eq!(operator.alarms().await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_etcd_accepts_deletions_and_recovers() {
    let (cluster, store) = single().await;
    let mut last = Vec::new();
    for number in 0..40 {
        let name = format!("{number}");
        last.push(store.commit(create(&name, vec![0; 10_000]).build().unwrap()).await.unwrap());
    }
    let operator = cluster.operator(0).await.unwrap();
    operator.raise_no_space().await.unwrap();
    // Single and batched commits, flat and in groups. A creation may have been applied and its key
    // deleted again.
    assert_eq!(
        outcome_of(store.commit(create("new", "").build().unwrap()).await),
        Outcome::Unknown
    );
    let large =
        (0..200).fold(create("large", ""), |commit, at| commit.put(key(format!("l/{at}")), ""));
    assert_eq!(outcome_of(store.commit(large.build().unwrap()).await), Outcome::Unknown);
    let update = replace("0", last[0], "new").build().unwrap();
    assert_eq!(outcome_of(store.commit(update).await), Outcome::NotApplied);
    let opened = store.open_session(std::time::Duration::from_secs(60)).await;
    let Err(SessionError::Store(error)) = opened else { panic!("{opened:?}") };
    assert_eq!(error.fault().kind, FaultKind::Full);
    // Deletions pass, even in a batch with writes that do not.
    let tasks: Vec<_> = (0..40)
        .map(|number| {
            let name = format!("{number}");
            let commit = if number % 2 == 0 {
                let expect = shardwright_store::Expect::At(last[number]);
                shardwright_store::Commit::builder().expect(key(&*name), expect).delete(key(name))
            } else {
                replace(&name, last[number], "new")
            };
            let (store, commit) = (store.clone(), commit.build().unwrap());
            tokio::spawn(async move { store.commit(commit).await })
        })
        .collect();
    for (number, task) in tasks.into_iter().enumerate() {
        let expected = if number % 2 == 0 { Outcome::Applied } else { Outcome::NotApplied };
        assert_eq!(outcome_of(task.await.unwrap()), expected, "{number}");
        assert_eq!(get(&store, &format!("{number}")).await.is_some(), number % 2 == 1);
    }
    let now = store.load(&[]).await.unwrap().revision;
    operator.compact(now).await.unwrap();
    operator.defragment().await.unwrap();
    operator.disarm().await.unwrap();
    store.commit(create("new", "room").build().unwrap()).await.unwrap();
    assert_eq!(text(&store, "new").await.unwrap(), "room");
}
