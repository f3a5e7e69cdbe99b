//! Worlds around the in-memory reference.
//!
//! The reference executes one request at a time, so each request is judged on its own: with its
//! answer, its events, and its run before and after. The link between the workers' processes and
//! the server loses, delays, repeats and reorders messages.

mod acts;
mod reference;
mod server;
mod settings;
mod wire;

pub(crate) use reference::Reference;
pub use settings::{Interface, Settings};
pub(crate) use wire::FaultyWire;

use std::collections::BTreeMap;
use std::sync::Arc;

use shardwright_contracts::{BoxFuture, LogicalTime, RunId, TenantId};
use shardwright_coordination::{Backend, InMemoryCoordinator, ShardLimits};

use server::{Entry, Executed, Server};

use crate::actor::Actor;
use crate::coverage;
use crate::director::{
    Call, CallReply, CallRequest, Cast, Director, Findings, Lived, Subject, Tenant,
};
use crate::fault::Fault;
use crate::keyspace::Point;
use crate::model::Model;
use crate::oracle::{Finding, ISOLATION, Observation, ROTATION, judge};
use crate::planted::protocol::{ProtocolBug, configured};
use crate::planted::protocol_doctor::Doctored;
use crate::report::{Table, rows_of_protocol};
use crate::request::operation::CollectClaimCandidates;
use crate::request::{Reply, Request, RequestExt};
use crate::rng::Rng;
use crate::runtime::BEGINNING_US;
use crate::runtime::executor::{Clockwork, TaskId};
use crate::sweep::{self, World};
use crate::tally::{RunTally, Tally};
use crate::trace::Trace;
use crate::visible::{self, RunView};

/// Number of requests between two checks of all runs.
const LOOK_AROUND: u64 = 32;
/// Number of processes.
const PROCESSES: usize = 5;

pub(crate) type Address = (TenantId, RunId);
type MemoryDirector = Director<Memory>;

/// Acts of chaos per seed.
pub const ACTS: u64 = 2_000;
/// Number of seeds from which on a sweep must have seen every fault and refusal.
pub const FULL_SWEEP: u64 = 1_000;

/// The result of a world.
pub type Report = sweep::Report<Tally>;

/// Worlds around the in-memory reference.
pub struct MemoryWorld;

impl World for MemoryWorld {
    type Tally = Tally;
    const FLAGS: &'static [&'static str] = &[];
    const ACTS: u64 = ACTS;

    fn live(seed: u64, acts: u64, keep_trace: bool) -> Report {
        live(seed, acts, keep_trace)
    }

    fn add(sum: &mut Tally, one: &Tally) {
        sum.add(one);
    }

    fn remark(acts: u64, tally: &Tally) -> Vec<String> {
        let mut remarks = Vec::new();
        if tally.ended_steps * 100 > tally.steps * 20 {
            let share = (tally.ended_steps * 100).div_ceil(tally.steps);
            remarks.push(format!("spent {share} % of its steps in ended runs"));
        }
        if tally.chaos_steps < acts {
            remarks.push(format!("had only {} acts of chaos", tally.chaos_steps));
        }
        remarks
    }

    fn missing(tally: &Tally) -> Vec<String> {
        let Tally { seeds, steps, accepted_steps, refused_steps, .. } = tally;
        let mut missing = Vec::new();
        if accepted_steps * 100 < steps * 30 {
            missing.push(format!("only {accepted_steps} of {steps} steps were accepted"));
        }
        if refused_steps * 100 < steps * 10 {
            missing.push(format!("only {refused_steps} of {steps} steps were refused"));
        }
        if *seeds >= FULL_SWEEP {
            missing.extend(coverage::missing(tally));
        }
        missing
    }

    fn rows(tally: &Tally, table: &mut Table) {
        rows_of_protocol(tally, table);
    }
}

/// Runs a world: `acts` of chaos around the in-memory reference, then healing.
///
/// If shards or bytes are scarce, chaos may end early: every run has ended, and no other run fits.
#[must_use]
pub fn live(seed: u64, acts: u64, keep_trace: bool) -> Report {
    live_with(seed, acts, keep_trace, None)
}

