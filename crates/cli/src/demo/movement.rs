use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use shardwright_cluster::ClusterView;
use shardwright_engine::watch;
use shardwright_placement::NodeAddress;
use tokio::task::JoinHandle;

/// Counts moves of shards from one node to another.
pub(crate) struct Movement {
    moved: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Movement {
    pub(crate) fn follow(changes: watch::Receiver<Arc<ClusterView>>) -> Self {
        let moved = Arc::new(AtomicU64::new(0));
        let task = tokio::spawn(count(changes, Arc::clone(&moved)));
        Self { moved, task }
    }

    /// The number of moves so far.
    pub(crate) fn so_far(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }
}

impl Drop for Movement {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn count(mut changes: watch::Receiver<Arc<ClusterView>>, moved: Arc<AtomicU64>) {
    let mut last: Vec<Option<NodeAddress>> = Vec::new();
    loop {
        let view = changes.borrow_and_update().clone();
        last.resize(view.map.iter().count(), None);
        for (info, last) in view.map.iter().zip(&mut last) {
            let Some(current) = info.current else { continue };
            if last.as_ref() != Some(current.address) {
                let is_move = last.replace(current.address.clone()).is_some();
                moved.fetch_add(u64::from(is_move), Ordering::Relaxed);
            }
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}
