//! Facts about etcd that the store relies on, tested on a real server.

use bytes::Bytes;

use super::client::Repeat;
use super::failure::{Effect, EtcdFailure, Remedy, ServerMessage};
use super::options::EtcdServerLimits;
use super::store::{EtcdStore, Shared};
use super::wire::TxnRequest;
use crate::commit::{Commit, CommitBuilder, Expect};
use crate::error::{CommitError, FaultKind};
use crate::key::Key;
use crate::store::{SessionId, Store};
use crate::testing::EtcdCluster;

async fn single() -> (EtcdCluster, EtcdStore) {
    let cluster = EtcdCluster::single().await.unwrap();
    let store = EtcdStore::connect(cluster.options()).await.unwrap();
    (cluster, store)
}

fn key(name: impl Into<String>) -> Key {
    Key::from(name.into())
}

fn create(name: &str) -> CommitBuilder {
    Commit::builder().expect(key(name), Expect::Absent).put(key(name), "")
}

/// Sends commits in one request, even if they do not fit.
async fn send(shared: &Shared, commits: &[Commit]) -> Result<usize, EtcdFailure> {
    let commits: Vec<&Commit> = commits.iter().collect();
    let decisions = shared.decide(&commits, shared.client.timeouts().call, &|| ()).await?;
    Ok(decisions.iter().filter(|decision| matches!(decision, Some(Ok(_)))).count())
}

fn refused(result: Result<usize, EtcdFailure>) -> EtcdFailure {
    let failure = result.unwrap_err();
    assert_eq!(failure.effect, Effect::Nothing, "{failure:?}");
    failure
}

/// `count` commits that each expect and write `operations` keys.
fn alike(name: &str, count: usize, operations: usize) -> Vec<Commit> {
    let commit = |number: usize| {
        let builder = (0..operations).fold(Commit::builder(), |builder, at| {
            let key = key(format!("{name}/{number}/{at}"));
            builder.expect(key.clone(), Expect::Absent).put(key, "")
        });
        builder.build().unwrap()
    };
    (0..count).map(commit).collect()
}

#[tokio::test]
async fn operations_count_along_the_longest_nested_lists() {
    let (_cluster, store) = single().await;
    let shared = store.shared();
    // A list of groups, a list of commits in a group (at most 64), and a list of operations in a
    // commit.
    for (operations, most) in [(64, 63), (63, 64), (62, 128)] {
        let name = format!("fits/{operations}");
        assert_eq!(send(shared, &alike(&name, most, operations)).await.unwrap(), most);
        let name = format!("beyond/{operations}");
        let failure = refused(send(shared, &alike(&name, most + 1, operations)).await);
        assert!(failure.fault.message().contains("too many operations"), "{}", failure.fault);
    }
    // So many small commits fit.
    assert_eq!(send(shared, &alike("many", 426, 3)).await.unwrap(), 426);
    // A single commit without a surrounding transaction.
    assert_eq!(send(shared, &alike("alone", 1, 128)).await.unwrap(), 1);
    let server = EtcdServerLimits::default();
    let limits = store.limits();
    assert_eq!(limits.expectations + 13 + 1, server.operations);
}

/// One expectation or one write beyond the limits, in a commit that is otherwise full.
#[tokio::test]
async fn one_operation_beyond_the_limits_is_refused() {
    let (_cluster, store) = single().await;
    let shared = store.shared();
    let limits = store.limits();
    let commit = |name: &str, expectations: usize, writes: usize| {
        let builder = (1..expectations).fold(create(name), |builder, at| {
            builder.expect(key(format!("{name}/absent/{at}")), Expect::Absent)
        });
        let builder =
            (1..writes).fold(builder, |builder, at| builder.put(key(format!("{name}/{at}")), ""));
        builder.build().unwrap()
    };
    let (expectations, writes) = (limits.expectations, limits.writes);
    assert_eq!(send(shared, &[commit("fits", expectations, writes)]).await.unwrap(), 1);
    for (expectations, writes) in [(expectations + 1, writes), (expectations, writes + 1)] {
        let failure = refused(send(shared, &[commit("beyond", expectations, writes)]).await);
        assert!(failure.fault.message().contains("too many operations"), "{}", failure.fault);
    }
}

