//! Helpers of the tests.

use std::future::Future;
use std::time::Duration;

use shardwright_store::etcd::EtcdStore;
use shardwright_store::testing::EtcdCluster;
use shardwright_store::{Commit, CommitBuilder, Expect, Key, Revision, Store, Versioned};
use tokio::time::timeout;

/// How long to wait for an expected event.
pub(crate) const SOON: Duration = Duration::from_secs(15);

/// An etcd of one member and a store on it.
pub(crate) async fn single() -> (EtcdCluster, EtcdStore) {
    let cluster = EtcdCluster::single().await.unwrap();
    let store = EtcdStore::connect(cluster.options()).await.unwrap();
    (cluster, store)
}

pub(crate) fn key(name: impl Into<String>) -> Key {
    Key::from(name.into())
}

/// Starts a commit that creates a key.
pub(crate) fn create(name: &str, value: impl Into<bytes::Bytes>) -> CommitBuilder {
    Commit::builder().expect(key(name), Expect::Absent).put(key(name), value)
}

/// Starts a commit that replaces the value of a key.
pub(crate) fn replace(
    name: &str,
    revision: Revision,
    value: impl Into<bytes::Bytes>,
) -> CommitBuilder {
    Commit::builder().expect(key(name), Expect::At(revision)).put(key(name), value)
}

/// The value of a key, with its revision.
pub(crate) async fn get(store: &EtcdStore, name: &str) -> Option<Versioned> {
    store.load(&[key(name)]).await.unwrap().values.remove(0)
}

/// The value of a key, as text.
pub(crate) async fn text(store: &EtcdStore, name: &str) -> Option<String> {
    get(store, name).await.map(|found| String::from_utf8(found.value.to_vec()).unwrap())
}

/// Awaits an event with a timeout.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(SOON, future).await.expect("the event takes too long")
}
