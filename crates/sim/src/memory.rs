//! Worlds around the in-memory reference.
//!
//! The reference executes one request at a time, so each is judged by itself: with its answer, its
//! events, and its run before and after. Between the processes of the workers and the server is a
//! wire that loses, delays, repeats and reorders messages.

mod reference;
mod server;
mod settings;
mod wire;

pub(crate) use reference::Reference;
pub use settings::{Interface, Settings};
pub(crate) use wire::FaultyWire;

use std::collections::BTreeMap;
use std::sync::Arc;

use shardwright_contracts::{BoxFuture, FenceEpoch, LogicalTime, RunId, TenantId};
use shardwright_coordination::{Backend, InMemoryCoordinator, RunStatus, ShardLimits};

use server::{Entry, Executed, Server};

use crate::actor::Actor;
use crate::coverage;
use crate::director::{Ask, Call, Cast, Director, Findings, Lived, Subject, Tenant, Told};
use crate::fault::Fault;
use crate::ground::BEGINNING_US;
use crate::ground::executor::{Clockwork, TaskId};
use crate::keyspace::Point;
use crate::model::Model;
use crate::oracle::{Finding, ISOLATION, Observation, ROTATION, judge};
use crate::planted::protocol::{ProtocolBug, configured};
use crate::planted::protocol_doctor::Doctored;
use crate::request::operation::CollectClaimCandidates;
use crate::request::{Reply, Request, RequestExt};
use crate::rng::Rng;
use crate::tally::{RunTally, Tally};
use crate::trace::Trace;
use crate::visible::{self, RunView};

/// How often all runs are looked at, and not only the one that a request is about.
const LOOK_AROUND: u64 = 32;
/// How many processes the workers live in.
const PROCESSES: usize = 5;

pub(crate) type Address = (TenantId, RunId);
type MemoryDirector = Director<Memory>;

/// What a world leaves behind.
#[derive(Clone, Debug)]
pub struct Report {
    /// Violations; none, if all is well.
    pub findings: Vec<Finding>,
    /// What happened, counted.
    pub tally: Tally,
    /// What happened, line by line.
    pub trace: Trace,
}

/// Runs a world: `acts` of chaos around the in-memory reference, then healing.
///
/// Where shards or bytes are scarce, a world may end early: nothing more fits in, and every run has
/// ended. Then it heals, and another world takes over.
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
    let mut settings = Settings::draw(&mut rng);
    let used = configured(bug, &mut settings);
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

/// A call that was sent, which the server may execute more than once.
struct Sent {
    actor: Option<Actor>,
    request: Option<Request>,
    processed: Option<(Point, Point)>,
}

/// The reference, and what was accepted by it.
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
        tenants: tenants.iter().map(Tenant::account).collect(),
        limits: ShardLimits { per_tenant, total },
        cooldown_ms: runtime.claim_cooldown_interval_ms,
        skew_ms: 0,
        floor: runtime.fence_floor.as_raw(),
        bytes_capacity: Some(runtime.slab_capacity as usize),
    };
    let clock = Clockwork::new(BEGINNING_US);
    let reference = Reference::new(coordinator, interface);
    let system = Doctored::new(reference, bug, model.floor);
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
        let text = format!("run {run} of tenant {tenant} changed while others were asked about");
        Err(vec![Finding { oracle: ISOLATION.name, text }])
    }

    /// Looks at every run, and not only at the one of the last request.
    fn look_around(&self) -> Result<(), Findings> {
        let clock_ms = self.clock.now_ms();
        self.views.keys().try_for_each(|address| {
            self.check_unchanged(*address, self.server.look_at(clock_ms, *address).as_ref())
        })
    }
}

/// Neighbouring workers are offered different shards first.
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
    type Later = std::convert::Infallible;
    const MISUSE: (u64, u64) = (190, 180);

    fn model(&self) -> &Model {
        &self.model
    }

    fn open(director: &mut MemoryDirector, process: usize) {
        let opened = director.opening(process);
        opened(director.subject.wire.clone());
    }

    fn put(&self, port: FaultyWire, ask: Ask, _process: usize) -> BoxFuture<'static, Told> {
        Box::pin(async move {
            match ask {
                Ask::Request { tenant, request, .. } => {
                    Told::Answer(Box::new(port.call(tenant, request.as_ref()).await))
                }
                Ask::Collect(_) => Told::Collected(Ok(Vec::new())),
                Ask::ListActive => Told::Active(Ok(Vec::new())),
            }
        })
    }

    fn called(director: &mut MemoryDirector, task: TaskId, ask: Ask, call: &Call) {
        let actor = call.actor;
        let sent = match ask {
            Ask::Request { request, processed, .. } => {
                Sent { actor, request: Some(request), processed }
            }
            Ask::Collect(_) | Ask::ListActive => Sent { actor, request: None, processed: None },
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
            // A worker that moved on still accepts a shard that it is granted late.
            if let (Some((actor, request)), Ok(Reply::Granted(_))) = (sent, &late.answer) {
                director.learn_outcome(actor, &request, &late.answer);
            }
        }
        Ok(())
    }

    fn judge_answer(_: &mut MemoryDirector, _: TaskId, _: &Told) -> Result<(), Finding> {
        // The wire changes no answer, and the server's are judged where they are given.
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
            director.subject.look_around()?;
        }
        match director.rng.below(1_000) {
            0..860 => worker_act(director),
            860..955 => operator_act(director),
            955..970 => deadline_act(director)?,
            970..976 => jump(director),
            976 if director.rng.chance(400) => raise_floor(director),
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
                && director.subject.model.tenants.get(&tenant.id).is_some_and(|account| {
                    account.runs.values().all(|run| run.status.is_terminal())
                })
        })
    }

    fn is_hopeless(director: &mut MemoryDirector) -> bool {
        director.subject.scarce.is_some() && director.rng.chance(150)
    }

    fn happen(_: &mut MemoryDirector, later: std::convert::Infallible) {
        match later {}
    }

    fn heal(director: &mut MemoryDirector) {
        director.subject.server.heal();
        director.subject.wire.heal();
    }

    fn conclude(director: &mut MemoryDirector) -> Result<(), Findings> {
        director.subject.look_around()
    }

    fn count(&self, tally: &mut RunTally) {
        for (fault, count) in self.wire.faults() {
            *tally.counts.faults.entry(fault).or_default() += count;
        }
        let runs = self.model.tenants.values().flat_map(|tenant| tenant.runs.values());
        tally.counts.runs = runs.filter(|run| run.status.is_terminal()).count() as u64;
    }
}

