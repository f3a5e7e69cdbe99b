//! The director of a world around the run protocol: it decides which actor acts when.
//!
//! It uses one thread, one random stream and ordered maps only, so the same seed gives the same
//! trace. A world has two phases. In *chaos* faults occur. Then the world *heals*: faults stop, and
//! every run must end.
//!
//! The actors call a [`Subject`]: the in-memory reference ([`crate::memory`]) or the stored
//! coordinator ([`crate::stored`]). The subject injects its own faults, and judges effects and
//! answers.

mod acts;
mod healing;
mod subject;

pub(crate) use subject::{CallReply, CallRequest, Subject};

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use shardwright_contracts::{InfraError, RunId, TenantId, WorkerId};
use shardwright_coordination::CoordError;

use crate::actor::{Actor, Intent, Operator, Pending, Worker};
use crate::coverage;
use crate::fault::Fault;
use crate::model::TenantModel;
use crate::oracle::{ASSERTIONS, Finding, LIVENESS};
use crate::request::{Answer, Request, RequestExt};
use crate::rng::Rng;
use crate::runtime::BEGINNING_US;
use crate::runtime::executor::{Agenda, Clockwork, Executor, TaskId, TaskOwner};
use crate::runtime::fault::StoreFault;
use crate::tally::RunTally;
use crate::trace::Trace;

/// Age at which a call counts as stuck.
const STUCK_MS: u64 = 60_000;

pub(crate) type Findings = Vec<Finding>;

/// A process of a world.
pub(crate) struct Process<P> {
    pub(crate) life: u32,
    pub(crate) port: Option<P>,
    pub(crate) paused: bool,
}

/// A tenant's actors.
pub(crate) struct Tenant {
    pub(crate) id: TenantId,
    pub(crate) tag: u8,
    pub(crate) workers: Vec<Worker>,
    pub(crate) operator: Operator,
    pub(crate) next_run: u64,
    /// Whether no further shard can be registered.
    pub(crate) full: bool,
}

/// A call in progress.
pub(crate) struct Call {
    pub(crate) actor: Option<Actor>,
    pub(crate) process: usize,
    pub(crate) intent: Option<Intent>,
    pub(crate) attempts: u32,
    pub(crate) since_ms: u64,
    name: &'static str,
}

/// A scheduled event.
pub(crate) enum Scheduled<L> {
    Start(usize),
    Resume(usize),
    OfSubject(L),
}

/// What tasks report to the director.
enum Report<P> {
    Opened { process: usize, life: u32, port: P },
    Answered { task: TaskId, reply: CallReply },
}

type Reports<P> = Arc<Mutex<Vec<Report<P>>>>;

/// A world.
pub(crate) struct Director<S: Subject> {
    pub(crate) clock: Clockwork,
    pub(crate) executor: Executor,
    pub(crate) rng: Rng,
    pub(crate) processes: Vec<Process<S::Port>>,
    pub(crate) tenants: Vec<Tenant>,
    pub(crate) open_runs: usize,
    pub(crate) calls: BTreeMap<TaskId, Call>,
    agenda: Agenda<Scheduled<S::Scheduled>>,
    pub(crate) next_op: u64,
    pub(crate) next_act_us: u64,
    pub(crate) healed: bool,
    pub(crate) tally: RunTally,
    pub(crate) trace: Trace,
    reports: Reports<S::Port>,
    pub(crate) subject: S,
}

/// The processes and actors of a world.
pub(crate) struct Cast {
    pub(crate) processes: usize,
    pub(crate) tenants: Vec<Tenant>,
    /// Number of runs that a tenant works on at a time.
    pub(crate) open_runs: usize,
}

/// The result of a world.
pub(crate) struct Lived {
    pub(crate) findings: Findings,
    pub(crate) tally: RunTally,
    pub(crate) trace: Trace,
}

impl<S: Subject> Director<S> {
    pub(crate) fn new(clock: Clockwork, rng: Rng, trace: Trace, cast: Cast, subject: S) -> Self {
        let Cast { processes, tenants, open_runs } = cast;
        let mut director = Self {
            executor: Executor::new(clock.clone()),
            clock,
            rng,
            processes: Vec::new(),
            tenants,
            open_runs,
            calls: BTreeMap::new(),
            agenda: Agenda::default(),
            next_op: 0,
            next_act_us: BEGINNING_US,
            healed: false,
            tally: RunTally::default(),
            trace,
            reports: Arc::default(),
            subject,
        };
        director.tally.counts.seeds = 1;
        for process in 0..processes {
            director.processes.push(Process { life: 0, port: None, paused: false });
            director.start(process);
        }
        director
    }

    /// Runs chaos and healing.
    pub(crate) fn live(mut self, acts: u64) -> Lived {
        let findings = findings_of(|| self.chaos(acts).and_then(|()| self.heal()));
        self.trace.violations(&findings);
        self.tally.counts.simulated_ms = (self.clock.now_us() - BEGINNING_US) / 1_000;
        self.subject.count(&mut self.tally);
        Lived { findings, tally: self.tally, trace: self.trace }
    }

