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

    /// Takes what the holder was told with an answer. If that was nothing, what it heard before
    /// still stands.
    pub(super) fn notice(&self, notice: Option<HolderNotice>) {
        if let Some(notice) = notice {
            self.state().notice = notice;
        }
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

#[cfg(test)]
mod tests {
    use shardwright_contracts::{
        FenceEpoch, LogicalTime, RunId, ShardId, ShardKey, TenantId, WorkerId,
    };

    use super::*;

    #[test]
    fn what_a_holder_heard_stands_until_it_is_told_otherwise() {
        let key = ShardKey::new(RunId::from_raw(1), ShardId::from_raw(2));
        let (owner, at) = (WorkerId::from_raw(3), LogicalTime::from_millis);
        let lease =
            Lease::new(TenantId::from_bytes([1; 32]), key, owner, FenceEpoch::INITIAL, at(9));
        let cell = LeaseCell::new(lease, Duration::from_secs(1));
        let request =
            SplitRequest { asker: WorkerId::from_raw(4), asked_at: at(1), expires_at: at(5) };
        cell.notice(Some(HolderNotice { paused: true, split_request: Some(request) }));
        // As with the answer to a checkpoint that was sent again.
        cell.notice(None);
        assert!(cell.is_paused());
        assert_eq!(cell.split_request(), Some(request));
        cell.notice(Some(HolderNotice::default()));
        assert!(!cell.is_paused());
        assert_eq!(cell.split_request(), None);
    }
}
