use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shardwright_coordination::{HolderNotice, Lease, SplitRequest};

/// The lease of a shard, as far as its holder knows, shared by what goes on beside each other.
#[derive(Debug)]
pub(super) struct LeaseCell {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    lease: Lease,
    /// On a clock that does not jump: when the work has to have stopped.
    usable_until: Duration,
    notice: HolderNotice,
}

impl LeaseCell {
    pub(super) fn new(lease: Lease, usable_until: Duration) -> Self {
        let notice = HolderNotice::default();
        Self { state: Mutex::new(State { lease, usable_until, notice }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lease(&self) -> Lease {
        self.state().lease
    }

    pub(super) fn usable_until(&self) -> Duration {
        self.state().usable_until
    }

    pub(super) fn renew(&self, lease: Lease, usable_until: Duration) {
        let mut state = self.state();
        (state.lease, state.usable_until) = (lease, usable_until);
    }

    pub(super) fn notice(&self, notice: HolderNotice) {
        self.state().notice = notice;
    }

    pub(super) fn is_paused(&self) -> bool {
        self.state().notice.paused
    }

    pub(super) fn split_request(&self) -> Option<SplitRequest> {
        self.state().notice.split_request
    }

    /// Whatever was asked has been answered.
    pub(super) fn answered(&self) {
        self.state().notice.split_request = None;
    }
}
