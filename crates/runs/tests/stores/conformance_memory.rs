//! The run protocol on the memory store passes the conformance suite.

use std::sync::Arc;

use shardwright_coordination::conformance_suite;
use shardwright_store::ManualClock;
use shardwright_store::memory::MemoryStore;

use crate::support::{Over, block_on};

fn over_memory() -> Over<()> {
    let store = MemoryStore::new(Arc::new(ManualClock::new()));
    block_on(Over::new(store, ()))
}

conformance_suite!(over_memory(), block_on);
