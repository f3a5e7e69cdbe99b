//! Requests that a bug changes, swallows or repeats, and calls that it adds.

use shardwright_contracts::limits::OP_LOG_CAPACITY;
use shardwright_contracts::{FenceEpoch, LogicalTime, TenantId, WorkerId};
use shardwright_coordination::error::reason::{
    AlreadyLeased, LeaseExpired, RetriesExhausted, StaleFence,
};
use shardwright_coordination::{CoordError, Lease, ParkReason};

use super::{Desk, ProtocolDoctor, done, set_op};
use crate::planted::protocol::ProtocolBug;
use crate::request::{HolderAct, Request, RunAct};
use crate::system::{Answer, Granted, Outcome, System};

impl ProtocolDoctor {
    /// Answers a request that never reaches the system.
    pub(super) fn swallow<S: System>(
        &self,
        desk: &Desk<'_, S>,
        request: &Request,
    ) -> Option<Outcome> {
        match (self.bug, request) {
            (
                ProtocolBug::ReleaseDoesNotFree,
                Request::Holder { lease, act: HolderAct::Release { .. } },
            ) => {
                let granted = self.granted.get(&(desk.tenant, lease.key()))?;
                let is_held = granted.lease.fence() == lease.fence()
                    && granted.lease.owner() == lease.owner()
                    && granted.lease.deadline() > desk.now;
                is_held.then(|| done(request)).flatten().map(Ok)
            }
            (ProtocolBug::StaleLeaseBlocks, Request::Acquire { key, .. }) => {
                let granted = self.granted.get(&(desk.tenant, *key))?;
                let (fence, deadline) = (granted.lease.fence().as_raw(), granted.lease.deadline());
                let current_owner = granted.lease.owner();
                (fence < self.floor && deadline > desk.now)
                    .then(|| Err(AlreadyLeased { current_owner, deadline }.into()))
            }
            _ => None,
        }
    }

    /// Changes a request on its way.
    pub(super) fn change_request(&mut self, tenant: TenantId, request: &mut Request) {
        let address = (tenant, request.run());
        let executed = self.executed.get(&(address, request.shard()));
        let executed = executed.map(Vec::as_slice).unwrap_or_default();
        let is_repeated = request.op().is_some_and(|op| match self.bug {
            ProtocolBug::OpNotRecorded => executed.contains(&op),
            ProtocolBug::NewestEvicted => {
                let newest = executed.len().saturating_sub(2);
                executed.len() > OP_LOG_CAPACITY
                    && executed.get(newest..).is_some_and(|newest| newest.contains(&op))
            }
            _ => false,
        });
        if is_repeated {
            let own = self.own_op();
            set_op(request, own);
        }
        match (self.bug, request) {
            (ProtocolBug::LeaseTenantUnchecked, Request::Holder { lease, .. }) => {
                let (key, owner) = (lease.key(), lease.owner());
                *lease = Lease::new(tenant, key, owner, lease.fence(), lease.deadline());
            }
            (ProtocolBug::RotationStuck, Request::Candidates { worker, .. }) => {
                *worker = WorkerId::from_raw(1);
            }
            (
                ProtocolBug::ParkDetailLost,
                Request::Holder { act: HolderAct::Park { detail, .. }, .. },
            ) => detail.clear(),
            _ => {}
        }
    }

    /// Makes further calls where the first one was refused, and returns what answers it.
    pub(super) fn call_again<S: System>(
        &mut self,
        desk: &mut Desk<'_, S>,
        request: &Request,
        outcome: Outcome,
    ) -> Outcome {
        let again = match (self.bug, &outcome, request) {
            (
                ProtocolBug::FenceUnchecked,
                Err(CoordError::StaleFence(StaleFence { presented, current })),
                Request::Holder { lease, act },
            ) if presented != current => desk.ask(&showing(lease, act, lease.owner(), *current)),
            (
                ProtocolBug::OwnerUnchecked,
                Err(CoordError::StaleFence(StaleFence { presented, current })),
                Request::Holder { lease, act },
            ) if presented == current => {
                let holder = self.granted.get(&(desk.tenant, lease.key()));
                let owner = holder.map_or(lease.owner(), |granted| granted.lease.owner());
                desk.ask(&showing(lease, act, owner, *current))
            }
            (
                ProtocolBug::DeadlineInclusive,
                Err(CoordError::LeaseExpired(LeaseExpired { deadline, now })),
                _,
            ) if deadline == now => desk.ask_at(just_before(*deadline), request),
            (
                ProtocolBug::ExpiredLeaseRenewed,
                Err(CoordError::LeaseExpired(LeaseExpired { deadline, .. })),
                Request::Holder { act: HolderAct::Renew, .. },
            ) => desk.ask_at(just_before(*deadline), request),
            (
                ProtocolBug::LookupIgnoresTenant,
                Err(CoordError::RunNotFound(_)),
                Request::GetRun { .. } | Request::List { .. } | Request::Acquire { .. },
            ) => {
                let own = desk.tenant;
                let mut others = self.tenants.iter().copied().filter(|tenant| *tenant != own);
                others.find_map(|tenant| desk.ask_as(tenant, request).filter(Result::is_ok))
            }
            (
                ProtocolBug::PauseIgnored | ProtocolBug::ParkedInPause,
                Err(CoordError::RunPaused(_)),
                Request::Acquire { .. } | Request::Claim { .. },
            ) => self.ask_in_pause(desk, request),
            (
                ProtocolBug::RefusedParkFrees,
                Err(CoordError::ParkDetailTooLarge(_)),
                Request::Holder { lease, .. },
            ) => {
                let act = HolderAct::Release { op: self.own_op() };
                desk.ask(&Request::Holder { lease: *lease, act });
                None
            }
            (ProtocolBug::PauseSpreads, Ok(_), Request::Run { act: RunAct::Pause, .. }) => {
                self.pause_others(desk, request);
                None
            }
            (ProtocolBug::ParkedUnderHolder, Err(CoordError::AlreadyLeased(_)), _) => {
                self.park_held(desk, request)
            }
            (ProtocolBug::ParkedTooSoon, Ok(Answer::Granted(granted)), Request::Acquire { .. }) => {
                self.park_last_attempt(desk, granted)
            }
            _ => None,
        };
        again.unwrap_or(outcome)
    }

