//! From an intent to its effect and back: where messages get lost, delayed and repeated.

use shardwright_contracts::{FenceEpoch, LogicalTime, RunId, TenantId, WorkerId};
use shardwright_coordination::{CoordError, InfraError};

use super::belief::Pending;
use super::intent::Intent;
use super::{Door, TenantWorld, World};
use crate::coverage;
use crate::fault::Fault;
use crate::network::{Actor, Envelope, Message};
use crate::oracle::{Finding, ISOLATION, Observation, ROTATION, judge};
use crate::planted::protocol_doctor::{Desk, Put};
use crate::request::{HolderAct, Request};
use crate::system::{self, Outcome, System};
use crate::visible::{self, RunView};

/// How often an outcome that stays unknown is asked for before its sender gives up.
const ATTEMPTS_MAX: u32 = 4;

impl<S: System> World<S> {
    /// Sends something for the first time.
    pub(super) fn send(&mut self, actor: Actor, intent: Intent) -> Result<(), Vec<Finding>> {
        if let Some(fault) = intent.fault {
            self.tally.fault(fault);
        }
        match self.actor_mut(actor) {
            Some(Known::Worker(worker)) if intent.fault.is_none() => worker.remember_sent(&intent),
            Some(Known::Operator(operator)) if intent.fault.is_none() => {
                operator.remember_sent(&intent);
            }
            _ => {}
        }
        self.post(actor, intent, 1)
    }

    /// Sends something again whose outcome is unknown, or gives up.
    pub(super) fn retry(&mut self, actor: Actor, pending: Pending) -> Result<(), Vec<Finding>> {
        let gives_up = pending.attempts >= ATTEMPTS_MAX || self.rng.chance(150);
        if gives_up && !self.healed {
            self.tally.fault(Fault::GaveUp);
            return Ok(());
        }
        self.tally.fault(Fault::Retried);
        self.post(actor, pending.intent, pending.attempts + 1)
    }

    fn post(&mut self, actor: Actor, intent: Intent, attempts: u32) -> Result<(), Vec<Finding>> {
        self.next_message += 1;
        let (Actor::Worker { tenant, .. } | Actor::Operator { tenant }) = actor;
        let Some(tenant) = self.tenants.get(tenant).map(|tenant| tenant.id) else { return Ok(()) };
        let envelope = Envelope {
            id: self.next_message,
            from: actor,
            tenant,
            request: intent.request.clone(),
            processed: intent.processed,
        };
        if intent.awaited {
            let retry_at = self.clock + self.rng.between(20, 120);
            let pending = Pending { id: envelope.id, intent, retry_at, attempts };
            match self.actor_mut(actor) {
                Some(Known::Worker(worker)) => worker.pending = Some(pending),
                Some(Known::Operator(operator)) => operator.pending = Some(pending),
                None => {}
            }
        }
        let later = self.clock + self.rng.between(1, 500);
        match if self.healed { 999 } else { self.rng.below(1_000) } {
            0..25 => {
                self.tally.fault(Fault::RequestLost);
                Ok(())
            }
            25..85 => {
                self.tally.fault(Fault::RequestDelayed);
                self.network.delay(later, Message::Request(envelope));
                Ok(())
            }
            85..125 => {
                self.tally.fault(Fault::RequestDuplicated);
                self.network.delay(later, Message::Request(envelope.clone()));
                self.serve(envelope)
            }
            _ => self.serve(envelope),
        }
    }

    /// Lets a message that was under way arrive.
    pub(super) fn arrive(&mut self, message: Message) -> Result<(), Vec<Finding>> {
        match message {
            Message::Request(envelope) => {
                if !self.awaits(&envelope) {
                    self.tally.fault(Fault::RequestLate);
                }
                self.serve(envelope)
            }
            Message::Reply(envelope, outcome) => {
                if !self.awaits(&envelope) {
                    self.tally.fault(Fault::ReplyLate);
                }
                self.reply(&envelope, &outcome);
                Ok(())
            }
        }
    }

