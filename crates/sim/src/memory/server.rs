//! The reference as a server: it executes requests one at a time and keeps what each did.

use std::sync::Mutex;

use shardwright_contracts::{FenceEpoch, InfraError, LogicalTime, RunId, TenantId, WorkerId};
use shardwright_coordination::{CoordError, CoordinationBackend, StateTransitionEvent};

use super::Address;
use super::reference::Reference;
use super::settings::Interface;
use crate::director::lock;
use crate::fault::Fault;
use crate::planted::protocol_doctor::Doctored;
use crate::request::operation::CollectClaimCandidates;
use crate::request::{Answer, Reply, Request, RequestExt};
use crate::rng::Rng;
use crate::runtime::executor::TaskId;
use crate::visible::RunView;

/// A request that the reference executed, and all that can be known of what it did.
pub(super) struct Executed {
    /// The call that sent it.
    pub(super) task: TaskId,
    pub(super) now: LogicalTime,
    pub(super) tenant: TenantId,
    pub(super) request: Request,
    pub(super) answer: Answer,
    pub(super) events: Vec<StateTransitionEvent>,
    /// The run before, if the request before was about another one.
    pub(super) before: Option<Option<RunView>>,
    pub(super) after: Option<RunView>,
    /// The candidates of the next worker, if candidates were requested.
    pub(super) of_next_worker: Option<Answer>,
}

/// What a server did and what went wrong in it, in order.
pub(super) enum Entry {
    Executed(Box<Executed>),
    /// The infrastructure failed at a request, and its sender gets this error.
    Failed(Fault, Box<Request>, CoordError),
    Fault(Fault),
}

/// The reference, shared by all processes of a world.
pub(super) struct Server {
    state: Mutex<State>,
}

struct State {
    system: Doctored<Reference>,
    interface: Interface,
    rng: Rng,
    last_run: Option<Address>,
    entries: Vec<Entry>,
    healed: bool,
}

impl Server {
    pub(super) fn new(system: Doctored<Reference>, interface: Interface, rng: Rng) -> Self {
        let (last_run, entries) = (None, Vec::new());
        let state = State { system, interface, rng, last_run, entries, healed: false };
        Self { state: Mutex::new(state) }
    }

    /// Executes a request, unless the infrastructure fails. What it applied before it failed is
    /// judged like everything else; only its sender does not learn of it.
    pub(super) fn serve(
        &self,
        clock_ms: u64,
        task: TaskId,
        tenant: TenantId,
        request: &Request,
    ) -> Answer {
        let state = &mut *lock(&self.state);
        let fault = match if state.healed { 999 } else { state.rng.below(1_000) } {
            0..8 => Fault::InfraNotApplied,
            8..16 => Fault::InfraUnknownNotApplied,
            16..24 => Fault::InfraUnknownApplied,
            24..30 => Fault::InfraCorrupt,
            _ => return state.execute(clock_ms, task, tenant, request),
        };
        if fault == Fault::InfraUnknownApplied {
            state.execute(clock_ms, task, tenant, request).ok();
        }
        let (operation, message) = (request.name(), fault.words().into());
        let error = CoordError::BackendError(match fault {
            Fault::InfraNotApplied => InfraError::NotApplied { operation, message },
            Fault::InfraCorrupt => InfraError::Corrupt { operation, message },
            _ => InfraError::Unknown { operation, message },
        });
        state.entries.push(Entry::Failed(fault, Box::new(request.clone()), error.clone()));
        Err(error)
    }

    /// What happened since the last time.
    pub(super) fn take_entries(&self) -> Vec<Entry> {
        std::mem::take(&mut lock(&self.state).entries)
    }

    /// The run as its tenant sees it.
    pub(super) fn look_at(&self, clock_ms: u64, address: Address) -> Option<RunView> {
        lock(&self.state).look_at(LogicalTime::from_millis(clock_ms), address)
    }

    pub(super) fn raise_floor(&self, floor: FenceEpoch) {
        let state = &mut *lock(&self.state);
        state.system.raise_floor(floor.as_raw());
        state.system.inner.raise_fence_floor(floor);
    }

    pub(super) fn heal(&self) {
        lock(&self.state).healed = true;
    }
}

impl State {
    fn execute(
        &mut self,
        clock_ms: u64,
        task: TaskId,
        tenant: TenantId,
        request: &Request,
    ) -> Answer {
        let mut now_ms = clock_ms;
        // A backend with a clock of its own does not see a caller's clock.
        if !self.healed && self.rng.chance(25) && self.interface != Interface::Async {
            self.entries.push(Entry::Fault(Fault::ClockSetBack));
            now_ms = now_ms.saturating_sub(self.rng.between(1, 120));
        }
        let now = LogicalTime::from_millis(now_ms);
        let address = (tenant, request.run_id());
        let is_another = self.last_run.replace(address) != Some(address);
        let before = is_another.then(|| {
            let clock = LogicalTime::from_millis(clock_ms);
            self.look_at(clock, address)
        });
        let answer = self.system.call(now, tenant, request.as_ref());
        let of_next_worker = self.ask_for_next_worker(now, tenant, request, &answer);
        let mut events = self.system.inner.take_events();
        self.system.publish(request, &answer, &mut events);
        let after = self.look_at(now, address);
        let request = request.clone();
        let told = answer.clone();
        self.entries.push(Entry::Executed(Box::new(Executed {
            task,
            now,
            tenant,
            request,
            answer,
            events,
            before,
            after,
            of_next_worker,
        })));
        told
    }

    fn look_at(&mut self, at: LogicalTime, (tenant, run): (TenantId, RunId)) -> Option<RunView> {
        let mut view = RunView::take(&mut self.system.inner, at, tenant, run)?;
        self.system.show(&mut view);
        Some(view)
    }

    /// Requests another worker's candidates, which begin with another shard if there is one.
    fn ask_for_next_worker(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        request: &Request,
        answer: &Answer,
    ) -> Option<Answer> {
        let (Request::CollectClaimCandidates(asked), Ok(Reply::Candidates(..))) = (request, answer)
        else {
            return None;
        };
        let CollectClaimCandidates { run, worker, limit } = *asked;
        let worker = WorkerId::from_raw(worker.as_raw() + 1);
        let request = CollectClaimCandidates { run, worker, limit };
        Some(self.system.call(now, tenant, request.into()))
    }
}