/// A worker acts that can, or the operator if none can.
fn worker_act(director: &mut MemoryDirector) {
    let tenant = director.rng.index(director.tenants.len());
    let now_ms = director.clock.now_ms();
    let Some(world) = director.tenants.get(tenant) else { return };
    let runs = director.subject.model.tenants.get(&world.id).map(|account| &account.runs);
    let has_work =
        runs.is_some_and(|runs| runs.values().any(|run| run.status == RunStatus::Active));
    let able: Vec<usize> = (0..world.workers.len())
        .filter(|index| director.is_up(director.home(tenant, *index)))
        .filter(|index| {
            let pending = world.workers.get(*index).and_then(|worker| worker.pending.as_ref());
            pending.is_none_or(|pending| pending.id == 0 && pending.retry_at <= now_ms)
        })
        .collect();
    match director.rng.pick(&able).copied() {
        Some(worker) if has_work => director.work(tenant, worker),
        _ => director.operate(tenant),
    }
}

fn operator_act(director: &mut MemoryDirector) {
    let tenant = director.rng.index(director.tenants.len());
    director.operate(tenant);
}

/// Has a worker act at the very moment at which a lease ends.
fn deadline_act(director: &mut MemoryDirector) -> Result<(), Findings> {
    let tenant = director.rng.index(director.tenants.len());
    let now_ms = director.clock.now_ms();
    let Some(world) = director.tenants.get(tenant) else { return Ok(()) };
    let deadlines: Vec<(u64, usize)> = world
        .workers
        .iter()
        .enumerate()
        .filter(|(_, worker)| worker.pending.is_none())
        .flat_map(|(index, worker)| {
            worker.held.iter().map(move |held| (held.lease.deadline().as_millis(), index))
        })
        .filter(|(deadline, _)| (now_ms..now_ms + 1_000).contains(deadline))
        .collect();
    let Some(&(deadline_ms, worker)) = director.rng.pick(&deadlines) else {
        worker_act(director);
        return Ok(());
    };
    director.next_act_us = deadline_ms * 1_000;
    director.run_until_act()?;
    director.tally.counts.fault(Fault::DeadlineHit);
    director.work(tenant, worker);
    Ok(())
}

fn jump(director: &mut MemoryDirector) {
    let by_ms = director.rng.between(150, 1_500);
    director.executor.advance_to(director.clock.now_us() + by_ms * 1_000);
    director.tally.counts.fault(Fault::ClockJumped);
    director.note(format_args!("the clock jumps"));
}

/// Imitates a restored backup: every fence below some number is stale from now on. What all runs
/// look like afterwards is judged by the requests that follow.
fn raise_floor(director: &mut MemoryDirector) {
    let Director { subject, rng, .. } = director;
    if subject.scarce == Some(Fault::FencesScarce) {
        return;
    }
    let runs = subject.model.tenants.values().flat_map(|tenant| tenant.runs.values());
    let fences = runs.flat_map(|run| run.shards.values()).map(|shard| shard.fence);
    let floor = match rng.chance(700) {
        true => fences.max().unwrap_or_default().saturating_add(rng.between(1, 1 << 20)),
        false => {
            let fences: Vec<u64> = fences.collect();
            rng.pick(&fences).map_or(1, |fence| fence.saturating_add(1))
        }
    };
    let Ok(fence) = FenceEpoch::from_raw(floor) else { return };
    subject.server.raise_floor(fence);
    subject.model.raise_floor(floor);
    let clock_ms = subject.clock.now_ms();
    for (address, view) in &mut subject.views {
        if let Some(seen) = subject.server.look_at(clock_ms, *address) {
            *view = seen;
        }
    }
    director.tally.counts.fault(Fault::FloorRaised);
    director.note(format_args!("the fence floor rises to {floor}"));
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
