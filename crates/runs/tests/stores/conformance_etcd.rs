//! The run protocol on a real etcd passes the conformance suite.

use shardwright_coordination::conformance_suite;
use shardwright_store::etcd::EtcdStore;
use shardwright_store::testing::EtcdCluster;

use crate::support::{Over, block_on};

fn over_etcd() -> Over<EtcdCluster> {
    block_on(async {
        let cluster = EtcdCluster::single().await.unwrap();
        let store = EtcdStore::connect(cluster.options()).await.unwrap();
        Over::new(store, cluster).await
    })
}

conformance_suite!(over_etcd(), block_on);