    /// Starts a process.
    pub(crate) fn start(&mut self, process: usize) {
        if let Some(state) = self.processes.get_mut(process) {
            state.life += 1;
            S::open(self, process);
        }
    }

    /// A report, for a task of a process, that its port is open.
    pub(crate) fn opening(&self, process: usize) -> impl FnOnce(S::Port) + Send + use<S> {
        let life = self.processes.get(process).map_or(0, |state| state.life);
        let reports = Arc::clone(&self.reports);
        move |port| report(&reports, Report::Opened { process, life, port })
    }

    fn opened(&mut self, process: usize, life: u32, port: S::Port) {
        if let Some(state) = self.processes.get_mut(process)
            && state.life == life
        {
            self.subject.opened(process, &port);
            state.port = Some(port);
        }
    }

    /// Has a process call the backend, for an actor or for itself.
    pub(crate) fn call(
        &mut self,
        process: usize,
        sent: CallRequest,
        actor: Option<Actor>,
        intent: Option<Intent>,
        attempts: u32,
    ) -> Option<TaskId> {
        let port = self.processes.get(process)?.port.clone()?;
        let (reports, clock) = (Arc::clone(&self.reports), self.clock.clone());
        let (name, since_ms) = (sent.name(), self.clock.now_ms());
        let put = self.subject.put(port, sent.clone(), process);
        let task = self.clock.spawn(TaskOwner::Process(process), async move {
            let reply = put.await;
            if let Some(task) = clock.current() {
                report(&reports, Report::Answered { task, reply });
            }
        });
        let call = Call { actor, process, intent, attempts, since_ms, name };
        S::called(self, task, sent, &call);
        self.calls.insert(task, call);
        Some(task)
    }

    /// Counts a fault of a process or an actor, by the names of both tables.
    pub(crate) fn fault(&mut self, fault: Option<Fault>, of_store: Option<StoreFault>) {
        if let Some(fault) = fault {
            self.tally.counts.fault(fault);
        }
        if let Some(fault) = of_store {
            self.tally.store_fault(fault);
        }
    }

    pub(crate) fn note(&mut self, text: std::fmt::Arguments<'_>) {
        let now = self.clock.now_us();
        self.trace.line(format_args!("{now} {text}"));
    }

    pub(crate) fn after_ms(&mut self, delay_ms: u64, what: Scheduled<S::Scheduled>) {
        let at = self.clock.now_us() + delay_ms * 1_000;
        self.agenda.schedule(at, what);
    }

    /// Runs tasks and time until the next act.
    pub(crate) fn run_until_act(&mut self) -> Result<(), Findings> {
        loop {
            while self.executor.run_one(&mut self.rng) {
                self.settle()?;
            }
            let now = self.clock.now_us();
            if now >= self.next_act_us {
                return Ok(());
            }
            let of_subject = self.subject.next_moment_us(now);
            let later = self.agenda.next_us();
            self.executor.advance_to_first([of_subject, later, Some(self.next_act_us)]);
            self.subject.time_passed();
            self.settle()?;
            self.run_due();
        }
    }

    /// Judges effects, then answers.
    fn settle(&mut self) -> Result<(), Findings> {
        S::follow(self)?;
        let reports = std::mem::take(&mut *lock(&self.reports));
        for report in reports {
            match report {
                Report::Opened { process, life, port } => self.opened(process, life, port),
                Report::Answered { task, reply } => self.answered(task, reply)?,
            }
        }
        Ok(())
    }

    fn answered(&mut self, task: TaskId, reply: CallReply) -> Result<(), Findings> {
        let Some(call) = self.calls.remove(&task) else { return Ok(()) };
        self.note_answer(&call, &reply);
        S::judge_answer(self, task, &reply).map_err(|finding| vec![finding])?;
        if let (Some(actor), Some(intent), CallReply::Answer(answer)) =
            (call.actor, call.intent, reply)
        {
            self.learn(actor, intent, call.attempts, &answer);
        }
        Ok(())
    }

    fn note_answer(&mut self, call: &Call, reply: &CallReply) {
        let request = call.intent.as_ref().map(|intent| &intent.request);
        let run = request.map_or(0, |request| request.run_id().as_raw());
        let shard = request.and_then(|it| it.shard_id()).map_or(0, |it| it.as_raw());
        let op = request.and_then(|it| it.op_id()).map_or(0, |it| it.as_raw());
        let outcome = match reply {
            CallReply::Collected(Ok(_)) | CallReply::Active(Ok(_)) => "ok",
            CallReply::Collected(Err(_)) | CallReply::Active(Err(_)) => "failed",
            CallReply::Answer(answer) => match &**answer {
                Ok(reply) if reply.is_replay() => "replayed",
                Ok(_) => "ok",
                answer @ Err(_) if is_unknown(answer) => "unknown",
                answer @ Err(_) if is_retryable(answer) => "not applied",
                Err(refusal) => coverage::name(refusal),
            },
        };
        let (name, process) = (call.name, call.process + 1);
        self.note(format_args!(
            "process {process} answers {name} run {run} shard {shard:x} op {op}: {outcome}"
        ));
    }

