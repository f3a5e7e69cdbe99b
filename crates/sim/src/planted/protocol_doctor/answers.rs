//! Answers that a bug changes.

use shardwright_contracts::{CursorSemantics, FenceEpoch, LogicalTime, ShardKey};
use shardwright_coordination::error::reason::StaleFence;
use shardwright_coordination::{
    CoordError, HolderNotice, IdempotentOutcome, Lease, RestoredShardState,
};

use super::{Driver, ProtocolDoctor, done, replayed, status_after};
use crate::planted::protocol::ProtocolBug;
use crate::request::operation::{Acquire, ChangeRun, RequestSplit};
use crate::request::{Answer, Reply, Request, RequestExt};

impl ProtocolDoctor {
    /// Changes the answer to a request.
    pub(super) fn change_answer(
        &mut self,
        driver: &Driver<'_>,
        request: &Request,
        outcome: &mut Answer,
    ) {
        let is_replay = outcome.as_ref().is_ok_and(Reply::is_replay);
        if let (ProtocolBug::OpLogAfterFence, Some(lease), true) =
            (self.bug, request.lease(), is_replay)
        {
            let (presented, current) = (lease.fence(), lease.fence());
            *outcome = Err(StaleFence { presented, current }.into());
            return;
        }
        let accepted = match outcome {
            Ok(reply) => return self.change_accepted(driver, request, reply),
            Err(CoordError::LeaseExpired(reason)) if self.bug == ProtocolBug::ExpiryMistimed => {
                reason.now = reason.deadline;
                return;
            }
            Err(refusal) => self.accept(driver, request, refusal),
        };
        if let Some(answer) = accepted {
            *outcome = Ok(answer);
        }
    }

    /// Accepts a refused request.
    fn accept(
        &mut self,
        driver: &Driver<'_>,
        request: &Request,
        refusal: &CoordError,
    ) -> Option<Reply> {
        match (self.bug, refusal) {
            (ProtocolBug::RunGateSkipped, CoordError::RunNotActive(_))
            | (ProtocolBug::CursorRegressionAccepted, CoordError::CursorRegression(_))
            | (ProtocolBug::CursorBoundsUnchecked, CoordError::CursorOutOfBounds(_))
            | (ProtocolBug::CompleteRunUnchecked, CoordError::RunUnfinished(_))
            | (ProtocolBug::AnythingUnparks, CoordError::NotParked(_))
            | (ProtocolBug::DeclineForgotten, CoordError::SplitDeclined(_))
            | (ProtocolBug::ExpiredRequestAccepted, CoordError::SplitRequestOver(_)) => {
                done(request)
            }
            (ProtocolBug::PayloadIgnored, CoordError::OpIdConflict(_)) => replayed(request),
            (
                ProtocolBug::RequestOverwritten | ProtocolBug::TwoHoldersRequested,
                CoordError::SplitAlreadyRequested(_),
            ) => {
                let Request::RequestSplit(RequestSplit { key, requester, .. }) = request else {
                    return None;
                };
                let asked = self.asked.get(&((driver.tenant, key.run), *requester));
                let is_elsewhere = asked.is_some_and(|shard| *shard != key.shard);
                let asks_twice = self.bug == ProtocolBug::TwoHoldersRequested;
                (is_elsewhere == asks_twice).then_some(Reply::Done)
            }
            (ProtocolBug::RunEndsTwice, CoordError::RunTerminal(_)) => {
                let Request::ChangeRun(ChangeRun { run, change, .. }) = request else {
                    return None;
                };
                self.statuses.insert((driver.tenant, *run), status_after(*change)?);
                done(request)
            }
            (ProtocolBug::TerminalUnchecked, CoordError::ShardTerminal(_))
            | (ProtocolBug::RetriesNeverPark, CoordError::RetriesExhausted(_)) => {
                self.hand_out(driver, request).map(Reply::from)
            }
            (ProtocolBug::RefusalPanics, CoordError::StaleFence(_)) => {
                // Panics without printing a message.
                std::panic::resume_unwind(Box::new("a stale fence"))
            }
            _ => None,
        }
    }

