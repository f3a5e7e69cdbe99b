//! Answers that a bug changes.

use shardwright_contracts::{CursorSemantics, FenceEpoch, LogicalTime};
use shardwright_coordination::error::reason::StaleFence;
use shardwright_coordination::{CoordError, HolderNotice, Lease};

use super::{Desk, ProtocolDoctor, done, replayed, status_after};
use crate::planted::protocol::ProtocolBug;
use crate::request::{HolderAct, Request};
use crate::system::{Answer, Granted, Outcome, System};

impl ProtocolDoctor {
    /// Changes an answer on its way back.
    pub(super) fn change_answer<S: System>(
        &mut self,
        desk: &Desk<'_, S>,
        request: &Request,
        outcome: &mut Outcome,
    ) {
        let is_replay = outcome.as_ref().is_ok_and(Answer::is_replay);
        if let (ProtocolBug::OpLogAfterFence, Request::Holder { lease, .. }, true) =
            (self.bug, request, is_replay)
        {
            let (presented, current) = (lease.fence(), lease.fence());
            *outcome = Err(StaleFence { presented, current }.into());
            return;
        }
        let accepted = match outcome {
            Ok(answer) => return self.change_accepted(desk, request, answer),
            Err(CoordError::LeaseExpired(told)) if self.bug == ProtocolBug::ExpiryMistimed => {
                told.now = told.deadline;
                return;
            }
            Err(refusal) => self.accept(desk, request, refusal),
        };
        if let Some(answer) = accepted {
            *outcome = Ok(answer);
        }
    }

    /// Accepts what was refused.
    fn accept<S: System>(
        &mut self,
        desk: &Desk<'_, S>,
        request: &Request,
        refusal: &CoordError,
    ) -> Option<Answer> {
        match (self.bug, refusal) {
            (ProtocolBug::RunGateSkipped, CoordError::RunNotActive(_))
            | (ProtocolBug::CursorRegressionAccepted, CoordError::CursorRegression(_))
            | (ProtocolBug::CursorBoundsUnchecked, CoordError::CursorOutOfBounds(_))
            | (ProtocolBug::CompleteRunUnchecked, CoordError::RunUnfinished(_))
            | (ProtocolBug::AnythingUnparks, CoordError::NotParked(_))
            | (ProtocolBug::DeclineForgotten, CoordError::SplitDeclined(_))
            | (ProtocolBug::AskedTooLate, CoordError::SplitRequestOver(_)) => done(request),
            (ProtocolBug::PayloadIgnored, CoordError::OpIdConflict(_)) => replayed(request),
            (ProtocolBug::FloorUnchecked, CoordError::StaleFence(_)) => match request {
                Request::Holder { lease, .. } if lease.fence().as_raw() < self.floor => {
                    done(request)
                }
                _ => None,
            },
            (
                ProtocolBug::RequestOverwritten | ProtocolBug::AskerAsksTwice,
                CoordError::SplitAlreadyRequested(_),
            ) => {
                let Request::RequestSplit { key, asker, .. } = request else { return None };
                let asked = self.asked.get(&((desk.tenant, key.run), *asker));
                let is_elsewhere = asked.is_some_and(|shard| *shard != key.shard);
                let asks_twice = self.bug == ProtocolBug::AskerAsksTwice;
                (is_elsewhere == asks_twice).then_some(Answer::Noted)
            }
            (ProtocolBug::RunEndsTwice, CoordError::RunTerminal(_)) => {
                let Request::Run { run, act, .. } = request else { return None };
                self.statuses.insert((desk.tenant, *run), status_after(*act)?);
                done(request)
            }
            (ProtocolBug::TerminalUnchecked, CoordError::ShardTerminal(_))
            | (ProtocolBug::RetriesNeverPark, CoordError::RetriesExhausted(_)) => {
                self.hand_out(desk, request).map(Answer::Granted)
            }
            (ProtocolBug::RefusalPanics, CoordError::StaleFence(_)) => {
                // Without the message that a panic prints.
                std::panic::resume_unwind(Box::new("a stale fence"))
            }
            _ => None,
        }
    }

