//! The conformance suite on etcd.

use std::time::Duration;

use shardwright_store::conformance::{Harness, Task};
use shardwright_store::etcd::EtcdStore;
use shardwright_store::testing::EtcdCluster;
use shardwright_store::{Revision, store_conformance_suite};
use tokio::sync::OnceCell;

use crate::harness::{block_on, pause, run_together};

/// An etcd that starts on first use.
#[derive(Default)]
struct Etcd(OnceCell<EtcdCluster>);

const WATCH_CAPACITY: usize = 256;

impl Etcd {
    async fn cluster(&self) -> &EtcdCluster {
        self.0.get_or_init(async || EtcdCluster::single().await.unwrap()).await
    }
}

impl Harness for Etcd {
    type Store = EtcdStore;

    async fn client(&self) -> EtcdStore {
        let options = self.cluster().await.options().watch_capacity(WATCH_CAPACITY);
        EtcdStore::connect(options).await.unwrap()
    }

    fn prefix(&self) -> Vec<u8> {
        b"scenario/".to_vec()
    }

    fn ttl(&self) -> Duration {
        Duration::from_secs(2)
    }

    async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    async fn compact(&self, before: Revision) -> bool {
        let operator = self.cluster().await.operator(0).await.unwrap();
        operator.compact(before).await.unwrap();
        true
    }

    fn watch_capacity(&self) -> usize {
        WATCH_CAPACITY
    }

    async fn pause(&self) {
        pause().await;
    }

    async fn run_together(&self, tasks: Vec<Task>) {
        run_together(tasks).await;
    }
}

store_conformance_suite!(Etcd::default(), block_on);