    /// Returns the last grant of a shard again.
    fn hand_out(&self, driver: &Driver<'_>, request: &Request) -> Option<RestoredShardState> {
        let Request::Acquire(Acquire { key, worker }) = request else { return None };
        let granted = self.granted.get(&(driver.tenant, *key))?;
        let lease_ms = self.configs.get(&(driver.tenant, key.run))?.lease_duration_ms.get();
        let fence = raised(granted.lease.fence(), 1);
        let deadline = driver.now.saturating_add(lease_ms);
        let lease = Lease::new(driver.tenant, *key, *worker, fence, deadline);
        Some(RestoredShardState { lease, ..granted.clone() })
    }

    fn change_accepted(&self, driver: &Driver<'_>, request: &Request, reply: &mut Reply) {
        match reply {
            Reply::Granted(granted) => self.change_granted(granted),
            Reply::Renewed(renewed) => {
                self.change_notice(renewed.notice.as_mut());
                if self.bug == ProtocolBug::LateRenewalShortens {
                    let shorter = renewed.new_deadline.as_millis().saturating_sub(1);
                    renewed.new_deadline = LogicalTime::from_millis(shorter);
                }
            }
            Reply::Noticed(IdempotentOutcome::Executed(notice)) => {
                self.change_notice(notice.as_mut());
            }
            Reply::Noticed(IdempotentOutcome::Replayed(notice))
                if self.bug == ProtocolBug::ReplayNotifies =>
            {
                *notice = Some(HolderNotice { paused: false, split_request: None });
            }
            Reply::Candidates(shards, outlook) => match self.bug {
                ProtocolBug::CandidateSkipped if !shards.is_empty() => _ = shards.remove(0),
                ProtocolBug::OutlookSilent => outlook.earliest_deadline = None,
                ProtocolBug::UnparkNotIndexed => shards.retain(|shard| {
                    let key = ShardKey::new(request.run_id(), *shard);
                    !self.unparked.contains(&(driver.tenant, key))
                }),
                _ => {}
            },
            Reply::Replaced(
                IdempotentOutcome::Executed(made) | IdempotentOutcome::Replayed(made),
            ) if self.bug == ProtocolBug::LastChildLost => {
                made.children.pop();
            }
            _ => {}
        }
    }

    fn change_granted(&self, granted: &mut RestoredShardState) {
        let lease = granted.lease;
        let with_fence =
            |fence| Lease::new(lease.tenant(), lease.key(), lease.owner(), fence, lease.deadline());
        match self.bug {
            ProtocolBug::AcquireKeepsFence => {
                granted.lease = with_fence(lowered(lease.fence()));
            }
            ProtocolBug::SemanticsLost if lease.shard().is_derived() => {
                granted.cursor_semantics = CursorSemantics::default();
            }
            ProtocolBug::AttemptsUnreported => granted.acquires_without_progress = 1,
            ProtocolBug::RetriesNotReset => {
                let attempts = self.attempts.get(&(lease.tenant(), lease.key()));
                let attempts = attempts.copied();
                granted.acquires_without_progress =
                    attempts.unwrap_or(granted.acquires_without_progress);
            }
            _ => {}
        }
    }

    fn change_notice(&self, notice: Option<&mut HolderNotice>) {
        if let Some(notice) = notice
            && self.bug == ProtocolBug::NoticeOmitsPause
        {
            notice.paused = false;
        }
    }
}

pub(super) fn raised(fence: FenceEpoch, by: u64) -> FenceEpoch {
    FenceEpoch::from_raw(fence.as_raw().saturating_add(by)).unwrap_or(fence)
}

fn lowered(fence: FenceEpoch) -> FenceEpoch {
    FenceEpoch::from_raw(fence.as_raw().saturating_sub(1)).unwrap_or(fence)
}