    /// Has a paused run answer as if it were not.
    fn ask_in_pause<S: System>(
        &mut self,
        desk: &mut Desk<'_, S>,
        request: &Request,
    ) -> Option<Outcome> {
        let run = request.run();
        if self.bug == ProtocolBug::ParkedInPause {
            let granted = self.granted.get(&(desk.tenant, key_of(request)?))?;
            let is_over = granted.lease.deadline() <= desk.now;
            if !is_over || granted.fruitless < self.attempts_max((desk.tenant, run)) {
                return None;
            }
        }
        let op = self.own_op();
        desk.ask(&Request::Run { run, act: RunAct::Resume, op })?.ok()?;
        let outcome = desk.ask(request);
        let op = self.own_op();
        desk.ask(&Request::Run { run, act: RunAct::Pause, op });
        outcome
    }

    fn pause_others<S: System>(&mut self, desk: &mut Desk<'_, S>, request: &Request) {
        let is_other =
            |(tenant, run): &(TenantId, _)| *tenant == desk.tenant && *run != request.run();
        let others: Vec<_> = self.configs.keys().copied().filter(is_other).collect();
        for (_, run) in others {
            let op = self.own_op();
            desk.ask(&Request::Run { run, act: RunAct::Pause, op });
        }
    }

    /// Parks a shard that failed too often under its holder.
    fn park_held<S: System>(
        &mut self,
        desk: &mut Desk<'_, S>,
        request: &Request,
    ) -> Option<Outcome> {
        let key = key_of(request)?;
        let Granted { lease, fruitless, .. } = self.granted.get(&(desk.tenant, key))?;
        let (lease, attempts) = (*lease, *fruitless);
        if attempts < self.attempts_max((desk.tenant, key.run)) {
            return None;
        }
        self.park(desk, lease, attempts)
    }

    /// Parks a shard instead of handing it out for the last time.
    fn park_last_attempt<S: System>(
        &mut self,
        desk: &mut Desk<'_, S>,
        granted: &Granted,
    ) -> Option<Outcome> {
        let is_last = granted.fruitless == self.attempts_max((desk.tenant, granted.lease.run()));
        if !is_last {
            return None;
        }
        self.park(desk, granted.lease, granted.fruitless - 1)
    }

    fn park<S: System>(
        &mut self,
        desk: &mut Desk<'_, S>,
        lease: Lease,
        attempts: u32,
    ) -> Option<Outcome> {
        let (reason, detail, op) = (ParkReason::TooManyErrors, Vec::new(), self.own_op());
        let act = HolderAct::Park { reason, detail, op };
        desk.ask(&Request::Holder { lease, act })?.ok()?;
        Some(Err(RetriesExhausted { shard: lease.shard(), attempts }.into()))
    }
}

/// The same act under another lease.
fn showing(lease: &Lease, act: &HolderAct, owner: WorkerId, fence: FenceEpoch) -> Request {
    let lease = Lease::new(lease.tenant(), lease.key(), owner, fence, lease.deadline());
    Request::Holder { lease, act: act.clone() }
}

const fn key_of(request: &Request) -> Option<shardwright_contracts::ShardKey> {
    match request {
        Request::Acquire { key, .. } => Some(*key),
        _ => None,
    }
}

const fn just_before(deadline: LogicalTime) -> LogicalTime {
    LogicalTime::from_millis(deadline.as_millis().saturating_sub(1))
}
