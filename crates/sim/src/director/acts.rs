//! The first phase, chaos: actors act and processes fail.

use shardwright_coordination::RunStatus;

use super::{CallRequest, Director, Findings, Scheduled, Subject};
use crate::actor::{Actor, Intent, Operator, Pending, Scene};
use crate::fault::Fault;
use crate::runtime::executor::TaskId;
use crate::runtime::fault::StoreFault;

/// Number of attempts after which a sender gives up on an unknown outcome.
const ATTEMPTS_MAX: u32 = 4;

impl<S: Subject> Director<S> {
    pub(super) fn chaos(&mut self, acts: u64) -> Result<(), Findings> {
        for act in 0..acts {
            if S::is_exhausted(self) {
                break;
            }
            self.next_act_us = self.clock.now_us() + S::pause_us(&mut self.rng);
            self.run_until_act()?;
            if act % 64 == 0 {
                self.check_stuck()?;
            }
            self.tally.counts.chaos_steps += 1;
            S::act(self)?;
        }
        Ok(())
    }

    /// The process of a worker.
    pub(crate) fn home(&self, tenant: usize, worker: usize) -> usize {
        (tenant + worker) % self.processes.len().max(1)
    }

    pub(crate) fn is_up(&self, process: usize) -> bool {
        self.processes.get(process).is_some_and(|it| it.port.is_some() && !it.paused)
    }

    pub(crate) fn work(&mut self, tenant: usize, index: usize) {
        let home = self.home(tenant, index);
        if !self.is_up(home) {
            return;
        }
        let now_ms = self.clock.now_ms();
        let Some(world) = self.tenants.get_mut(tenant) else { return };
        let Some(worker) = world.workers.get_mut(index) else { return };
        let actor = Actor::Worker { tenant, worker: index, life: worker.life };
        if let Some(pending) = worker.pending.take() {
            if pending.id != 0 || pending.retry_at > now_ms {
                worker.pending = Some(pending);
                return;
            }
            return self.retry(home, actor, pending.intent, pending.attempts);
        }
        let mut scene = Scene {
            rng: &mut self.rng,
            ops: &mut self.next_op,
            model: self.subject.model(),
            clock: now_ms,
            tenant: world.id,
            tag: world.tag,
            healed: self.healed,
        };
        let misbehaves = !self.healed && scene.rng.chance(S::MISUSE.0);
        let intent = match misbehaves.then(|| worker.misbehave(&mut scene)).flatten() {
            Some(intent) => Some(intent),
            None => worker.choose(&mut scene),
        };
        let Some(intent) = intent else { return };
        if intent.fault.is_none() {
            worker.remember_sent(&intent);
        }
        // Sometimes a worker calls another process than its own.
        let process = if self.healed || self.rng.chance(960) {
            home
        } else {
            self.rng.index(self.processes.len())
        };
        self.send(process, actor, intent, 1);
    }

    pub(super) fn retry(&mut self, process: usize, actor: Actor, intent: Intent, attempts: u32) {
        let gives_up = attempts >= ATTEMPTS_MAX || self.rng.chance(120);
        if gives_up && !self.healed {
            self.fault(Some(Fault::GaveUp), Some(StoreFault::GaveUp));
            self.set_pending(actor, None);
            return;
        }
        self.fault(Some(Fault::Retried), Some(StoreFault::Retried));
        self.send(process, actor, intent, attempts + 1);
    }

    /// Calls a process. An honest sender waits for the answer.
    pub(super) fn send(&mut self, process: usize, actor: Actor, intent: Intent, attempts: u32) {
        let Some(tenant) = self.tenants.get(actor.tenant()).map(|tenant| tenant.id) else { return };
        if let Some(fault) = intent.fault {
            self.fault(Some(fault), Some(StoreFault::Misuse));
        }
        let (request, processed) = (intent.request.clone(), intent.processed);
        let sent = CallRequest::Request { tenant, request, processed };
        let called = self.call(process, sent, Some(actor), Some(intent.clone()), attempts);
        if intent.awaited {
            let retry_at = self.clock.now_ms();
            let id = called.unwrap_or_default();
            self.set_pending(actor, Some(Pending { id, intent, retry_at, attempts }));
        }
    }