    /// Has the sender learn the answer, or retry.
    fn learn(&mut self, actor: Actor, intent: Intent, attempts: u32, answer: &Answer) {
        if is_retryable(answer) && intent.awaited {
            let retry_at = self.clock.now_ms() + self.rng.between(5, 80);
            let pending = Pending { id: 0, intent, retry_at, attempts };
            self.set_pending(actor, Some(pending));
            return;
        }
        self.learn_outcome(actor, &intent.request, answer);
        if intent.awaited {
            self.set_pending(actor, None);
        }
    }

    /// Has the sender learn an answer, in time or late.
    pub(crate) fn learn_outcome(&mut self, actor: Actor, request: &Request, answer: &Answer) {
        let stubborn = !self.healed && self.rng.chance(150);
        let Some(tag) = self.tenants.get(actor.tenant()).map(|tenant| tenant.tag) else { return };
        if let Some(worker) = self.worker_mut(actor) {
            worker.learn(tag, request, answer, stubborn);
        }
        if let Some(tenant) = self.tenants.get_mut(actor.tenant()) {
            tenant.learn_limits(request, answer);
        }
    }

    pub(crate) fn worker_mut(&mut self, actor: Actor) -> Option<&mut Worker> {
        let Actor::Worker { tenant, worker, life } = actor else { return None };
        let worker = self.tenants.get_mut(tenant)?.workers.get_mut(worker)?;
        (worker.life == life).then_some(worker)
    }

    pub(crate) fn set_pending(&mut self, actor: Actor, pending: Option<Pending>) {
        match actor {
            Actor::Worker { .. } => {
                if let Some(worker) = self.worker_mut(actor) {
                    worker.pending = pending;
                }
            }
            Actor::Operator { tenant } => {
                if let Some(tenant) = self.tenants.get_mut(tenant) {
                    tenant.operator.pending = pending;
                }
            }
        }
    }

    /// Whether a call has waited for too long.
    pub(crate) fn check_stuck(&self) -> Result<(), Findings> {
        let now = self.clock.now_ms();
        let stuck = self.calls.values().find(|call| {
            let is_up = self.processes.get(call.process).is_some_and(|it| !it.paused);
            is_up && now > call.since_ms + STUCK_MS
        });
        match stuck {
            Some(call) => {
                let text = format!("{} has not been answered for a minute", call.name);
                Err(vec![Finding { oracle: LIVENESS.name, text }])
            }
            None => Ok(()),
        }
    }
}

impl Tenant {
    /// The actors of a tenant. All tenants have the same worker and run ids, so that only the
    /// tenant distinguishes them.
    pub(crate) fn all(workers: &[usize]) -> Vec<Self> {
        let tenant = |(index, workers): (u8, &usize)| Self {
            id: TenantId::from_bytes([index + 1; TenantId::SIZE]),
            tag: b'A' + index,
            workers: (1..=*workers as u64)
                .map(|raw| Worker::new(WorkerId::from_raw(raw)))
                .collect(),
            operator: Operator::default(),
            next_run: u64::from(index),
            full: false,
        };
        (0..).zip(workers).map(tenant).collect()
    }

    /// The model of the tenant before its first run.
    pub(crate) fn new_model(&self) -> (TenantId, TenantModel) {
        let workers = self.workers.len() as u32;
        let (runs, cooldowns) = (BTreeMap::new(), BTreeMap::new());
        (self.id, TenantModel { tag: self.tag, workers, runs, cooldowns })
    }

    /// After a manifest that exceeds a limit, the operator halves the next one, down to none.
    fn learn_limits(&mut self, request: &Request, answer: &Answer) {
        if let (
            Some(shards),
            Err(CoordError::ShardLimitExceeded(_) | CoordError::ResourceExhausted(_)),
        ) = (request.manifest(), answer)
        {
            self.operator.shards_max = Some(shards.len() / 2);
            self.full = shards.len() <= 1;
        }
    }

    fn next_run(&mut self) -> RunId {
        self.next_run += 1;
        RunId::from_raw(self.next_run)
    }
}

/// Whether a retry with the same op id may succeed.
pub(crate) const fn is_retryable(answer: &Answer) -> bool {
    match answer {
        Err(CoordError::BackendError(error)) => error.is_retryable(),
        Ok(_) | Err(_) => false,
    }
}

/// Whether the outcome is unknown.
pub(crate) const fn is_unknown(answer: &Answer) -> bool {
    matches!(answer, Err(CoordError::BackendError(InfraError::Unknown { .. })))
}

fn report<P>(reports: &Mutex<Vec<Report<P>>>, report: Report<P>) {
    lock(reports).push(report);
}

/// Locks, also after a panic: the state is consistent after every statement.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a world to its end, and returns what the oracles found. A panic is a finding as well: it
/// ends the world, so its half-done state is never read.
pub(crate) fn findings_of(live: impl FnOnce() -> Result<(), Findings>) -> Findings {
    match catch_unwind(AssertUnwindSafe(live)) {
        Ok(lived) => lived.err().unwrap_or_default(),
        Err(payload) => vec![Finding { oracle: ASSERTIONS.name, text: message(&*payload) }],
    }
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("a panic").into()
}
