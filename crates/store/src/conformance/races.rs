//! Guarantees that hold for concurrent commits.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use super::{Harness, Space, Task};
use crate::{Commit, CommitError, Expect, Key, Store};

const TASKS: usize = 16;

/// No increment is lost through one client.
pub async fn counters_lose_no_increment<H: Harness>(harness: &H) {
    let space = Space::new(harness).await;
    count_together(&space, &[&space.store]).await;
}

/// No increment is lost through two clients.
pub async fn counters_lose_no_increment_between_clients<H: Harness>(harness: &H) {
    let space = Space::new(harness).await;
    let other = space.other_client().await;
    count_together(&space, &[&space.store, &other.store]).await;
}

async fn count_together<H: Harness>(space: &Space<'_, H>, clients: &[&Arc<H::Store>]) {
    const INCREMENTS: usize = 12;
    let tasks = (0..TASKS).map(|task| -> Task {
        let store = Arc::clone(clients[task % clients.len()]);
        // Few counters and many tasks, so most first attempts conflict.
        let key = space.key(format!("counter/{}", task % 3));
        Box::pin(async move {
            for _ in 0..INCREMENTS {
                increment(&*store, &key).await;
            }
        })
    });
    space.harness.run_together(tasks.collect()).await;
    let mut total = 0;
    for counter in 0..3 {
        let text = space.text(format!("counter/{counter}")).await.unwrap();
        total += text.parse::<usize>().unwrap();
    }
    assert_eq!(total, TASKS * INCREMENTS);
}

async fn increment(store: &impl Store, key: &Key) {
    let mut found = store.load(std::slice::from_ref(key)).await.unwrap().values.pop().unwrap();
    loop {
        let (count, expect) = match &found {
            None => (0, Expect::Absent),
            Some(found) => {
                let text = String::from_utf8(found.value.to_vec()).unwrap();
                (text.parse::<usize>().unwrap(), Expect::At(found.revision))
            }
        };
        let commit = Commit::builder().expect(key.clone(), expect);
        let commit = commit.put(key.clone(), (count + 1).to_string());
        match store.commit(commit.build().unwrap()).await {
            Ok(_) => return,
            Err(CommitError::Conflict(mut conflict)) => found = conflict.found.pop().unwrap().1,
            Err(other) => panic!("{other}"),
        }
    }
}

/// Each commit writes a key that the other expects to be absent. Judged against one state, both
/// would pass.
pub async fn exclusive_commits_never_both_pass<H: Harness>(harness: &H) {
    let space = Space::new(harness).await;
    exclude(&space, &space.store).await;
}

/// The same through two clients.
pub async fn exclusive_commits_never_both_pass_between_clients<H: Harness>(harness: &H) {
    let space = Space::new(harness).await;
    let other = space.other_client().await;
    exclude(&space, &other.store).await;
}

