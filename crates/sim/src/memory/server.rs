//! The reference as a server, which executes requests one at a time and records them.

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

/// An executed request, and everything observable about its effect.
pub(super) struct Executed {
    /// The call that sent it.
    pub(super) task: TaskId,
    pub(super) now: LogicalTime,
    pub(super) tenant: TenantId,
    pub(super) request: Request,
    pub(super) answer: Answer,
    pub(super) events: Vec<StateTransitionEvent>,
    /// The run before, if the previous request named another run.
    pub(super) before: Option<Option<RunView>>,
    pub(super) after: Option<RunView>,
    /// The candidates of the next worker, if candidates were requested.
    pub(super) of_next_worker: Option<Answer>,
}

/// Executions and failures of a server, in order.
pub(super) enum Entry {
    Executed(Box<Executed>),
    /// An infrastructure failure, with the error that the sender gets.
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

    /// Executes a request, unless the infrastructure fails. A request that was applied before the
    /// failure is judged like any other. Only its sender does not learn of it.
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

    /// Executions and failures since the last call.
    pub(super) fn take_entries(&self) -> Vec<Entry> {
        std::mem::take(&mut lock(&self.state).entries)
    }

    /// The run as its tenant sees it.
    pub(super) fn view_run(&self, clock_ms: u64, address: Address) -> Option<RunView> {
        lock(&self.state).view_run(LogicalTime::from_millis(clock_ms), address)
    }

    pub(super) fn raise_floor(&self, floor: FenceEpoch) {
        let state = &mut *lock(&self.state);
        if !state.system.ignores_floor() {
            state.system.inner.raise_fence_floor(floor);
        }
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
        // A backend with its own clock does not see the caller's clock.
        if !self.healed && self.rng.chance(25) && self.interface != Interface::Async {
            self.entries.push(Entry::Fault(Fault::ClockSetBack));
            now_ms = now_ms.saturating_sub(self.rng.between(1, 120));
        }
        let now = LogicalTime::from_millis(now_ms);
        let address = (tenant, request.run_id());
        let is_another = self.last_run.replace(address) != Some(address);
        let before = is_another.then(|| {
            let clock = LogicalTime::from_millis(clock_ms);
            self.view_run(clock, address)
        });
        let answer = self.system.call(now, tenant, request.as_ref());
        let of_next_worker = self.candidates_of_next_worker(now, tenant, request, &answer);
        let mut events = self.system.inner.take_events();
        self.system.publish(request, &answer, &mut events);
        let after = self.view_run(now, address);
        let request = request.clone();
        let reply = answer.clone();
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
        reply
    }

    fn view_run(&mut self, at: LogicalTime, (tenant, run): (TenantId, RunId)) -> Option<RunView> {
        let mut view = RunView::take(&mut self.system.inner, at, tenant, run)?;
        self.system.show(&mut view);
        Some(view)
    }

    /// Requests the next worker's candidates, which start with another shard if there is one.
    fn candidates_of_next_worker(
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
