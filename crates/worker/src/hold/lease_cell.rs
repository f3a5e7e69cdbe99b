use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shardwright_coordination::{HolderNotice, Lease, SplitRequest};
use tokio::sync::Notify;

/// The lease of a held shard, shared by the tasks of its holder.
#[derive(Debug)]
pub(super) struct LeaseCell {
    state: Mutex<State>,
    noticed: Notify,
}

#[derive(Debug)]
struct State {
    lease: Lease,
    /// On the monotonic clock: when the work must have stopped.
    usable_until: Duration,
    notice: HolderNotice,
    /// The last answered request.
    answered: Option<SplitRequest>,
    is_ending: bool,
}

impl LeaseCell {
    pub(super) fn new(lease: Lease, usable_until: Duration) -> Self {
        let notice = HolderNotice::default();
        let state = State { lease, usable_until, notice, answered: None, is_ending: false };
        Self { state: Mutex::new(state), noticed: Notify::new() }
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

    /// Records the notice of a reply. Without one, the last notice stands.
    pub(super) fn notice(&self, notice: Option<HolderNotice>) {
        let Some(mut notice) = notice else { return };
        let is_news = {
            let mut state = self.state();
            // A renewal that was in flight while the request was answered repeats it.
            notice.split_request.take_if(|request| state.answered == Some(*request));
            std::mem::replace(&mut state.notice, notice) != notice
        };
        if is_news {
            self.noticed.notify_one();
        }
    }

    /// Waits for a new notice.
    pub(super) async fn noticed(&self) {
        self.noticed.notified().await;
    }

    pub(super) fn is_paused(&self) -> bool {
        self.state().notice.paused
    }

    pub(super) fn split_request(&self) -> Option<SplitRequest> {
        self.state().notice.split_request
    }

    /// Marks that the holder is completing, parking or releasing the shard: the store may apply
    /// that before the holder learns of it.
    pub(super) fn begin_to_end(&self) {
        self.state().is_ending = true;
    }

    pub(super) fn is_ending(&self) -> bool {
        self.state().is_ending
    }

    /// Records that the pending split request was answered.
    pub(super) fn answered(&self) {
        let mut state = self.state();
        if let Some(request) = state.notice.split_request.take() {
            state.answered = Some(request);
        }
    }
}

#[cfg(test)]
mod tests {
    use shardwright_contracts::{
        FenceEpoch, LogicalTime, RunId, ShardId, ShardKey, TenantId, WorkerId,
    };

    use super::*;

    fn held() -> LeaseCell {
        let key = ShardKey::new(RunId::from_raw(1), ShardId::from_raw(2));
        let (tenant, owner) = (TenantId::from_bytes([1; 32]), WorkerId::from_raw(3));
        let deadline = LogicalTime::from_millis(9);
        let lease = Lease::new(tenant, key, owner, FenceEpoch::INITIAL, deadline);
        LeaseCell::new(lease, Duration::from_secs(1))
    }

    fn request(requested_at: u64) -> SplitRequest {
        let at = LogicalTime::from_millis;
        SplitRequest {
            requester: WorkerId::from_raw(4),
            requested_at: at(requested_at),
            expires_at: at(50),
        }
    }

    fn notice(request: SplitRequest) -> Option<HolderNotice> {
        Some(HolderNotice { paused: false, split_request: Some(request) })
    }

    #[test]
    fn a_request_is_answered_once() {
        let cell = held();
        cell.notice(notice(request(1)));
        cell.answered();
        // As by a renewal that was in flight.
        cell.notice(notice(request(1)));
        assert_eq!(cell.split_request(), None);
        cell.notice(notice(request(2)));
        assert_eq!(cell.split_request(), Some(request(2)));
    }

    #[test]
    fn a_notice_stands_until_the_next_one() {
        let (cell, request) = (held(), request(1));
        cell.notice(Some(HolderNotice { paused: true, split_request: Some(request) }));
        // As by the reply to a retried checkpoint.
        cell.notice(None);
        assert!(cell.is_paused());
        assert_eq!(cell.split_request(), Some(request));
        cell.notice(Some(HolderNotice::default()));
        assert!(!cell.is_paused());
        assert_eq!(cell.split_request(), None);
    }
}
