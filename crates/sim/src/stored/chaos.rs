//! The first phase: everything goes wrong that can.

use shardwright_coordination::RunStatus;
use shardwright_runs::Retention;

use super::asks::Ask;
use super::director::{Director, Findings};
use crate::ground::fault::StoreFault;
use crate::network::Actor;
use crate::world::belief::Operator;
use crate::world::intent::{Intent, Scene};

/// How often an outcome that stays unknown is asked for before whoever asks gives up.
const ATTEMPTS_MAX: u32 = 4;

impl Director {
    pub(super) fn chaos(&mut self, acts: u64) -> Result<(), Findings> {
        for act in 0..acts {
            self.next_act_us = self.clock.now_us()
                + match self.rng.below(100) {
                    0..35 => self.rng.below(300),
                    35..96 => self.rng.between(300, 8_000),
                    _ => self.rng.between(8_000, 60_000),
                };
            self.run_until_act()?;
            if act % 64 == 0 {
                self.check_stuck()?;
            }
            match self.rng.below(1_000) {
                0..790 => self.worker_act(),
                790..915 => self.operator_act(),
                915..927 => self.chore_act(),
                _ => self.mishap()?,
            }
        }
        Ok(())
    }

    fn worker_act(&mut self) {
        let tenant = self.rng.index(self.tenants.len());
        let workers = self.tenants.get(tenant).map_or(0, |tenant| tenant.workers.len());
        let worker = self.rng.index(workers);
        self.work(tenant, worker);
    }

    /// The process that a worker lives in.
    pub(super) fn home(&self, tenant: usize, worker: usize) -> usize {
        (tenant + worker) % self.processes.len().max(1)
    }

    fn is_up(&self, process: usize) -> bool {
        self.processes.get(process).is_some_and(|it| it.coordinator.is_some() && !it.paused)
    }

    pub(super) fn work(&mut self, tenant: usize, index: usize) {
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
            model: &self.ledger.model,
            clock: now_ms,
            tenant: world.id,
            tag: world.tag,
            healed: self.healed,
        };
        let misbehaves = !self.healed && scene.rng.chance(150);
        let intent = match misbehaves.then(|| worker.misbehave(&mut scene)).flatten() {
            Some(intent) => Some(intent),
            None => worker.choose(&mut scene),
        };
        let Some(intent) = intent else { return };
        if intent.fault.is_none() {
            worker.remember_sent(&intent);
        }
        // Now and then another process is asked than the one that a worker lives in.
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
            self.fault(StoreFault::GaveUp);
            self.set_pending(actor, None);
            return;
        }
        self.fault(StoreFault::Retried);
        self.send(process, actor, intent, attempts + 1);
    }

    /// Asks a process for something, and waits for the answer if it is meant seriously.
    pub(super) fn send(&mut self, process: usize, actor: Actor, intent: Intent, attempts: u32) {
        let (Actor::Worker { tenant, .. } | Actor::Operator { tenant }) = actor;
        let Some(tenant) = self.tenants.get(tenant).map(|tenant| tenant.id) else { return };
        if let Some(fault) = intent.fault {
            self.tally.counts.fault(fault);
            self.fault(StoreFault::Mischief);
        }
        let (request, processed) = (intent.request.clone(), intent.processed);
        let ask = Ask::Request { tenant, request, processed };
        let called = self.call(process, ask, Some(actor), Some(intent.clone()), attempts);
        if intent.awaited {
            let retry_at = self.clock.now_ms();
            let id = called.unwrap_or_default();
            let pending = crate::world::belief::Pending { id, intent, retry_at, attempts };
            self.set_pending(actor, Some(pending));
        }
    }

    fn operator_act(&mut self) {
        let index = self.rng.index(self.tenants.len());
        let process = self.rng.index(self.processes.len());
        if !self.is_up(process) {
            return;
        }
        let (open_runs, now_ms) = (self.settings.open_runs, self.clock.now_ms());
        let Some(world) = self.tenants.get_mut(index) else { return };
        let actor = Actor::Operator { tenant: index };
        if let Some(pending) = world.operator.pending.take() {
            if pending.id != 0 || pending.retry_at > now_ms {
                world.operator.pending = Some(pending);
            } else {
                return self.retry(process, actor, pending.intent, pending.attempts);
            }
        }
        let runs = self.ledger.model.tenants.get(&world.id).map(|tenant| &tenant.runs);
        let is_open = |status: RunStatus| !status.is_terminal();
        let open = runs.map_or(0, |runs| runs.values().filter(|run| is_open(run.status)).count());
        let mut scene = Scene {
            rng: &mut self.rng,
            ops: &mut self.next_op,
            model: &self.ledger.model,
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
        } else if scene.rng.chance(120) {
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

    fn chore_act(&mut self) {
        let process = self.rng.index(self.processes.len());
        let ask = match self.rng.chance(600) {
            true => Ask::Collect(Retention {
                ended_ms: self.rng.between(0, 1_500),
                initializing_ms: self.rng.between(300, 3_000),
            }),
            false => Ask::ListActive,
        };
        self.call(process, ask, None, None, 1);
    }
}
