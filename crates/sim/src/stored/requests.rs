//! Split requests, compared with the calls that made them.
//!
//! A request is not part of a shard, and its requester's session may delete it at any time. So the
//! history of shards does not show it. But a request that a holder is shown was made.

use shardwright_contracts::{LogicalTime, ShardId, WorkerId};
use shardwright_coordination::SplitRequest;
use shardwright_coordination::error::reason::{SplitDeclined, SplitRequestOver};
use shardwright_engine::codec::Record as _;
use shardwright_runs::keys::{StoreKey, ViewKey};
use shardwright_runs::records::SplitRequestRecord;
use shardwright_store::{Change, ChangeSet};

use super::answers::Case;
use super::call_log::{CallLog, CallRecord, CallState};
use super::record_checks::Address;
use super::steps::{EXPLAINED, is_inert};
use crate::director::AskReply;
use crate::oracle::Finding;
use crate::request::operation::{DeclineSplit, RequestSplit};
use crate::request::{Request, RequestExt};
use crate::runtime::executor::TaskId;

impl CallRecord {
    pub(super) fn request_of(&self, (tenant, run): Address) -> Option<&Request> {
        self.ask.request().filter(|_| self.ask.is_of(tenant, run))
    }

    /// For how long whoever asks for a split is ready to wait.
    pub(super) fn patience_ms(&self) -> Option<u64> {
        match self.ask.request()? {
            Request::RequestSplit(RequestSplit { patience_ms, .. }) => Some(*patience_ms),
            _ => None,
        }
    }

    /// Whether it may have been done.
    fn may_be_done(&self) -> bool {
        !matches!(&self.state, CallState::Answered(AskReply::Answer(told)) if is_inert(told))
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

impl CallLog {
    /// What may have been asked for in a run: who asked whom, and the call.
    fn splits_asked(
        &self,
        address: Address,
    ) -> impl Iterator<Item = (ShardId, WorkerId, &CallRecord)> {
        self.calls.values().filter(|call| call.may_be_done()).filter_map(move |call| {
            match call.request_of(address)? {
                Request::RequestSplit(RequestSplit { key, requester, .. }) => {
                    Some((key.shard, *requester, call))
                }
                _ => None,
            }
        })
    }

    /// Whether another may wait for the same holder, or the same for another.
    pub(super) fn was_asked_before(&self, case: &Case<'_>) -> bool {
        let Request::RequestSplit(RequestSplit { key, requester, .. }) = case.request else {
            return false;
        };
        self.splits_asked(case.address).any(|(shard, by, call)| {
            let until = call.not_after.unwrap_or(self.records.clock);
            let until = until.saturating_add(call.patience_ms().unwrap_or_default());
            (shard == key.shard) != (by == *requester) && until > case.times[0]
        })
    }

    /// Whether a holder may have been asked just that.
    pub(super) fn was_asked(&self, case: &Case<'_>, told: &SplitRequest) -> bool {
        let SplitRequest { requester, asked_at, expires_at } = *told;
        let clock = self.records.clock;
        self.splits_asked(case.address).any(|(shard, by, call)| {
            let patience_ms = call.patience_ms().unwrap_or_default();
            (Some(shard), by) == (case.request.shard_id(), requester)
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
        let Some(Request::DeclineSplit(DeclineSplit { lease, .. })) =
            call.and_then(|call| call.ask.request())
        else {
            return Ok(());
        };
        let silent = |change: &&Change| match self.records.keys.parse(&change.key) {
            Some(StoreKey::View(_, _, ViewKey::Ask(_))) => {
                !change.now.as_ref().is_some_and(|now| {
                    SplitRequestRecord::decode(&now.value)
                        .is_ok_and(|ask| ask.slot.not_before.is_some())
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
            Some(Request::DeclineSplit(DeclineSplit { lease, pause_ms })) => {
                Some(lease.key().shard) == case.request.shard_id()
                    && call.may_be_decided(*pause_ms, told.not_before, self.records.clock)
            }
            _ => false,
        };
        let declined = self.calls.values().any(|call| call.may_be_done() && is_it(call));
        declined && told.not_before > case.times[0]
    }
}