/// Runs a world in which a bug is planted.
#[must_use]
pub fn live_with(seed: u64, acts: u64, keep_trace: bool, bug: Option<ProtocolBug>) -> Report {
    let mut report = live_once(Rng::new(seed), acts, Trace::new(keep_trace), bug);
    for successor in 1.. {
        let left = acts.saturating_sub(report.tally.chaos_steps);
        if left == 0 || !report.findings.is_empty() {
            break;
        }
        // No seed of a sweep is as large.
        let rng = Rng::new(seed.wrapping_add(successor << 32));
        let next = live_once(rng, left, report.trace, bug);
        report.tally.add(&next.tally);
        report = Report { tally: Tally { seeds: 1, ..report.tally }, ..next };
    }
    report
}

fn live_once(mut rng: Rng, acts: u64, trace: Trace, bug: Option<ProtocolBug>) -> Report {
    let settings = Settings::draw(&mut rng);
    let used = configured(bug, &settings);
    match InMemoryCoordinator::try_new(used.runtime) {
        Ok(coordinator) => {
            let world = world(coordinator, settings, rng, trace, bug);
            let Lived { findings, tally, trace } = world.live(acts);
            Report { findings, tally: tally.counts, trace }
        }
        Err(error) => {
            let finding = Finding { oracle: "setup", text: error.to_string() };
            Report { findings: vec![finding], tally: Tally::default(), trace }
        }
    }
}

/// A sent call. The server may execute it more than once.
struct Sent {
    actor: Option<Actor>,
    request: Option<Request>,
    processed: Option<(Point, Point)>,
}

/// The reference, and the model of what it accepted.
pub(crate) struct Memory {
    clock: Clockwork,
    server: Arc<Server>,
    wire: FaultyWire,
    model: Model,
    views: BTreeMap<Address, RunView>,
    sent: BTreeMap<TaskId, Sent>,
    scarce: Option<Fault>,
}

fn world(
    coordinator: InMemoryCoordinator,
    settings: Settings,
    mut rng: Rng,
    trace: Trace,
    bug: Option<ProtocolBug>,
) -> MemoryDirector {
    let Settings { workers, open_runs, runtime, interface, scarce } = settings;
    let tenants = Tenant::all(&workers);
    let (per_tenant, total) = (runtime.max_shards_per_tenant, runtime.max_total_shards);
    let model = Model {
        tenants: tenants.iter().map(Tenant::new_model).collect(),
        limits: ShardLimits { per_tenant, total },
        cooldown_ms: runtime.claim_cooldown_interval_ms,
        skew_ms: 0,
        floor: runtime.fence_floor.as_raw(),
        bytes_capacity: Some(runtime.slab_capacity as usize),
    };
    let clock = Clockwork::new(BEGINNING_US);
    let reference = Reference::new(coordinator, interface);
    let system = Doctored::new(reference, bug);
    let server = Arc::new(Server::new(system, interface, Rng::new(rng.next())));
    let wire = FaultyWire::new(Arc::clone(&server), clock.clone(), Rng::new(rng.next()));
    let (views, sent) = (BTreeMap::new(), BTreeMap::new());
    let subject = Memory { clock: clock.clone(), server, wire, model, views, sent, scarce };
    let cast = Cast { processes: PROCESSES, tenants, open_runs };
    let mut director = Director::new(clock, rng, trace, cast, subject);
    scarce.into_iter().for_each(|fault| director.tally.counts.fault(fault));
    director
}

impl Memory {
    /// Judges one request.
    fn judge(&mut self, done: &Executed, tally: &mut Tally) -> Result<(), Findings> {
        let address = (done.tenant, done.request.run_id());
        if let Some(before) = &done.before {
            self.check_unchanged(address, before.as_ref())?;
        }
        check_rotation(done)?;
        let before = self.views.remove(&address);
        let ended = before.as_ref().is_some_and(|view| view.record.status.is_terminal());
        tally.outcome(&done.request, &done.answer, ended);
        let seen = Observation {
            now: done.now,
            until: done.now,
            tenant: done.tenant,
            request: &done.request,
            outcome: &done.answer,
            events: &done.events,
            before: before.as_ref(),
            after: done.after.as_ref(),
            processed: self.sent.get(&done.task).and_then(|sent| sent.processed),
        };
        let findings = judge(&seen, &mut self.model);
        if let Some(after) = &done.after {
            self.views.insert(address, after.clone());
        }
        if findings.is_empty() { Ok(()) } else { Err(findings) }
    }

