//! Requests that a bug changes, drops or repeats, and calls that it adds.

use shardwright_contracts::limits::OP_LOG_CAPACITY;
use shardwright_contracts::{FenceEpoch, LogicalTime, RunId, TenantId, WorkerId};
use shardwright_coordination::error::reason::{LeaseExpired, RetriesExhausted, StaleFence};
use shardwright_coordination::{
    CoordError, Lease, ParkReason, RenewResult, RestoredShardState, RunTransition, operation,
};

use super::{Driver, ProtocolDoctor, done};
use crate::planted::protocol::ProtocolBug;
use crate::request::operation::{
    Acquire, ChangeRun, Claim, CollectClaimCandidates, ParkShard, Release,
};
use crate::request::{Answer, Reply, Request, RequestExt, set_op};

/// How much earlier a renewal counts capacity.
const EARLIER_MS: u64 = 100;
/// Offset between a worker's id and the id under which it waits. No world has so many workers.
const ANOTHER_WORKER: u64 = 1 << 20;

impl ProtocolDoctor {
    /// Answers a request that never reaches the system.
    pub(super) fn swallow(&self, driver: &Driver<'_>, request: &Request) -> Option<Answer> {
        match (self.bug, request) {
            (ProtocolBug::ReleaseDoesNotFree, Request::Release(Release { lease, .. })) => {
                let granted = self.granted.get(&(driver.tenant, lease.key()))?;
                let is_held = granted.lease.fence() == lease.fence()
                    && granted.lease.owner() == lease.owner()
                    && granted.lease.deadline() > driver.now;
                is_held.then(|| done(request)).flatten().map(Ok)
            }
            _ => None,
        }
    }

