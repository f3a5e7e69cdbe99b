//! What the tests have in common.

use std::future::Future;
use std::time::Duration;

use shardwright_store::testing::EtcdCluster;
use shardwright_store::{
    Commit, CommitBuilder, EtcdStore, Expect, Key, Revision, Store, Versioned,
};
use tokio::time::timeout;

/// How long to wait for what is sure to come.
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

/// Starts a commit that makes a key.
pub(crate) fn create(name: &str, value: impl Into<bytes::Bytes>) -> CommitBuilder {
    Commit::builder().expect(key(name), Expect::Absent).put(key(name), value)
}

/// Starts a commit that replaces what is under a key.
pub(crate) fn replace(
    name: &str,
    revision: Revision,
    value: impl Into<bytes::Bytes>,
) -> CommitBuilder {
    Commit::builder().expect(key(name), Expect::At(revision)).put(key(name), value)
}

/// What is under a key.
pub(crate) async fn get(store: &EtcdStore, name: &str) -> Option<Versioned> {
    store.load(&[key(name)]).await.unwrap().values.remove(0)
}

/// The value under a key, as text.
pub(crate) async fn text(store: &EtcdStore, name: &str) -> Option<String> {
    get(store, name).await.map(|found| String::from_utf8(found.value.to_vec()).unwrap())
}

/// What comes of something that is sure to come.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(SOON, future).await.expect("it takes too long")
}