async fn exclude<H: Harness>(space: &Space<'_, H>, other: &Arc<H::Store>) {
    const ROUNDS: usize = 20;
    for round in 0..ROUNDS {
        let passed = Arc::new(AtomicUsize::new(0));
        let keys = [space.key(format!("{round}/x")), space.key(format!("{round}/y"))];
        let tasks = (0..TASKS).map(|task| -> Task {
            let store = Arc::clone(if task % 2 == 0 { &space.store } else { other });
            let passed = Arc::clone(&passed);
            let mine = keys[task % 2].clone();
            let theirs = keys[(task + 1) % 2].clone();
            Box::pin(async move {
                let commit = Commit::builder()
                    .expect(mine.clone(), Expect::Absent)
                    .expect(theirs, Expect::Absent)
                    .put(mine, "taken");
                match store.commit(commit.build().unwrap()).await {
                    Ok(_) => {
                        passed.fetch_add(1, Ordering::SeqCst);
                    }
                    Err(CommitError::Conflict(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            })
        });
        space.harness.run_together(tasks.collect()).await;
        assert_eq!(passed.load(Ordering::SeqCst), 1, "round {round}");
        let there = space.store.load(&keys).await.unwrap().values;
        assert_eq!(there.iter().flatten().count(), 1, "round {round}");
    }
}

/// Two keys that are always written together are always loaded together.
pub async fn load_reads_one_revision<H: Harness>(harness: &H) {
    const ROUNDS: u32 = 60;
    let space = Space::new(harness).await;
    let keys = [space.key("a"), space.key("b")];
    let mut tasks: Vec<Task> = Vec::new();
    let (store, written) = (Arc::clone(&space.store), keys.clone());
    tasks.push(Box::pin(async move {
        let mut expect = Expect::Absent;
        for round in 0..ROUNDS {
            let commit = Commit::builder()
                .expect(written[0].clone(), expect)
                .put(written[0].clone(), round.to_string())
                .put(written[1].clone(), round.to_string());
            expect = Expect::At(store.commit(commit.build().unwrap()).await.unwrap());
        }
    }));
    for _ in 0..3 {
        let (store, keys) = (Arc::clone(&space.store), keys.clone());
        tasks.push(Box::pin(async move {
            for _ in 0..ROUNDS {
                let snapshot = store.load(&keys).await.unwrap();
                assert_eq!(snapshot.values[0], snapshot.values[1]);
                let seen = snapshot.values[0].as_ref().map(|found| found.revision);
                assert!(seen.is_none_or(|seen| seen <= snapshot.revision));
            }
        }));
    }
    harness.run_together(tasks).await;
}

/// Among concurrent commits, exactly those with a failing expectation conflict, whatever keys they
/// share.
pub async fn conflict_does_not_affect_other_commits<H: Harness>(harness: &H) {
    let space = Space::new(harness).await;
    let gate = space.put("gate", "open").await;
    let shut = space.put("shut", "").await;
    let tasks = (0..60).map(|number: u32| -> Task {
        let store = Arc::clone(&space.store);
        let key = space.key(format!("{number:02}"));
        let (gate_key, shut_key) = (space.key("gate"), space.key("shut"));
        Box::pin(async move {
            // A third of them expects a wrong revision of its own key, and some expect an open
            // gate.
            let (fails, waits) = (number.is_multiple_of(3), number.is_multiple_of(5));
            let own = if fails { Expect::At(gate) } else { Expect::Absent };
            let gate = if waits { (shut_key, gate) } else { (gate_key, gate) };
            let commit =
                Commit::builder().guard(gate.0, Expect::At(gate.1)).expect(key.clone(), own);
            match store.commit(commit.put(key, "").build().unwrap()).await {
                Ok(_) => assert!(!fails && !waits, "{number}"),
                Err(CommitError::Conflict(conflict)) => {
                    assert!(fails || waits, "{number}");
                    let [(_, Some(gate)), (_, None)] = conflict.found.as_slice() else {
                        panic!("{number}: {conflict:?}");
                    };
                    assert_eq!(gate.revision == shut, waits, "{number}");
                }
                Err(error) => panic!("{error}"),
            }
        })
    });
    harness.run_together(tasks.collect()).await;
    for number in 0..60_u32 {
        let there = space.get(format!("{number:02}")).await.is_some();
        assert_eq!(there, !number.is_multiple_of(3) && !number.is_multiple_of(5), "{number}");
    }
}

/// A dropped caller does not prevent the commits of others.
pub async fn dropped_caller_does_not_block_others<H: Harness>(harness: &H) {
    let space = Space::new(harness).await;
    let tasks = (0..40).map(|number: u32| -> Task {
        let store = Arc::clone(&space.store);
        let key = space.key(format!("{number:02}"));
        Box::pin(async move {
            for round in 0..5 {
                let key = Key::from([key.as_bytes(), &[round]].concat());
                let commit = Commit::builder().expect(key.clone(), Expect::Absent).put(key, "");
                let mut waiting = Box::pin(store.commit(commit.build().unwrap()));
                if (number + u32::from(round)).is_multiple_of(3) {
                    poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context).is_ready())).await;
                } else {
                    waiting.await.unwrap();
                }
            }
        })
    });
    harness.run_together(tasks.collect()).await;
    space.put("last", "").await;
    assert!(space.get("last").await.is_some());
}