    fn check_unchanged(&self, address: Address, now: Option<&RunView>) -> Result<(), Findings> {
        let known = self.views.get(&address);
        if known.is_none() || visible::same(known, now) {
            return Ok(());
        }
        let (tenant, run) = address;
        let text = format!("run {run} of tenant {tenant} changed, though no request named it");
        Err(vec![Finding { oracle: ISOLATION.name, text }])
    }

    /// Judges all runs, not only the one of the last request.
    fn judge_all_runs(&self) -> Result<(), Findings> {
        let clock_ms = self.clock.now_ms();
        self.views.keys().try_for_each(|address| {
            self.check_unchanged(*address, self.server.view_run(clock_ms, *address).as_ref())
        })
    }
}

/// Judges that workers with neighbouring ids are offered different shards first.
fn check_rotation(done: &Executed) -> Result<(), Findings> {
    let (
        Request::CollectClaimCandidates(CollectClaimCandidates { worker, .. }),
        Ok(Reply::Candidates(shards, _)),
        Some(Ok(Reply::Candidates(others, _))),
    ) = (&done.request, &done.answer, &done.of_next_worker)
    else {
        return Ok(());
    };
    match shards.as_slice() {
        [first, _, ..] if others.first() == Some(first) => {
            let text = format!("{worker} and the next worker are both offered {first} first");
            Err(vec![Finding { oracle: ROTATION.name, text }])
        }
        _ => Ok(()),
    }
}

impl Subject for Memory {
    type Port = FaultyWire;
    type Scheduled = std::convert::Infallible;
    const MISUSE: (u64, u64) = (190, 180);

    fn model(&self) -> &Model {
        &self.model
    }

    fn open(director: &mut MemoryDirector, process: usize) {
        let opened = director.opening(process);
        opened(director.subject.wire.clone());
    }