    /// Changes a request before it reaches the system.
    pub(super) fn change_request(&mut self, tenant: TenantId, request: &mut Request) {
        let address = (tenant, request.run_id());
        let executed = self.executed.get(&(address, request.shard_id()));
        let executed = executed.map(Vec::as_slice).unwrap_or_default();
        let is_repeated = request.op_id().is_some_and(|op| match self.bug {
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
            (ProtocolBug::LeaseTenantUnchecked, request) => {
                if let Some(lease) = lease_mut(request) {
                    let (key, owner) = (lease.key(), lease.owner());
                    *lease = Lease::new(tenant, key, owner, lease.fence(), lease.deadline());
                }
            }
            (
                ProtocolBug::RotationStuck,
                Request::CollectClaimCandidates(CollectClaimCandidates { worker, .. }),
            ) => *worker = WorkerId::from_raw(1),
            (ProtocolBug::ParkDetailLost, Request::ParkShard(ParkShard { detail, .. })) => {
                detail.clear();
            }
            _ => {}
        }
    }

    /// Makes further calls after a request, and returns the answer to it.
    pub(super) fn call_again(
        &mut self,
        driver: &mut Driver<'_>,
        request: &Request,
        outcome: Answer,
    ) -> Answer {
        let again = match &outcome {
            Ok(reply) => self.call_after_reply(driver, request, reply),
            Err(error) => self.call_after_refusal(driver, request, error),
        };
        again.unwrap_or(outcome)
    }

    fn call_after_refusal(
        &mut self,
        driver: &mut Driver<'_>,
        request: &Request,
        error: &CoordError,
    ) -> Option<Answer> {
        match (self.bug, error, request) {
            (
                ProtocolBug::FenceUnchecked,
                CoordError::StaleFence(StaleFence { presented, current }),
                request,
            ) if presented != current => {
                let owner = request.lease().map(Lease::owner);
                owner.map(|owner| driver.call(&showing(request, owner, *current)))
            }
            (
                ProtocolBug::OwnerUnchecked,
                CoordError::StaleFence(StaleFence { presented, current }),
                request,
            ) if presented == current => self.call_as_owner(driver, request, *current),
            (
                ProtocolBug::DeadlineInclusive,
                CoordError::LeaseExpired(LeaseExpired { deadline, now }),
                _,
            ) if deadline == now => Some(driver.call_at(just_before(*deadline), request)),
            (
                ProtocolBug::ExpiredLeaseRenewed,
                CoordError::LeaseExpired(LeaseExpired { deadline, .. }),
                Request::Renew(_),
            ) => Some(driver.call_at(just_before(*deadline), request)),
            (
                ProtocolBug::LookupIgnoresTenant,
                CoordError::RunNotFound(_),
                Request::GetRun(_) | Request::ListShards(_) | Request::Acquire(_),
            ) => {
                let own = driver.tenant;
                let mut others = self.tenants.iter().copied().filter(|tenant| *tenant != own);
                others
                    .find_map(|tenant| Some(driver.call_as(tenant, request)).filter(Result::is_ok))
            }
            (
                ProtocolBug::PauseIgnored | ProtocolBug::ParkedInPause,
                CoordError::RunPaused(_),
                Request::Acquire(_) | Request::Claim(_),
            ) => self.call_in_pause(driver, request),
            (
                ProtocolBug::RefusedParkFrees,
                CoordError::ParkDetailTooLarge(_),
                Request::ParkShard(ParkShard { lease, .. }),
            ) => {
                driver.call(&Release { lease: *lease, op: self.own_op() }.into()).ok();
                None
            }
            (ProtocolBug::ParkedUnderHolder, CoordError::AlreadyLeased(_), _) => {
                self.park_held(driver, request)
            }
            (ProtocolBug::WaitingForever, CoordError::NoneAvailable(_), Request::Claim(claim)) => {
                self.waiting.insert((driver.tenant, claim.run, claim.worker));
                None
            }
            _ => None,
        }
    }

    fn call_after_reply(
        &mut self,
        driver: &mut Driver<'_>,
        request: &Request,
        reply: &Reply,
    ) -> Option<Answer> {
        match (self.bug, reply, request) {
            (
                ProtocolBug::PauseSpreads,
                _,
                Request::ChangeRun(ChangeRun { change: RunTransition::Pause, .. }),
            ) => {
                self.pause_others(driver, request);
                None
            }
            (ProtocolBug::CapacityStale, Reply::Renewed(renewed), Request::Renew(_)) => {
                let earlier = self.earlier_capacity.take();
                let capacity = earlier.unwrap_or(renewed.capacity);
                Some(Ok(Reply::Renewed(RenewResult { capacity, ..*renewed })))
            }
            (ProtocolBug::ParkedTooSoon, Reply::Granted(granted), Request::Acquire(_)) => {
                self.park_last_attempt(driver, granted)
            }
            _ => None,
        }
    }

    /// Makes calls before a request that change the state which the request finds.
    pub(super) fn call_before(&mut self, driver: &mut Driver<'_>, request: &mut Request) {
        match self.bug {
            ProtocolBug::CapacityStale => {
                if let Request::Renew(_) = request {
                    let now_ms = driver.now.as_millis();
                    let earlier = LogicalTime::from_millis(now_ms.saturating_sub(EARLIER_MS));
                    self.earlier_capacity = match driver.call_at(earlier, request) {
                        Ok(Reply::Renewed(renewed)) => Some(renewed.capacity),
                        _ => None,
                    };
                }
            }
            ProtocolBug::WaitingForever => {
                let address = (driver.tenant, request.run_id());
                let of_run = self.waiting.iter().filter(|it| (it.0, it.1) == address);
                for (_, run, worker) in of_run.copied().collect::<Vec<_>>() {
                    if has_nothing(driver, run, worker) {
                        driver.call(&Claim { run, worker }.into()).ok();
                    }
                }
            }
            ProtocolBug::WaitingKept => {
                if let Request::Claim(Claim { run, worker }) = request
                    && has_nothing(driver, *run, *worker)
                {
                    *worker = WorkerId::from_raw(worker.as_raw() + ANOTHER_WORKER);
                }
            }
            _ => {}
        }
    }

    /// Makes another worker's request in the name of the holder.
    fn call_as_owner(
        &self,
        driver: &mut Driver<'_>,
        request: &Request,
        fence: FenceEpoch,
    ) -> Option<Answer> {
        let lease = request.lease()?;
        let holder = self.granted.get(&(driver.tenant, lease.key()));
        let owner = holder.map_or(lease.owner(), |granted| granted.lease.owner());
        Some(driver.call(&showing(request, owner, fence)))
    }

    /// Has a paused run answer as if it were not paused.
    fn call_in_pause(&mut self, driver: &mut Driver<'_>, request: &Request) -> Option<Answer> {
        let run = request.run_id();
        if self.bug == ProtocolBug::ParkedInPause {
            let granted = self.granted.get(&(driver.tenant, key_of(request)?))?;
            let is_over = granted.lease.deadline() <= driver.now;
            if !is_over
                || granted.acquires_without_progress < self.attempts_max((driver.tenant, run))
            {
                return None;
            }
        }
        let op = self.own_op();
        driver.call(&ChangeRun { run, change: RunTransition::Resume, op }.into()).ok()?;
        let outcome = driver.call(request);
        let op = self.own_op();
        driver.call(&ChangeRun { run, change: RunTransition::Pause, op }.into()).ok();
        Some(outcome)
    }

    fn pause_others(&mut self, driver: &mut Driver<'_>, request: &Request) {
        let is_other =
            |(tenant, run): &(TenantId, _)| *tenant == driver.tenant && *run != request.run_id();
        let others: Vec<_> = self.configs.keys().copied().filter(is_other).collect();
        for (_, run) in others {
            let op = self.own_op();
            driver.call(&ChangeRun { run, change: RunTransition::Pause, op }.into()).ok();
        }
    }

    /// Parks a held shard that failed too often.
    fn park_held(&mut self, driver: &mut Driver<'_>, request: &Request) -> Option<Answer> {
        let key = key_of(request)?;
        let granted = self.granted.get(&(driver.tenant, key))?;
        let (lease, attempts) = (granted.lease, granted.acquires_without_progress);
        if attempts < self.attempts_max((driver.tenant, key.run)) {
            return None;
        }
        self.park(driver, lease, attempts)
    }

    /// Parks a shard instead of granting it for the last allowed attempt.
    fn park_last_attempt(
        &mut self,
        driver: &mut Driver<'_>,
        granted: &RestoredShardState,
    ) -> Option<Answer> {
        let is_last = granted.acquires_without_progress
            == self.attempts_max((driver.tenant, granted.lease.run()));
        if !is_last {
            return None;
        }
        self.park(driver, granted.lease, granted.acquires_without_progress - 1)
    }

    fn park(&mut self, driver: &mut Driver<'_>, lease: Lease, attempts: u32) -> Option<Answer> {
        let (reason, detail, op) = (ParkReason::TooManyErrors, Vec::new(), self.own_op());
        driver.call(&ParkShard { lease, reason, detail, op }.into()).ok()?;
        Some(Err(RetriesExhausted { shard: lease.shard(), attempts }.into()))
    }
}

/// Whether a claim would find nothing.
fn has_nothing(driver: &mut Driver<'_>, run: RunId, worker: WorkerId) -> bool {
    let look = CollectClaimCandidates { run, worker, limit: 1 };
    matches!(driver.call(&look.into()), Ok(Reply::Candidates(shards, _)) if shards.is_empty())
}

/// The same request under another lease.
fn showing(request: &Request, owner: WorkerId, fence: FenceEpoch) -> Request {
    let mut request = request.clone();
    if let Some(lease) = lease_mut(&mut request) {
        *lease = Lease::new(lease.tenant(), lease.key(), owner, fence, lease.deadline());
    }
    request
}

const fn lease_mut(request: &mut Request) -> Option<&mut Lease> {
    match request {
        Request::Renew(operation::Renew { lease })
        | Request::Checkpoint(operation::Checkpoint { lease, .. })
        | Request::Complete(operation::Complete { lease, .. })
        | Request::ParkShard(ParkShard { lease, .. })
        | Request::Release(Release { lease, .. })
        | Request::SplitReplace(operation::SplitReplace { lease, .. })
        | Request::SplitResidual(operation::SplitResidual { lease, .. })
        | Request::DeclineSplit(operation::DeclineSplit { lease, .. }) => Some(lease),
        _ => None,
    }
}

const fn key_of(request: &Request) -> Option<shardwright_contracts::ShardKey> {
    match request {
        Request::Acquire(Acquire { key, .. }) => Some(*key),
        _ => None,
    }
}

const fn just_before(deadline: LogicalTime) -> LogicalTime {
    LogicalTime::from_millis(deadline.as_millis().saturating_sub(1))
}
