//! Requests for splits, held against what was asked before.
//!
//! A request is no part of a shard, and goes with its asker's session at any time. So the history
//! of shards does not tell of it; but whoever is told of a request is told of one that was made.

use shardwright_contracts::{LogicalTime, ShardId, WorkerId};
use shardwright_coordination::SplitRequest;
use shardwright_coordination::error::reason::{SplitDeclined, SplitRequestOver};
use shardwright_engine::codec::Record as _;
use shardwright_runs::keys::{StoreKey, ViewKey};
use shardwright_runs::records::SplitAsk;
use shardwright_store::{Change, ChangeSet};

use super::answers::Case;
use super::asks::Reply;
use super::books::Address;
use super::ledger::{CallRecord, CallState, Ledger};
use super::steps::{EXPLAINED, is_inert};
use crate::ground::executor::TaskId;
use crate::oracle::Finding;
use crate::request::{HolderAct, Request};

impl CallRecord {
    pub(super) fn request_of(&self, (tenant, run): Address) -> Option<&Request> {
        self.ask.request().filter(|_| self.ask.is_of(tenant, run))
    }

    /// For how long whoever asks for a split is ready to wait.
    pub(super) fn patience_ms(&self) -> Option<u64> {
        match self.ask.request()? {
            Request::RequestSplit { expires_at, .. } => {
                Some(expires_at.as_millis().saturating_sub(self.asked_ms))
            }
            _ => None,
        }
    }

    /// Whether it may have been done.
    fn may_be_done(&self) -> bool {
        !matches!(&self.state, CallState::Answered(Reply::Told(told)) if is_inert(told))
    }

    /// Whether it may have been decided so long before a moment.
    fn may_be_decided(&self, span_ms: u64, before: LogicalTime, clock: LogicalTime) -> bool {
        let earliest = LogicalTime::from_millis(self.not_before_ms).saturating_add(span_ms);
        let latest = self.not_after.unwrap_or(clock).saturating_add(span_ms);
        (earliest..=latest).contains(&before)
    }
}

impl Case<'_> {
    /// A request is over at once if whoever makes it has no patience, and only then.
    pub(super) fn was_over(&self, told: &SplitRequestOver) -> bool {
        let [earliest, latest] = self.times;
        self.call.patience_ms() == Some(0) && (earliest..=latest).contains(&told.expires_at)
    }
}

impl Ledger {
    /// What may have been asked for in a run: who asked whom, and the call.
    fn splits_asked(
        &self,
        address: Address,
    ) -> impl Iterator<Item = (ShardId, WorkerId, &CallRecord)> {
        self.calls.values().filter(|call| call.may_be_done()).filter_map(move |call| {
            match call.request_of(address)? {
                Request::RequestSplit { key, asker, .. } => Some((key.shard, *asker, call)),
                _ => None,
            }
        })
    }

    /// Whether another may wait for the same holder, or the same for another.
    pub(super) fn was_asked_before(&self, case: &Case<'_>) -> bool {
        let Request::RequestSplit { key, asker, .. } = case.request else { return false };
        self.splits_asked(case.address).any(|(shard, by, call)| {
            let until = call.not_after.unwrap_or(self.books.clock);
            let until = until.saturating_add(call.patience_ms().unwrap_or_default());
            (shard == key.shard) != (by == *asker) && until > case.times[0]
        })
    }

    /// Whether a holder may have been asked just that.
    pub(super) fn was_asked(&self, case: &Case<'_>, told: &SplitRequest) -> bool {
        let SplitRequest { requester: asker, asked_at, expires_at } = *told;
        let clock = self.books.clock;
        self.splits_asked(case.address).any(|(shard, by, call)| {
            let patience_ms = call.patience_ms().unwrap_or_default();
            (Some(shard), by) == (case.request.shard(), asker)
                && expires_at == asked_at.saturating_add(patience_ms)
                && call.may_be_decided(0, asked_at, clock)
        })
    }

    /// A decline leaves word for how long nobody is to ask.
    pub(super) fn check_decline(
        &self,
        set: &ChangeSet,
        task: Option<TaskId>,
    ) -> Result<(), Vec<Finding>> {
        let call = task.and_then(|task| self.calls.get(&task));
        let Some(Request::Holder { lease, act: HolderAct::Decline { .. } }) =
            call.and_then(|call| call.ask.request())
        else {
            return Ok(());
        };
        let silent = |change: &&Change| match self.books.keys.parse(&change.key) {
            Some(StoreKey::View(_, _, ViewKey::Ask(_))) => {
                !change.now.as_ref().is_some_and(|now| {
                    SplitAsk::decode(&now.value).is_ok_and(|ask| ask.slot.not_before.is_some())
                })
            }
            _ => false,
        };
        match set.changes.iter().find(silent) {
            Some(_) => {
                let shard = lease.key().shard;
                let text = format!("nobody is told that a split of {shard} was declined");
                Err(vec![Finding { oracle: EXPLAINED.name, text }])
            }
            None => Ok(()),
        }
    }

    /// Whether a holder may have declined for as long as that.
    pub(super) fn was_declined(&self, case: &Case<'_>, told: &SplitDeclined) -> bool {
        let is_it = |call: &CallRecord| match call.request_of(case.address) {
            Some(Request::Holder { lease, act: HolderAct::Decline { not_before } }) => {
                let pause_ms = not_before.as_millis().saturating_sub(call.asked_ms);
                Some(lease.key().shard) == case.request.shard()
                    && call.may_be_decided(pause_ms, told.not_before, self.books.clock)
            }
            _ => false,
        };
        let declined = self.calls.values().any(|call| call.may_be_done() && is_it(call));
        declined && told.not_before > case.times[0]
    }
}