    fn put(
        &self,
        port: FaultyWire,
        sent: CallRequest,
        _process: usize,
    ) -> BoxFuture<'static, CallReply> {
        Box::pin(async move {
            match sent {
                CallRequest::Request { tenant, request, .. } => {
                    CallReply::Answer(Box::new(port.call(tenant, request.as_ref()).await))
                }
                CallRequest::Collect(_) => CallReply::Collected(Ok(Vec::new())),
                CallRequest::ListActive => CallReply::Active(Ok(Vec::new())),
            }
        })
    }

    fn called(director: &mut MemoryDirector, task: TaskId, sent: CallRequest, call: &Call) {
        let actor = call.actor;
        let sent = match sent {
            CallRequest::Request { request, processed, .. } => {
                Sent { actor, request: Some(request), processed }
            }
            CallRequest::Collect(_) | CallRequest::ListActive => {
                Sent { actor, request: None, processed: None }
            }
        };
        director.subject.sent.insert(task, sent);
    }

    fn follow(director: &mut MemoryDirector) -> Result<(), Findings> {
        for entry in director.subject.server.take_entries() {
            match entry {
                Entry::Fault(fault) => director.tally.counts.fault(fault),
                Entry::Failed(fault, request, error) => {
                    director.tally.counts.fault(fault);
                    director.tally.counts.failure(&request, &error);
                    director.note(format_args!("{}: {}", request.label(), fault.words()));
                }
                Entry::Executed(done) => {
                    director.tally.counts.steps += 1;
                    note(director, &done);
                    director.subject.judge(&done, &mut director.tally.counts)?;
                }
            }
        }
        for late in director.subject.wire.take_late() {
            let sent = director.subject.sent.get(&late.task);
            let sent = sent.and_then(|sent| Some((sent.actor?, sent.request.clone()?)));
            // A worker that has moved on still accepts a late grant.
            if let (Some((actor, request)), Ok(Reply::Granted(_))) = (sent, &late.answer) {
                director.learn_outcome(actor, &request, &late.answer);
            }
        }
        Ok(())
    }

    fn judge_answer(_: &mut MemoryDirector, _: TaskId, _: &CallReply) -> Result<(), Finding> {
        // The link changes no answer. The server's answers are judged when it executes requests.
        Ok(())
    }

    fn pause_us(rng: &mut Rng) -> u64 {
        match rng.below(100) {
            0..50 => 0,
            50..96 => rng.between(1, 8) * 1_000,
            _ => rng.between(8, 60) * 1_000,
        }
    }

    fn act(director: &mut MemoryDirector) -> Result<(), Findings> {
        if director.tally.counts.chaos_steps.is_multiple_of(LOOK_AROUND) {
            director.subject.judge_all_runs()?;
        }
        match director.rng.below(1_000) {
            0..860 => acts::worker_act(director),
            860..955 => acts::operator_act(director),
            955..970 => acts::deadline_act(director)?,
            970..976 => acts::jump(director),
            976 if director.rng.chance(400) => acts::raise_floor(director),
            976..992 => {
                let process = director.rng.index(director.processes.len());
                let long_ms = director.rng.between(30, 900);
                director.pause(process, long_ms);
            }
            _ => {
                let process = director.rng.index(director.processes.len());
                let long_ms = director.rng.between(5, 400);
                director.crash(process, long_ms);
            }
        }
        Ok(())
    }

    fn is_exhausted(director: &MemoryDirector) -> bool {
        director.tenants.iter().all(|tenant| {
            tenant.full
                && director.subject.model.tenants.get(&tenant.id).is_some_and(|tenant_model| {
                    tenant_model.runs.values().all(|run| run.status.is_terminal())
                })
        })
    }

    fn is_hopeless(director: &mut MemoryDirector) -> bool {
        director.subject.scarce.is_some() && director.rng.chance(150)
    }

    fn run_scheduled(_: &mut MemoryDirector, event: std::convert::Infallible) {
        match event {}
    }

    fn heal(director: &mut MemoryDirector) {
        director.subject.server.heal();
        director.subject.wire.heal();
    }

    fn conclude(director: &mut MemoryDirector) -> Result<(), Findings> {
        director.subject.judge_all_runs()
    }

    fn count(&self, tally: &mut RunTally) {
        for (fault, count) in self.wire.faults() {
            *tally.counts.faults.entry(fault).or_default() += count;
        }
        let runs = self.model.tenants.values().flat_map(|tenant| tenant.runs.values());
        tally.counts.runs = runs.filter(|run| run.status.is_terminal()).count() as u64;
    }
}

fn note(director: &mut MemoryDirector, done: &Executed) {
    let Executed { tenant, request, answer, now, .. } = done;
    let tenant = tenant.as_bytes().first().copied().unwrap_or_default();
    let (run, shard) = (request.run_id().as_raw(), request.shard_id().map_or(0, |it| it.as_raw()));
    let op = request.op_id().map_or(0, |op| op.as_raw());
    let fence = request.lease().map_or(0, |lease| lease.fence().as_raw());
    let outcome = match answer {
        Ok(reply) if reply.is_replay() => "replayed",
        Ok(_) => "ok",
        Err(refusal) => coverage::name(refusal),
    };
    let (name, now_ms) = (request.label(), LogicalTime::as_millis(*now));
    director.note(format_args!(
        "tenant {tenant}: {name} run {run} shard {shard:x} fence {fence} op {op} at {now_ms}: \
         {outcome}"
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::Sweep;

    #[test]
    fn sweep_without_enough_activity_fails() {
        let tally = Tally { seeds: FULL_SWEEP, steps: 100, accepted_steps: 29, ..Tally::default() };
        let idle = Tally { steps: 100, ended_steps: 21, chaos_steps: 99, ..Tally::default() };
        let remarks = MemoryWorld::remark(100, &idle).into_iter().map(|text| (7, text)).collect();
        let sweep: Sweep<MemoryWorld> = Sweep { tally, remarks, ..Sweep::default() };
        let complaints = sweep.complaints().join("\n");
        for expected in [
            "only 29 of 100 steps were accepted",
            "only 0 of 100 steps were refused",
            "seed 7 spent 21 %",
            "seed 7 had only 99 acts of chaos",
            "no sender of a renew got: BackendError(Corrupt)",
            "renew was never refused for LeaseExpired",
            "this fault never occurred: request lost",
            "checkpoint was never replayed",
        ] {
            assert!(complaints.contains(expected), "{expected}");
        }
    }
}
