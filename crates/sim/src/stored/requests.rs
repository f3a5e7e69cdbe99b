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
use crate::director::CallReply;
use crate::oracle::Finding;
use crate::request::operation::{DeclineSplit, RequestSplit};
use crate::request::{Request, RequestExt};
use crate::runtime::executor::TaskId;

impl CallRecord {
    pub(super) fn request_of(&self, (tenant, run): Address) -> Option<&Request> {
        self.sent.request().filter(|_| self.sent.is_of(tenant, run))
    }

    /// How long the requester of a split waits.
    pub(super) fn patience_ms(&self) -> Option<u64> {
        match self.sent.request()? {
            Request::RequestSplit(RequestSplit { patience_ms, .. }) => Some(*patience_ms),
            _ => None,
        }
    }

    /// Whether it may have taken effect.
    fn may_be_done(&self) -> bool {
        !matches!(&self.state, CallState::Answered(CallReply::Answer(answer)) if is_inert(answer))
    }

    /// Whether it may have been decided `span_ms` before a moment.
    fn may_be_decided(&self, span_ms: u64, before: LogicalTime, clock: LogicalTime) -> bool {
        let earliest = LogicalTime::from_millis(self.not_before_ms).saturating_add(span_ms);
        let latest = self.not_after.unwrap_or(clock).saturating_add(span_ms);
        (earliest..=latest).contains(&before)
    }
}

impl Case<'_> {
    /// A request expires at once only if its wait is zero.
    pub(super) fn was_over(&self, reason: &SplitRequestOver) -> bool {
        let [earliest, latest] = self.times;
        self.call.patience_ms() == Some(0) && (earliest..=latest).contains(&reason.expires_at)
    }
}

impl CallLog {
    /// The split requests of a run that may have taken effect: shard, requester and call.
    fn split_requests(
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

    /// Whether another requester may wait for the same holder, or this one for another holder.
    pub(super) fn is_request_open(&self, case: &Case<'_>) -> bool {
        let Request::RequestSplit(RequestSplit { key, requester, .. }) = case.request else {
            return false;
        };
        self.split_requests(case.address).any(|(shard, by, call)| {
            let until = call.not_after.unwrap_or(self.records.clock);
            let until = until.saturating_add(call.patience_ms().unwrap_or_default());
            (shard == key.shard) != (by == *requester) && until > case.times[0]
        })
    }

    /// Whether a holder may have got exactly this request.
    pub(super) fn was_requested(&self, case: &Case<'_>, request: &SplitRequest) -> bool {
        let SplitRequest { requester, requested_at, expires_at } = *request;
        let clock = self.records.clock;
        self.split_requests(case.address).any(|(shard, by, call)| {
            let patience_ms = call.patience_ms().unwrap_or_default();
            (Some(shard), by) == (case.request.shard_id(), requester)
                && expires_at == requested_at.saturating_add(patience_ms)
                && call.may_be_decided(0, requested_at, clock)
        })
    }

    /// A decline stores the time before which no request is accepted.
    pub(super) fn check_decline(
        &self,
        set: &ChangeSet,
        task: Option<TaskId>,
    ) -> Result<(), Vec<Finding>> {
        let call = task.and_then(|task| self.calls.get(&task));
        let Some(Request::DeclineSplit(DeclineSplit { lease, .. })) =
            call.and_then(|call| call.sent.request())
        else {
            return Ok(());
        };
        let silent = |change: &&Change| match self.records.keys.parse(&change.key) {
            Some(StoreKey::View(_, _, ViewKey::SplitRequest(_))) => {
                !change.now.as_ref().is_some_and(|now| {
                    SplitRequestRecord::decode(&now.value)
                        .is_ok_and(|sent| sent.slot.not_before.is_some())
                })
            }
            _ => false,
        };
        match set.changes.iter().find(silent) {
            Some(_) => {
                let shard = lease.key().shard;
                let text = format!("the decline of a split of {shard} was not stored");
                Err(vec![Finding { oracle: EXPLAINED.name, text }])
            }
            None => Ok(()),
        }
    }

    /// Whether a holder may have declined until that time.
    pub(super) fn was_declined(&self, case: &Case<'_>, reason: &SplitDeclined) -> bool {
        let is_it = |call: &CallRecord| match call.request_of(case.address) {
            Some(Request::DeclineSplit(DeclineSplit { lease, pause_ms })) => {
                Some(lease.key().shard) == case.request.shard_id()
                    && call.may_be_decided(*pause_ms, reason.not_before, self.records.clock)
            }
            _ => false,
        };
        let declined = self.calls.values().any(|call| call.may_be_done() && is_it(call));
        declined && reason.not_before > case.times[0]
    }
}
