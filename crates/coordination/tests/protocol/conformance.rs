//! The in-memory coordinator passes the suite that every backend passes.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use shardwright_contracts::{LogicalTime, TenantId};
use shardwright_coordination::conformance::{COOLDOWN_MS, Harness};
use shardwright_coordination::{
    Clock, CoordinatorRuntimeConfig, InMemoryCoordinator, StateTransitionEvent, Synchronized,
    conformance_suite,
};

#[derive(Clone, Default)]
struct ManualClock(Arc<AtomicU64>);

impl Clock for ManualClock {
    fn now(&self) -> LogicalTime {
        LogicalTime::from_millis(self.0.load(Ordering::Relaxed))
    }
}

struct InMemory {
    backend: Synchronized<InMemoryCoordinator, ManualClock>,
    clock: ManualClock,
    tenants: AtomicU64,
    untold: Mutex<Vec<StateTransitionEvent>>,
}

impl InMemory {
    fn new() -> Self {
        let clock = ManualClock::default();
        let config = CoordinatorRuntimeConfig {
            max_total_shards: 1_000,
            slab_capacity: 1 << 20,
            claim_cooldown_interval_ms: COOLDOWN_MS,
            ..CoordinatorRuntimeConfig::default()
        };
        let mut coordinator = InMemoryCoordinator::try_new(config).unwrap();
        coordinator.collect_events();
        let backend = Synchronized::new(coordinator, clock.clone());
        Self { backend, clock, tenants: AtomicU64::new(0), untold: Mutex::default() }
    }
}

impl Harness for InMemory {
    type Backend = Synchronized<InMemoryCoordinator, ManualClock>;

    fn backend(&self) -> &Self::Backend {
        &self.backend
    }

    fn fresh_tenant(&self) -> TenantId {
        let number = self.tenants.fetch_add(1, Ordering::Relaxed);
        let mut bytes = [0; TenantId::SIZE];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        TenantId::from_bytes(bytes)
    }

    async fn advance(&self, millis: u64) {
        self.clock.0.fetch_add(millis, Ordering::Relaxed);
    }

    async fn take_events(&self, tenant: TenantId) -> Vec<StateTransitionEvent> {
        let mut untold = self.untold.lock().unwrap();
        untold.extend(self.backend.lock().unwrap().take_events());
        untold.extract_if(.., |event| event.tenant == tenant).collect()
    }
}

/// Nothing in memory waits, so one poll is enough.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a scenario returned a pending future"),
    }
}

conformance_suite!(InMemory::new(), block_on);
