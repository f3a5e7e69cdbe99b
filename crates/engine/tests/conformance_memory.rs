//! The run protocol over the store in memory passes the suite that every backend passes.

mod support;

use shardwright_contracts::TenantId;
use shardwright_coordination::conformance::Harness;
use shardwright_coordination::conformance_suite;
use support::{InMemory, ManualClock, Tenants, block_on};

struct OverMemory {
    backend: InMemory,
    clock: ManualClock,
    tenants: Tenants,
}

impl OverMemory {
    fn new() -> Self {
        let clock = ManualClock::default();
        let backend = block_on(support::in_memory(&clock, support::exact()));
        Self { backend, clock, tenants: Tenants::default() }
    }
}

impl Harness for OverMemory {
    type Backend = InMemory;

    fn backend(&self) -> &Self::Backend {
        &self.backend
    }

    fn fresh_tenant(&self) -> TenantId {
        self.tenants.fresh()
    }

    async fn advance(&self, millis: u64) {
        self.clock.advance(millis);
    }
}

conformance_suite!(OverMemory::new(), block_on);