/// This is why the batcher separates commits that expect a key that another one writes.
#[tokio::test]
async fn commits_of_a_request_are_judged_by_the_state_before_it() {
    let (_cluster, store) = single().await;
    let excludes = |mine: &str, theirs: &str| {
        create(mine).expect(key(theirs), Expect::Absent).build().unwrap()
    };
    let both = [excludes("a", "b"), excludes("b", "a")];
    assert_eq!(send(store.shared(), &both).await.unwrap(), 2, "both were applied");
    // Writing a key twice is refused as well.
    let twice = [create("c").build().unwrap(), create("c").build().unwrap()];
    let failure = refused(send(store.shared(), &twice).await);
    assert!(failure.fault.message().contains("duplicate key"), "{}", failure.fault);
    // Through the store, one of two exclusive commits conflicts.
    let (one, other) =
        tokio::join!(store.commit(excludes("x", "y")), store.commit(excludes("y", "x")),);
    let conflict =
        |result: &Result<_, CommitError>| matches!(result, Err(CommitError::Conflict(_)));
    assert!(one.is_ok() != other.is_ok() && (conflict(&one) || conflict(&other)));
}

#[tokio::test]
async fn an_ended_lease_fails_the_whole_request() {
    let (_cluster, store) = single().await;
    let bound = Commit::builder().expect(key("b"), Expect::Absent);
    let bound = bound.put_in_session(key("b"), "", SessionId::new(7)).build().unwrap();
    let failure = refused(send(store.shared(), &[create("a").build().unwrap(), bound]).await);
    assert_eq!(failure.message, Some(ServerMessage::LeaseNotFound));
    assert_eq!(failure.remedy, Remedy::Apart);
    let found = store.load(&[key("a"), key("b")]).await.unwrap().values;
    assert_eq!(found, [None, None]);
}

/// This is why every request with a put has a price.
#[tokio::test]
async fn the_quota_ignores_puts_in_nested_transactions() {
    let (cluster, store) = single().await;
    cluster.operator(0).await.unwrap().raise_no_space().await.unwrap();
    let shared = store.shared();
    let free = |commits: &[&Commit]| TxnRequest {
        failure: Vec::new(),
        ..shared.composer.request(commits)
    };
    let (one, other) = (create("a").build().unwrap(), create("b").build().unwrap());
    let request = free(&[&one, &other]);
    let time = shared.client.timeouts().call;
    let sent = shared.transact("a test", Repeat::IfNotApplied, time, &|| (), || request.clone());
    sent.await.unwrap();
    assert!(store.load(&[key("a")]).await.unwrap().values[0].is_some(), "the quota was ignored");
    let both = [create("c").build().unwrap(), create("d").build().unwrap()];
    let failure = send(shared, &both).await.unwrap_err();
    assert_eq!((failure.effect, failure.fault.kind), (Effect::Settled, FaultKind::Full));
    let found = store.load(&[key("c"), key("d")]).await.unwrap().values;
    assert_eq!(found, [None, None]);
}

#[tokio::test]
async fn the_request_size_limit_is_where_expected() {
    let (_cluster, store) = single().await;
    let shared = store.shared();
    let server = EtcdServerLimits::default();
    let commit = |name: &str, bytes: usize| {
        let value = Bytes::from(vec![0; bytes]);
        Commit::builder().expect(key(name), Expect::Absent).put(key(name), value).build().unwrap()
    };
    assert_eq!(send(shared, &[commit("fits", server.bytes - 200)]).await.unwrap(), 1);
    let failure = refused(send(shared, &[commit("beyond", server.bytes)]).await);
    assert!(failure.fault.message().contains("request is too large"), "{}", failure.fault);
    let failure = refused(send(shared, &[commit("far beyond", 2 * server.bytes)]).await);
    assert!(failure.fault.message().contains("larger than max"), "{}", failure.fault);
}
