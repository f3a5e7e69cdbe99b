//! What a bug changes around the in-memory backend.
//!
//! A request is changed or swallowed on its way, calls are added, and the answer, the view and the
//! events are changed on their way back.

mod answers;
mod calls;
mod shown;

use std::collections::{BTreeMap, BTreeSet};

use shardwright_contracts::{LogicalTime, OpId, RunId, ShardId, ShardKey, TenantId, WorkerId};
use shardwright_coordination::{AcquireScratch, HolderNotice, Lease, RunConfig, RunStatus};

use super::protocol::ProtocolBug;
use crate::request::{HolderAct, Request, RunAct};
use crate::system::{Answer, Granted, Outcome, System};

/// Op ids from here on are a bug's own.
const OWN_OPS: u64 = 1 << 50;

type Address = (TenantId, RunId);
type Place = (TenantId, ShardKey);

/// How a request is put to the system.
pub(crate) type Put<S> =
    fn(&mut S, LogicalTime, TenantId, &Request, &mut AcquireScratch) -> Option<Outcome>;

/// The system as a request finds it.
pub(crate) struct Desk<'a, S> {
    pub(crate) system: &'a mut S,
    pub(crate) put: Put<S>,
    pub(crate) scratch: &'a mut AcquireScratch,
    pub(crate) now: LogicalTime,
    pub(crate) tenant: TenantId,
}

impl<S: System> Desk<'_, S> {
    fn ask(&mut self, request: &Request) -> Option<Outcome> {
        (self.put)(self.system, self.now, self.tenant, request, self.scratch)
    }

    fn ask_at(&mut self, now: LogicalTime, request: &Request) -> Option<Outcome> {
        (self.put)(self.system, now, self.tenant, request, self.scratch)
    }

    fn ask_as(&mut self, tenant: TenantId, request: &Request) -> Option<Outcome> {
        (self.put)(self.system, self.now, tenant, request, self.scratch)
    }
}

/// A bug around the backend of a world, and what it remembers.
pub(crate) struct ProtocolDoctor {
    bug: ProtocolBug,
    floor: u64,
    next_op: u64,
    tenants: BTreeSet<TenantId>,
    configs: BTreeMap<Address, RunConfig>,
    /// How each shard was last handed out.
    granted: BTreeMap<Place, Granted>,
    /// How often each was handed out in a row, progress or not.
    attempts: BTreeMap<Place, u32>,
    /// Operations that took effect, by the record that remembers them.
    executed: BTreeMap<(Address, Option<ShardId>), Vec<OpId>>,
    /// What was split: the residual, or a later child, and the parent with its end before.
    residuals: BTreeSet<Place>,
    later_children: BTreeSet<Place>,
    last_children: BTreeSet<Place>,
    ends: BTreeMap<Place, Vec<u8>>,
    unparked: BTreeSet<Place>,
    completed: BTreeMap<Place, LogicalTime>,
    asked: BTreeMap<(Address, WorkerId), ShardId>,
    statuses: BTreeMap<Address, RunStatus>,
    watermarked: BTreeSet<Address>,
}

impl ProtocolDoctor {
    pub(crate) fn new(bug: ProtocolBug, floor: u64) -> Self {
        Self {
            bug,
            floor,
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
            statuses: BTreeMap::new(),
            watermarked: BTreeSet::new(),
        }
    }

    pub(crate) const fn raise_floor(&mut self, floor: u64) {
        self.floor = floor;
    }