    /// Hands a shard out once more, as it was handed out before.
    fn hand_out<S: System>(&self, desk: &Desk<'_, S>, request: &Request) -> Option<Granted> {
        let Request::Acquire { key, worker } = request else { return None };
        let granted = self.granted.get(&(desk.tenant, *key))?;
        let lease_ms = self.configs.get(&(desk.tenant, key.run))?.lease_duration_ms.get();
        let fence = raised(granted.lease.fence(), 1);
        let deadline = desk.now.saturating_add(lease_ms);
        let lease = Lease::new(desk.tenant, *key, *worker, fence, deadline);
        Some(Granted { lease, ..granted.clone() })
    }

    fn change_accepted<S: System>(
        &self,
        desk: &Desk<'_, S>,
        request: &Request,
        answer: &mut Answer,
    ) {
        match answer {
            Answer::Granted(granted) => self.change_granted(granted),
            Answer::Renewed(renewed) => {
                self.change_notice(renewed.notice.as_mut());
                self.change_hint(&mut renewed.capacity);
                if self.bug == ProtocolBug::LateRenewalShortens {
                    let shorter = renewed.new_deadline.as_millis().saturating_sub(1);
                    renewed.new_deadline = LogicalTime::from_millis(shorter);
                }
            }
            Answer::Noticed { replayed, notice } => {
                self.change_notice(notice.as_mut());
                if *replayed && self.bug == ProtocolBug::ReplayTells {
                    *notice = Some(HolderNotice { paused: false, split_request: None });
                }
            }
            Answer::Candidates { shards, outlook } => match self.bug {
                ProtocolBug::CandidateSkipped if !shards.is_empty() => _ = shards.remove(0),
                ProtocolBug::OutlookSilent => outlook.earliest_deadline = None,
                ProtocolBug::UnparkNotIndexed => shards.retain(|shard| {
                    let key = shardwright_contracts::ShardKey::new(request.run(), *shard);
                    !self.unparked.contains(&(desk.tenant, key))
                }),
                _ => {}
            },
            Answer::Spawned { shards, .. }
                if self.bug == ProtocolBug::LastChildLost
                    && matches!(
                        request,
                        Request::Holder { act: HolderAct::SplitReplace { .. }, .. }
                    ) =>
            {
                shards.pop();
            }
            _ => {}
        }
    }

    fn change_granted(&self, granted: &mut Granted) {
        self.change_hint(&mut granted.capacity);
        let lease = granted.lease;
        let with_fence =
            |fence| Lease::new(lease.tenant(), lease.key(), lease.owner(), fence, lease.deadline());
        match self.bug {
            ProtocolBug::AcquireKeepsFence => {
                granted.lease = with_fence(lowered(lease.fence()));
            }
            ProtocolBug::FloorNotReached if lease.fence().as_raw() >= self.floor => {
                granted.lease = with_fence(FenceEpoch::INITIAL);
            }
            ProtocolBug::SemanticsLost if lease.shard().is_derived() => {
                granted.cursor_semantics = CursorSemantics::default();
            }
            ProtocolBug::AttemptsUntold => granted.fruitless = 1,
            ProtocolBug::RetriesNotReset => {
                let attempts = self.attempts.get(&(lease.tenant(), lease.key()));
                granted.fruitless = attempts.copied().unwrap_or(granted.fruitless);
            }
            ProtocolBug::WaitingKept => granted.capacity.waiting_workers += 1,
            _ => {}
        }
    }

    fn change_hint(&self, hint: &mut shardwright_coordination::CapacityHint) {
        match self.bug {
            ProtocolBug::CapacityStale => hint.available_count = 0,
            ProtocolBug::WaitingForever => hint.waiting_workers += 1,
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

pub(super) fn lowered(fence: FenceEpoch) -> FenceEpoch {
    FenceEpoch::from_raw(fence.as_raw().saturating_sub(1)).unwrap_or(fence)
}
