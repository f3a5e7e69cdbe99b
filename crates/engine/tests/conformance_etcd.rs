//! The run protocol over a real etcd passes the suite that every backend passes.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod support;

use shardwright_coordination::conformance_suite;
use shardwright_store::EtcdStore;
use shardwright_store::testing::EtcdCluster;
use support::{Over, block_on};

fn over_etcd() -> Over<EtcdStore, EtcdCluster> {
    block_on(async {
        let cluster = EtcdCluster::single().await.unwrap();
        let store = EtcdStore::connect(cluster.options()).await.unwrap();
        Over::new(store, cluster).await
    })
}

conformance_suite!(over_etcd(), block_on);