    /// Puts a request to the system and sends the reply back.
    fn serve(&mut self, envelope: Envelope) -> Result<(), Vec<Finding>> {
        let Some(outcome) = self.execute_or_fail(&envelope)? else {
            self.reply_nothing(&envelope);
            return Ok(());
        };
        let later = self.clock + self.rng.between(1, 400);
        match if self.healed { 999 } else { self.rng.below(1_000) } {
            0..50 => self.tally.fault(Fault::ReplyLost),
            50..85 => {
                self.tally.fault(Fault::ReplyDelayed);
                self.network.delay(later, Message::Reply(envelope, Box::new(outcome)));
            }
            85..105 => {
                self.tally.fault(Fault::ReplyDuplicated);
                self.reply(&envelope, &outcome);
                self.network.delay(later, Message::Reply(envelope, Box::new(outcome)));
            }
            _ => self.reply(&envelope, &outcome),
        }
        Ok(())
    }

    /// Puts a request to the system, unless the machinery between fails. What it applied before it
    /// failed is judged like everything else; only its sender does not hear of it.
    fn execute_or_fail(&mut self, envelope: &Envelope) -> Result<Option<Outcome>, Vec<Finding>> {
        let fault = match if self.healed { 999 } else { self.rng.below(1_000) } {
            0..8 => Fault::InfraNotApplied,
            8..16 => Fault::InfraUnknownNotApplied,
            16..24 => Fault::InfraUnknownApplied,
            24..30 => Fault::InfraCorrupt,
            _ => return self.execute(envelope),
        };
        if fault == Fault::InfraUnknownApplied && self.execute(envelope)?.is_none() {
            return Ok(None);
        }
        self.tally.fault(fault);
        let (operation, message) = (envelope.request.name(), fault.words().into());
        let error = CoordError::BackendError(match fault {
            Fault::InfraNotApplied => InfraError::NotApplied { operation, message },
            Fault::InfraCorrupt => InfraError::Corrupt { operation, message },
            _ => InfraError::Unknown { operation, message },
        });
        self.tally.failure(&envelope.request, &error);
        self.trace.line(format_args!("{} {operation}: {}", self.clock, fault.words()));
        Ok(Some(Err(error)))
    }

    /// Puts a request to the system and hears the oracles.
    fn execute(&mut self, envelope: &Envelope) -> Result<Option<Outcome>, Vec<Finding>> {
        let Envelope { tenant, .. } = envelope;
        let mut now = self.clock;
        let door = self.settings.door;
        // Where the backend owns the clock, nobody sets it back.
        if !self.healed && self.rng.chance(25) && door != Door::Awaited {
            self.tally.fault(Fault::ClockSetBack);
            now = now.saturating_sub(self.rng.between(1, 120));
        }
        let now = LogicalTime::from_millis(now);
        let request = &as_asked_at(&envelope.request, now);
        let run = (*tenant, request.run());
        self.look_again(run)?;
        let put: Put<S> = match door {
            Door::Plain | Door::Awaited => system::call,
            Door::Session => system::session::call_in_session,
        };
        let Some(outcome) = self.put(put, now, *tenant, request) else {
            return Ok(None);
        };
        self.check_rotation(now, *tenant, request, &outcome)?;
        let mut events = self.system.take_events();
        if let Some(doctor) = &self.doctor {
            doctor.publish(request, &outcome, &mut events);
        }
        let after = self.look_at(now, *tenant, run.1);
        let before = self.views.remove(&run);
        let ended = before.as_ref().is_some_and(|view| view.record.status.is_terminal());
        self.tally.outcome(request, &outcome, ended);
        self.note(envelope, now, &outcome);
        let seen = Observation {
            now,
            until: now,
            tenant: *tenant,
            request,
            outcome: &outcome,
            events: &events,
            before: before.as_ref(),
            after: after.as_ref(),
            processed: envelope.processed,
        };
        let findings = judge(&seen, &mut self.model);
        if let Some(after) = after {
            self.views.insert(run, after);
        }
        if findings.is_empty() { Ok(Some(outcome)) } else { Err(findings) }
    }

    /// Puts a request to the system, past the bug if there is one.
    fn put(
        &mut self,
        put: Put<S>,
        now: LogicalTime,
        tenant: TenantId,
        request: &Request,
    ) -> Option<Outcome> {
        let (system, scratch) = (&mut self.system, &mut self.scratch);
        match &mut self.doctor {
            Some(doctor) => doctor.call(&mut Desk { system, put, scratch, now, tenant }, request),
            None => put(system, now, tenant, request, scratch),
        }
    }

