//! What a bug changes around the in-memory backend.
//!
//! A bug changes or drops a request, adds calls, or changes the answer, the view or the events.

mod answers;
mod calls;
mod shown;

use std::collections::{BTreeMap, BTreeSet};

use shardwright_contracts::{LogicalTime, OpId, RunId, ShardId, ShardKey, TenantId, WorkerId};
use shardwright_coordination::{
    CapacityHint, CoordinationBackend, HolderNotice, IdempotentOutcome, Lease, RestoredShardState,
    RunConfig, RunStatus, RunTransition, StateTransitionEvent,
};

use super::protocol::ProtocolBug;
use crate::request::operation::{self, CreateRun, CreateRunWithShards, RequestSplit, UnparkShard};
use crate::request::{Answer, Reply, Request, RequestExt, applied, spawned};
use crate::visible::RunView;

/// The first op id of calls that a bug adds.
const OWN_OPS: u64 = 1 << 50;

type Address = (TenantId, RunId);
type ShardPlace = (TenantId, ShardKey);

/// A backend with a bug around it, if one is planted.
pub(crate) struct Doctored<B> {
    pub(crate) inner: B,
    doctor: Option<ProtocolDoctor>,
}

impl<B: CoordinationBackend> Doctored<B> {
    pub(crate) fn new(inner: B, bug: Option<ProtocolBug>) -> Self {
        Self { inner, doctor: bug.map(ProtocolDoctor::new) }
    }

    /// Whether the backend ignores that the fence floor rises.
    pub(crate) fn ignores_floor(&self) -> bool {
        self.doctor.as_ref().is_some_and(|doctor| doctor.bug == ProtocolBug::FloorIgnored)
    }

    /// Changes the view of a run.
    pub(crate) fn show(&mut self, view: &mut RunView) {
        if let Some(doctor) = &mut self.doctor {
            doctor.show(view);
        }
    }

    /// Changes the events of a request.
    pub(crate) fn publish(
        &self,
        request: &Request,
        answer: &Answer,
        events: &mut Vec<StateTransitionEvent>,
    ) {
        if let Some(doctor) = &self.doctor {
            doctor.publish(request, answer, events);
        }
    }
}

impl<B: CoordinationBackend> CoordinationBackend for Doctored<B> {
    fn call(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        request: operation::Request<&[u8]>,
    ) -> Answer {
        let Self { inner, doctor } = self;
        match doctor {
            Some(doctor) => {
                doctor.call(&mut Driver { backend: inner, now, tenant }, &request.to_owned())
            }
            None => inner.call(now, tenant, request),
        }
    }
}

/// The backend behind a bug, and the current call.
struct Driver<'a> {
    backend: &'a mut dyn CoordinationBackend,
    now: LogicalTime,
    tenant: TenantId,
}

impl Driver<'_> {
    fn call(&mut self, request: &Request) -> Answer {
        self.backend.call(self.now, self.tenant, request.as_ref())
    }

    fn call_at(&mut self, now: LogicalTime, request: &Request) -> Answer {
        self.backend.call(now, self.tenant, request.as_ref())
    }

    fn call_as(&mut self, tenant: TenantId, request: &Request) -> Answer {
        self.backend.call(self.now, tenant, request.as_ref())
    }
}

/// A bug around the backend of a world, and its state.
struct ProtocolDoctor {
    bug: ProtocolBug,
    next_op: u64,
    tenants: BTreeSet<TenantId>,
    configs: BTreeMap<Address, RunConfig>,
    /// The last grant of each shard.
    granted: BTreeMap<ShardPlace, RestoredShardState>,
    /// Number of grants of each shard in a row, whatever its progress.
    attempts: BTreeMap<ShardPlace, u32>,
    /// Operations that took effect, by the record whose op log has them.
    executed: BTreeMap<(Address, Option<ShardId>), Vec<OpId>>,
    /// Splits: the residual or a later child, and the parent with its end before the split.
    residuals: BTreeSet<ShardPlace>,
    later_children: BTreeSet<ShardPlace>,
    last_children: BTreeSet<ShardPlace>,
    ends: BTreeMap<ShardPlace, Vec<u8>>,
    unparked: BTreeSet<ShardPlace>,
    completed: BTreeMap<ShardPlace, LogicalTime>,
    asked: BTreeMap<(Address, WorkerId), ShardId>,
    /// An earlier capacity hint of the backend.
    earlier_capacity: Option<CapacityHint>,
    /// Workers that found nothing to claim.
    waiting: BTreeSet<(TenantId, RunId, WorkerId)>,
    statuses: BTreeMap<Address, RunStatus>,
    watermarked: BTreeSet<Address>,
}