    /// Puts a request to the system past the bug.
    pub(crate) fn call<S: System>(
        &mut self,
        desk: &mut Desk<'_, S>,
        request: &Request,
    ) -> Option<Outcome> {
        self.tenants.insert(desk.tenant);
        let mut sent = request.clone();
        if let Some(outcome) = self.swallow(desk, &sent) {
            return Some(outcome);
        }
        self.change_request(desk.tenant, &mut sent);
        let first = desk.ask(&sent)?;
        let mut outcome = self.call_again(desk, &sent, first);
        self.remember(desk.tenant, request, &outcome);
        self.change_answer(desk, request, &mut outcome);
        Some(outcome)
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

    fn remember(&mut self, tenant: TenantId, request: &Request, outcome: &Outcome) {
        let Ok(answer) = outcome else { return };
        let address = (tenant, request.run());
        if let Answer::Granted(granted) = answer {
            let place = (tenant, granted.lease.key());
            self.granted.insert(place, granted.clone());
            *self.attempts.entry(place).or_default() += 1;
        }
        if answer.is_replay() || request.is_query() {
            return;
        }
        if let Some(op) = request.op() {
            self.executed.entry((address, request.shard())).or_default().push(op);
        }
        match request {
            Request::CreateRun { config, .. } | Request::CreateWithShards { config, .. } => {
                self.configs.insert(address, *config);
            }
            Request::Unpark { key, .. } => {
                self.unparked.insert((tenant, *key));
                self.attempts.remove(&(tenant, *key));
            }
            Request::RequestSplit { key, asker, .. } => {
                self.asked.insert((address, *asker), key.shard);
            }
            Request::Holder { lease, act } => self.remember_act(tenant, lease, act, answer),
            _ => {}
        }
    }

    fn remember_act(&mut self, tenant: TenantId, lease: &Lease, act: &HolderAct, answer: &Answer) {
        let place = (tenant, lease.key());
        let child = |shard: &ShardId| (tenant, ShardKey::new(lease.key().run, *shard));
        match (act, answer) {
            (HolderAct::Renew, Answer::Renewed(renewed)) => {
                if let Some(granted) = self.granted.get_mut(&place) {
                    granted.lease = granted.lease.renewed(renewed.new_deadline);
                }
            }
            (HolderAct::Release { .. }, _) => {
                let attempts = self.attempts.entry(place).or_default();
                *attempts = attempts.saturating_sub(1);
            }
            (HolderAct::Complete { .. }, _) => {
                self.completed.insert(place, lease.deadline());
            }
            (HolderAct::SplitResidual { split, .. }, Answer::Spawned { shards, .. }) => {
                self.residuals.extend(shards.iter().map(child));
                self.ends.insert(place, split.parent.end.clone());
            }
            (HolderAct::SplitReplace { .. }, Answer::Spawned { shards, .. }) => {
                self.later_children.extend(shards.iter().skip(1).map(child));
                self.last_children.extend(shards.last().map(child));
            }
            _ => {}
        }
    }
}

/// What answers a request that was accepted just now.
fn done(request: &Request) -> Option<Answer> {
    Some(match request {
        Request::Holder { act, .. } => match act {
            HolderAct::Checkpoint { .. } => {
                let notice = HolderNotice { paused: false, split_request: None };
                Answer::Noticed { replayed: false, notice: Some(notice) }
            }
            HolderAct::Complete { .. } | HolderAct::Park { .. } | HolderAct::Release { .. } => {
                Answer::Applied { replayed: false }
            }
            HolderAct::Decline { .. } => Answer::Noted,
            HolderAct::Renew | HolderAct::SplitReplace { .. } | HolderAct::SplitResidual { .. } => {
                return None;
            }
        },
        Request::RequestSplit { .. } => Answer::Noted,
        Request::Run { .. } | Request::Unpark { .. } => Answer::Applied { replayed: false },
        _ => return None,
    })
}

/// What answers a request that was accepted before.
fn replayed(request: &Request) -> Option<Answer> {
    Some(match done(request)? {
        Answer::Noticed { .. } => Answer::Noticed { replayed: true, notice: None },
        Answer::Applied { .. } => Answer::Applied { replayed: true },
        _ => return None,
    })
}

fn set_op(request: &mut Request, own: OpId) {
    match request {
        Request::Holder { act, .. } => match act {
            HolderAct::Renew | HolderAct::Decline { .. } => {}
            HolderAct::Checkpoint { op, .. }
            | HolderAct::Complete { op, .. }
            | HolderAct::Park { op, .. }
            | HolderAct::Release { op }
            | HolderAct::SplitReplace { op, .. }
            | HolderAct::SplitResidual { op, .. } => *op = own,
        },
        Request::Register { op, .. }
        | Request::CreateWithShards { op, .. }
        | Request::Run { op, .. }
        | Request::Unpark { op, .. } => *op = own,
        _ => {}
    }
}

const fn status_after(act: RunAct) -> Option<RunStatus> {
    match act {
        RunAct::Complete => Some(RunStatus::Done),
        RunAct::Fail => Some(RunStatus::Failed),
        RunAct::Cancel => Some(RunStatus::Cancelled),
        RunAct::Pause | RunAct::Resume => None,
    }
}