    fn look_at(&mut self, at: LogicalTime, tenant: TenantId, run: RunId) -> Option<RunView> {
        let mut view = RunView::take(&mut self.system, at, tenant, run)?;
        if let Some(doctor) = &mut self.doctor {
            doctor.show(&mut view);
        }
        Some(view)
    }

    /// Asks for another worker's candidates, which begin with another shard if there is one.
    fn check_rotation(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        request: &Request,
        outcome: &Outcome,
    ) -> Result<(), Vec<Finding>> {
        let (
            Request::Candidates { run, worker, limit },
            Ok(system::Answer::Candidates { shards, .. }),
        ) = (request, outcome)
        else {
            return Ok(());
        };
        let next = WorkerId::from_raw(worker.as_raw() + 1);
        let (run, limit) = (*run, *limit);
        let request = Request::Candidates { run, worker: next, limit };
        let asked = self.put(system::call, now, tenant, &request);
        match (shards.as_slice(), asked) {
            ([first, _, ..], Some(Ok(system::Answer::Candidates { shards: others, .. })))
                if others.first() == Some(first) =>
            {
                let text = format!("{worker} and {next} are both offered {first} first");
                Err(vec![Finding { oracle: ROTATION.name, text }])
            }
            _ => Ok(()),
        }
    }

    fn note(&mut self, envelope: &Envelope, now: LogicalTime, outcome: &Outcome) {
        let (kind, sender) = match envelope.from {
            Actor::Worker { worker, .. } => ("worker", worker + 1),
            Actor::Operator { .. } => ("operator", 0),
        };
        let tenant = envelope.tenant.as_bytes().first().copied().unwrap_or_default();
        let request = &envelope.request;
        let (run, shard) = (request.run().as_raw(), request.shard().map_or(0, |id| id.as_raw()));
        let op = request.op().map_or(0, |op| op.as_raw());
        let fence = match request {
            Request::Holder { lease, .. } => lease.fence().as_raw(),
            _ => 0,
        };
        let answer = match outcome {
            Ok(answer) if answer.is_replay() => "replayed",
            Ok(_) => "ok",
            Err(refusal) => coverage::name(refusal),
        };
        self.trace.line(format_args!(
            "{} tenant {tenant} {kind} {sender}: {} run {run} shard {shard:x} fence {fence} \
             op {op} at {}: {answer}",
            self.clock,
            request.name(),
            now.as_millis(),
        ));
    }

    fn awaits(&mut self, envelope: &Envelope) -> bool {
        let pending = match self.actor_mut(envelope.from) {
            Some(Known::Worker(worker)) => worker.pending.as_ref(),
            Some(Known::Operator(operator)) => operator.pending.as_ref(),
            None => None,
        };
        pending.is_some_and(|pending| pending.id == envelope.id)
    }

    /// A request that its sender's own planning refused: it never left.
    fn reply_nothing(&mut self, envelope: &Envelope) {
        if !self.awaits(envelope) {
            return;
        }
        if let Some(Known::Worker(worker)) = self.actor_mut(envelope.from) {
            worker.pending = None;
            worker.held.clear();
        }
    }

    fn reply(&mut self, envelope: &Envelope, outcome: &Outcome) {
        // What failed in a way that may pass is asked again, with the same operation id.
        let may_pass =
            matches!(outcome, Err(CoordError::BackendError(error)) if error.is_retryable());
        if may_pass {
            return;
        }
        let awaited = self.awaits(envelope);
        let stubborn = !self.healed && self.rng.chance(150);
        let (Actor::Worker { tenant, .. } | Actor::Operator { tenant }) = envelope.from;
        let Some(tag) = self.tenants.get(tenant).map(|tenant| tenant.tag) else { return };
        match self.actor_mut(envelope.from) {
            Some(Known::Worker(worker)) => {
                if awaited {
                    worker.pending = None;
                }
                let granted = matches!(outcome, Ok(system::Answer::Granted(_)));
                // Whoever moved on still takes a shard that it is given late.
                if awaited || granted {
                    worker.learn(tag, &envelope.request, outcome, stubborn);
                }
            }
            Some(Known::Operator(operator)) if awaited => operator.pending = None,
            Some(Known::Operator(_)) | None => {}
        }
        if let Some(world) = self.tenants.get_mut(tenant) {
            world.hear_of_limits(&envelope.request, outcome);
        }
    }