    pub(crate) fn operate(&mut self, index: usize) {
        let process = self.rng.index(self.processes.len());
        if !self.is_up(process) {
            return;
        }
        let (open_runs, now_ms) = (self.open_runs, self.clock.now_ms());
        let Some(world) = self.tenants.get_mut(index) else { return };
        let actor = Actor::Operator { tenant: index };
        if let Some(pending) = world.operator.pending.take() {
            if pending.id != 0 || pending.retry_at > now_ms {
                world.operator.pending = Some(pending);
            } else {
                return self.retry(process, actor, pending.intent, pending.attempts);
            }
        }
        let runs = self.subject.model().tenants.get(&world.id).map(|tenant| &tenant.runs);
        let is_open = |status: RunStatus| !status.is_terminal();
        let open = runs.map_or(0, |runs| runs.values().filter(|run| is_open(run.status)).count());
        let mut scene = Scene {
            rng: &mut self.rng,
            ops: &mut self.next_op,
            model: self.subject.model(),
            clock: now_ms,
            tenant: world.id,
            tag: world.tag,
            healed: self.healed,
        };
        let busy = world.operator.pending.is_some();
        let intent = if !busy && open < open_runs && !world.full {
            let run = world.next_run();
            if scene.rng.chance(400) {
                world.operator.create_with_shards(run, &mut scene)
            } else {
                Operator::create(run, &mut scene)
            }
        } else if scene.rng.chance(S::MISUSE.1) {
            world.operator.misbehave(&mut scene)
        } else if busy {
            None
        } else {
            world.operator.choose(&mut scene)
        };
        let Some(intent) = intent else { return };
        if intent.fault.is_none() {
            world.operator.remember_sent(&intent);
        }
        self.send(process, actor, intent, 1);
    }

    pub(crate) fn crash(&mut self, process: usize, long_ms: u64) {
        self.fault(Some(Fault::WorkerCrashed), Some(StoreFault::ProcessCrashed));
        self.note(format_args!("process {} crashes for {long_ms} ms", process + 1));
        self.stop(process);
        self.after_ms(long_ms, Scheduled::Start(process));
    }

    /// Stops a process at once.
    fn stop(&mut self, process: usize) {
        self.executor.kill(process);
        if let Some(state) = self.processes.get_mut(process) {
            state.life += 1;
            state.port = None;
            state.paused = false;
        }
        self.subject.stopped(process);
        let gone: Vec<_> = self
            .calls
            .iter()
            .filter(|(_, call)| call.process == process)
            .map(|(task, _)| *task)
            .collect();
        for task in gone {
            self.give_up(task);
        }
        let processes = self.processes.len().max(1);
        for (tenant, world) in self.tenants.iter_mut().enumerate() {
            for (index, worker) in world.workers.iter_mut().enumerate() {
                if (tenant + index) % processes == process {
                    worker.crash();
                }
            }
        }
    }

    /// Forgets a call. Its sender has to retry to learn the outcome.
    fn give_up(&mut self, task: TaskId) {
        let now_ms = self.clock.now_ms();
        self.subject.abandoned(task, now_ms);
        let Some(call) = self.calls.remove(&task) else { return };
        if let (Some(actor), Some(intent)) = (call.actor, call.intent)
            && intent.awaited
        {
            let (retry_at, attempts) = (now_ms + 10, call.attempts);
            self.set_pending(actor, Some(Pending { id: 0, intent, retry_at, attempts }));
        }
    }

    pub(crate) fn abandon(&mut self) {
        let open: Vec<_> = self.calls.keys().copied().collect();
        let Some(task) = self.rng.pick(&open).copied() else { return };
        self.fault(None, Some(StoreFault::CallAbandoned));
        self.executor.end(task);
        self.give_up(task);
    }

    pub(crate) fn pause(&mut self, process: usize, long_ms: u64) {
        self.fault(Some(Fault::WorkerAsleep), Some(StoreFault::ProcessPaused));
        self.note(format_args!("process {} pauses for {long_ms} ms", process + 1));
        let until = self.clock.now_ms() + long_ms;
        let sleeps_through = self.tenants.iter().enumerate().any(|(tenant, world)| {
            world.workers.iter().enumerate().any(|(index, worker)| {
                (tenant + index) % self.processes.len().max(1) == process
                    && worker.held.iter().any(|held| held.lease.deadline().as_millis() < until)
            })
        });
        if sleeps_through {
            let (worker, process) = (Fault::WorkerAsleepBeyondLease, StoreFault::PausedBeyondLease);
            self.fault(Some(worker), Some(process));
        }
        self.executor.pause(process, true);
        if let Some(state) = self.processes.get_mut(process) {
            state.paused = true;
        }
        self.after_ms(long_ms, Scheduled::Resume(process));
    }

    /// Runs the scheduled events that are due.
    pub(super) fn run_due(&mut self) {
        while let Some(what) = self.agenda.take_due(self.clock.now_us()) {
            self.run_scheduled(what);
        }
    }

    pub(super) fn run_scheduled(&mut self, what: Scheduled<S::Scheduled>) {
        match what {
            Scheduled::Start(process) => {
                let is_down = self.processes.get(process).is_some_and(|it| it.port.is_none());
                if is_down {
                    self.start(process);
                }
            }
            Scheduled::Resume(process) => {
                self.executor.pause(process, false);
                if let Some(state) = self.processes.get_mut(process) {
                    state.paused = false;
                }
            }
            Scheduled::OfSubject(what) => S::run_scheduled(self, what),
        }
    }
}
