//! The async traits as a system that the world can drive.
//!
//! Nothing in memory waits, so one look at a future is enough. The clock is a cell that every call
//! sets to the caller's time.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use shardwright_contracts::{FenceEpoch, LogicalTime, TenantId};
use shardwright_coordination::{
    Answer, Backend, Clock, CoordinationBackend, InMemoryCoordinator, Request, RunManagement,
    ShardClaiming, StateTransitionEvent, Synchronized,
};

use super::System;

#[derive(Clone, Debug, Default)]
struct CallersClock(Arc<AtomicU64>);

impl Clock for CallersClock {
    fn now(&self) -> LogicalTime {
        LogicalTime::from_millis(self.0.load(Ordering::Relaxed))
    }
}

/// A coordinator behind the async traits.
#[derive(Debug)]
pub struct Awaited {
    backend: Synchronized<InMemoryCoordinator, CallersClock>,
    clock: CallersClock,
}

impl Awaited {
    /// Puts the async traits around a coordinator.
    #[must_use]
    pub fn new(coordinator: InMemoryCoordinator) -> Self {
        let clock = CallersClock::default();
        Self { backend: Synchronized::new(coordinator, clock.clone()), clock }
    }

    /// The backend, at a caller's time.
    fn at(&self, now: LogicalTime) -> &Synchronized<InMemoryCoordinator, CallersClock> {
        self.clock.0.store(now.as_millis(), Ordering::Relaxed);
        &self.backend
    }
}

#[expect(clippy::panic, reason = "only a bug in the adapter under test can get here")]
fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("something in memory waited"),
    }
}

impl System for Awaited {
    fn take_events(&mut self) -> Vec<StateTransitionEvent> {
        self.backend.lock().map_or_else(|_| Vec::new(), |mut backend| backend.take_events())
    }

    fn raise_fence_floor(&mut self, floor: FenceEpoch) {
        if let Ok(mut backend) = self.backend.lock() {
            backend.raise_fence_floor(floor);
        }
    }
}

impl CoordinationBackend for Awaited {
    fn call(&mut self, now: LogicalTime, tenant: TenantId, request: Request<&[u8]>) -> Answer {
        ready(self.at(now).call(tenant, request))
    }
}

impl RunManagement for Awaited {}

impl ShardClaiming for Awaited {}