    /// Looks at a run before it is asked about, if another was asked about last.
    fn look_again(&mut self, run: (TenantId, RunId)) -> Result<(), Vec<Finding>> {
        if self.last_run.replace(run) == Some(run) {
            return Ok(());
        }
        self.check_unchanged(run)
    }

    fn check_unchanged(&mut self, run: (TenantId, RunId)) -> Result<(), Vec<Finding>> {
        if !self.views.contains_key(&run) {
            return Ok(());
        }
        let view = self.look_at(LogicalTime::from_millis(self.clock), run.0, run.1);
        if visible::same(self.views.get(&run), view.as_ref()) {
            return Ok(());
        }
        let (tenant, run) = run;
        let text = format!("run {run} of tenant {tenant} changed while others were asked about");
        Err(vec![Finding { oracle: ISOLATION.name, text }])
    }

    /// Looks at every run, and not only at the one that was asked about last.
    pub(super) fn look_around(&mut self) -> Result<(), Vec<Finding>> {
        let runs: Vec<_> = self.views.keys().copied().collect();
        runs.into_iter().try_for_each(|run| self.check_unchanged(run))
    }

    /// Restores a backup, in a way: every fence below some number is stale from now on. What all
    /// runs look like afterwards is judged by the requests that follow.
    pub(super) fn raise_floor(&mut self) {
        if self.settings.scarce == Some(Fault::FencesScarce) {
            return;
        }
        let runs = self.model.tenants.values().flat_map(|tenant| tenant.runs.values());
        let fences = runs.flat_map(|run| run.shards.values()).map(|shard| shard.fence);
        let floor = match self.rng.chance(700) {
            true => fences.max().unwrap_or_default().saturating_add(self.rng.between(1, 1 << 20)),
            false => {
                let fences: Vec<u64> = fences.collect();
                self.rng.pick(&fences).map_or(1, |fence| fence.saturating_add(1))
            }
        };
        let Ok(fence) = FenceEpoch::from_raw(floor) else { return };
        self.tally.fault(Fault::FloorRaised);
        self.trace.line(format_args!("{} the fence floor rises to {floor}", self.clock));
        self.system.raise_fence_floor(fence);
        self.model.raise_floor(floor);
        let now = LogicalTime::from_millis(self.clock);
        if let Some(doctor) = &mut self.doctor {
            doctor.raise_floor(floor);
        }
        let runs: Vec<_> = self.views.keys().copied().collect();
        for (tenant, run) in runs {
            if let Some(seen) = self.look_at(now, tenant, run) {
                self.views.insert((tenant, run), seen);
            }
        }
    }

    pub(super) fn actor_mut(&mut self, actor: Actor) -> Option<Known<'_>> {
        match actor {
            Actor::Worker { tenant, worker, life } => {
                let worker = self.tenants.get_mut(tenant)?.workers.get_mut(worker)?;
                (worker.life == life).then_some(Known::Worker(worker))
            }
            Actor::Operator { tenant } => {
                Some(Known::Operator(&mut self.tenants.get_mut(tenant)?.operator))
            }
        }
    }
}

impl TenantWorld {
    /// An operator whose manifest did not fit tries a smaller one, down to none.
    fn hear_of_limits(&mut self, request: &Request, outcome: &Outcome) {
        if let (
            Some(shards),
            Err(CoordError::ShardLimitExceeded(_) | CoordError::ResourceExhausted(_)),
        ) = (request.manifest(), outcome)
        {
            self.operator.shards_max = Some(shards.len() / 2);
            self.full = shards.len() <= 1;
        }
    }
}

/// Operations carry time spans, which end now at the earliest.
fn as_asked_at(request: &Request, now: LogicalTime) -> Request {
    let mut request = request.clone();
    match &mut request {
        Request::RequestSplit { expires_at: moment, .. }
        | Request::Holder { act: HolderAct::Decline { not_before: moment }, .. } => {
            *moment = now.max(*moment);
        }
        _ => {}
    }
    request
}

/// An actor in its present life.
pub(super) enum Known<'a> {
    Worker(&'a mut super::belief::Worker),
    Operator(&'a mut super::belief::Operator),
}
