//! The conformance suite on the file store: for one user, and for two that share only the folder.

use std::sync::Arc;
use std::time::Duration;

use shardwright_store::conformance::{Harness, Task};
use shardwright_store::file::{FileOptions, FileStore};
use shardwright_store::{ManualClock, Revision, store_conformance_suite};
use tempfile::TempDir;

use crate::harness::{block_on, pause, run_together};

const WATCH_CAPACITY: usize = 256;

struct Folder {
    store: FileStore,
    clock: Arc<ManualClock>,
    separate: bool,
    folder: TempDir,
}

impl Folder {
    /// All clients are one user of the store.
    fn shared() -> Self {
        Self::new(false)
    }

    /// Each client opens the store itself.
    fn separate() -> Self {
        Self::new(true)
    }

    fn new(separate: bool) -> Self {
        let (folder, clock) = (TempDir::new().unwrap(), Arc::new(ManualClock::new()));
        let store = FileStore::open(folder.path(), options(&clock)).unwrap();
        Self { store, clock, separate, folder }
    }
}

fn options(clock: &Arc<ManualClock>) -> FileOptions {
    FileOptions { watch_capacity: WATCH_CAPACITY, clock: clock.clone(), ..FileOptions::default() }
}

impl Harness for Folder {
    type Store = FileStore;

    async fn client(&self) -> FileStore {
        if self.separate {
            FileStore::open(self.folder.path(), options(&self.clock)).unwrap()
        } else {
            self.store.clone()
        }
    }

    fn prefix(&self) -> Vec<u8> {
        b"scenario/".to_vec()
    }

    fn ttl(&self) -> Duration {
        Duration::from_secs(10)
    }

    async fn pass(&self, time: Duration) {
        self.clock.advance(time);
        self.store.check_sessions();
    }

    async fn compact(&self, _: Revision) -> bool {
        self.store.compact().await.unwrap();
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

mod one_user {
    use super::*;

    store_conformance_suite!(Folder::shared(), block_on);
}

mod two_users {
    use super::*;

    store_conformance_suite!(Folder::separate(), block_on);
}