impl ProtocolDoctor {
    fn new(bug: ProtocolBug) -> Self {
        Self {
            bug,
            next_op: OWN_OPS,
            tenants: BTreeSet::new(),
            configs: BTreeMap::new(),
            granted: BTreeMap::new(),
            attempts: BTreeMap::new(),
            executed: BTreeMap::new(),
            residuals: BTreeSet::new(),
            later_children: BTreeSet::new(),
            last_children: BTreeSet::new(),
            ends: BTreeMap::new(),
            unparked: BTreeSet::new(),
            completed: BTreeMap::new(),
            asked: BTreeMap::new(),
            earlier_capacity: None,
            waiting: BTreeSet::new(),
            statuses: BTreeMap::new(),
            watermarked: BTreeSet::new(),
        }
    }

    /// Calls the backend past the bug.
    fn call(&mut self, driver: &mut Driver<'_>, request: &Request) -> Answer {
        self.tenants.insert(driver.tenant);
        let mut sent = request.clone();
        if let Some(answer) = self.swallow(driver, &sent) {
            return answer;
        }
        self.call_before(driver, &mut sent);
        self.change_request(driver.tenant, &mut sent);
        let first = driver.call(&sent);
        let mut answer = self.call_again(driver, &sent, first);
        self.remember(driver.tenant, request, &answer);
        self.change_answer(driver, request, &mut answer);
        answer
    }

    fn own_op(&mut self) -> OpId {
        self.next_op += 1;
        OpId::from_raw(self.next_op)
    }

    /// The attempts without progress that a run allows.
    fn attempts_max(&self, address: Address) -> u32 {
        let max = self.configs.get(&address).and_then(|config| config.max_shard_retries);
        max.map_or(u32::MAX, std::num::NonZeroU32::get)
    }

    fn remember(&mut self, tenant: TenantId, request: &Request, answer: &Answer) {
        let Ok(reply) = answer else { return };
        let address = (tenant, request.run_id());
        if let Reply::Granted(granted) = reply {
            let place = (tenant, granted.lease.key());
            self.granted.insert(place, (**granted).clone());
            *self.attempts.entry(place).or_default() += 1;
        }
        if reply.is_replay() || request.is_query() {
            return;
        }
        if let Some(op) = request.op_id() {
            self.executed.entry((address, request.shard_id())).or_default().push(op);
        }
        match request {
            Request::CreateRun(CreateRun { config, .. })
            | Request::CreateRunWithShards(CreateRunWithShards { config, .. }) => {
                self.configs.insert(address, *config);
            }
            Request::UnparkShard(UnparkShard { key, .. }) => {
                self.unparked.insert((tenant, *key));
                self.attempts.remove(&(tenant, *key));
            }
            Request::RequestSplit(RequestSplit { key, requester, .. }) => {
                self.asked.insert((address, *requester), key.shard);
            }
            request => {
                if let Some(lease) = request.lease() {
                    self.remember_write(tenant, lease, request, reply);
                }
            }
        }
    }

    fn remember_write(
        &mut self,
        tenant: TenantId,
        lease: &Lease,
        request: &Request,
        reply: &Reply,
    ) {
        let place = (tenant, lease.key());
        let child = |shard: &ShardId| (tenant, ShardKey::new(lease.key().run, *shard));
        let made = spawned(reply).unwrap_or_default();
        match (request, reply) {
            (_, Reply::Renewed(renewed)) => {
                if let Some(granted) = self.granted.get_mut(&place) {
                    granted.lease = granted.lease.renewed(renewed.new_deadline);
                }
            }
            (Request::Release(_), _) => {
                let attempts = self.attempts.entry(place).or_default();
                *attempts = attempts.saturating_sub(1);
            }
            (Request::Complete(_), _) => {
                self.completed.insert(place, lease.deadline());
            }
            (Request::SplitResidual(split), _) => {
                self.residuals.extend(made.iter().map(child));
                self.ends.insert(place, split.residual.as_ref().end().to_vec());
            }
            (Request::SplitReplace(_), _) => {
                self.later_children.extend(made.iter().skip(1).map(child));
                self.last_children.extend(made.last().map(child));
            }
            _ => {}
        }
    }
}

/// The answer to a request that takes effect.
fn done(request: &Request) -> Option<Reply> {
    Some(match request {
        Request::Checkpoint(_) => {
            let notice = HolderNotice { paused: false, split_request: None };
            Reply::Noticed(IdempotentOutcome::Executed(Some(notice)))
        }
        Request::Complete(_)
        | Request::ParkShard(_)
        | Request::Release(_)
        | Request::ChangeRun(_)
        | Request::UnparkShard(_) => applied(false),
        Request::DeclineSplit(_) | Request::RequestSplit(_) => Reply::Done,
        _ => return None,
    })
}

/// The answer to a replay.
fn replayed(request: &Request) -> Option<Reply> {
    Some(match done(request)? {
        Reply::Noticed(_) => Reply::Noticed(IdempotentOutcome::Replayed(None)),
        Reply::Applied(_) => applied(true),
        _ => return None,
    })
}

const fn status_after(act: RunTransition) -> Option<RunStatus> {
    match act {
        RunTransition::Complete => Some(RunStatus::Done),
        RunTransition::Fail => Some(RunStatus::Failed),
        RunTransition::Cancel => Some(RunStatus::Cancelled),
        RunTransition::Pause | RunTransition::Resume => None,
    }
}
