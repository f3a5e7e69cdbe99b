//! The conformance suite on the store in memory.

use std::sync::Arc;
use std::time::Duration;

use shardwright_store::conformance::{Harness, Task};
use shardwright_store::memory::{MemoryOptions, MemoryStore, NoHooks};
use shardwright_store::{ManualClock, Revision, store_conformance_suite};

use crate::harness::{block_on, pause, run_together};

struct Memory {
    store: MemoryStore,
    clock: Arc<ManualClock>,
}

const WATCH_CAPACITY: usize = 256;

impl Memory {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new());
        let options = MemoryOptions { watch_capacity: WATCH_CAPACITY, ..MemoryOptions::default() };
        Self { store: MemoryStore::with_options(clock.clone(), options), clock }
    }
}

impl Harness for Memory {
    type Store = MemoryStore;

    async fn client(&self) -> MemoryStore {
        self.store.client(Arc::new(NoHooks))
    }

    fn prefix(&self) -> Vec<u8> {
        b"scenario/".to_vec()
    }

    fn ttl(&self) -> Duration {
        Duration::from_secs(10)
    }

    async fn pass(&self, time: Duration) {
        self.clock.advance(time);
        self.store.expire_sessions();
    }

    async fn compact(&self, before: Revision) -> bool {
        self.store.compact(before);
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

store_conformance_suite!(Memory::new(), block_on);
