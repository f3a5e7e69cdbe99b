//! The first phase: everything goes wrong that can.

use shardwright_contracts::{RunId, TenantId};
use shardwright_coordination::RunStatus;

use super::World;
use super::belief::Operator;
use super::intent::Scene;
use crate::fault::Fault;
use crate::network::Actor;
use crate::oracle::Finding;
use crate::system::System;

/// How often all runs are looked at, and not only the one that a request is about.
const LOOK_AROUND: u64 = 32;

impl<S: System> World<S> {
    pub(super) fn chaos(&mut self, steps: u64) -> Result<(), Vec<Finding>> {
        while self.tally.chaos_steps < steps && !self.is_exhausted() {
            self.tally.steps += 1;
            self.tally.chaos_steps += 1;
            if self.tally.steps.is_multiple_of(LOOK_AROUND) {
                self.look_around()?;
            }
            self.clock += match self.rng.below(100) {
                0..50 => 0,
                50..96 => self.rng.between(1, 8),
                _ => self.rng.between(8, 60),
            };
            match self.rng.below(1_000) {
                0..110 => match self.network.take_due(self.clock, &mut self.rng) {
                    Some((message, overtakes)) => {
                        if overtakes {
                            self.tally.fault(Fault::Reordered);
                        }
                        self.arrive(message)?;
                    }
                    None => self.worker_step()?,
                },
                110..860 => self.worker_step()?,
                860..955 => self.operator_step()?,
                955..970 => self.deadline_step()?,
                970..976 => self.jump(),
                976 if self.rng.chance(400) => self.raise_floor(),
                976..992 => self.put_to_sleep(),
                _ => self.crash(),
            }
        }
        Ok(())
    }

    /// Whether no tenant has work left or can get more.
    fn is_exhausted(&self) -> bool {
        self.tenants.iter().all(|tenant| {
            tenant.full
                && self.model.tenants.get(&tenant.id).is_some_and(|account| {
                    account.runs.values().all(|run| run.status.is_terminal())
                })
        })
    }

    fn pick_tenant(&mut self) -> usize {
        self.rng.index(self.tenants.len())
    }

    fn open_runs(&self, tenant: TenantId, counted: impl Fn(RunStatus) -> bool) -> usize {
        let account = self.model.tenants.get(&tenant);
        account.map_or(0, |it| it.runs.values().filter(|run| counted(run.status)).count())
    }

    fn worker_step(&mut self) -> Result<(), Vec<Finding>> {
        let tenant = self.pick_tenant();
        let Some(world) = self.tenants.get(tenant) else { return Ok(()) };
        if self.open_runs(world.id, |status| status == RunStatus::Active) == 0 {
            return self.operate(tenant);
        }
        let awake: Vec<usize> = world
            .workers
            .iter()
            .enumerate()
            .filter(|(_, worker)| worker.asleep_until <= self.clock)
            .filter(|(_, worker)| {
                worker.pending.as_ref().is_none_or(|pending| pending.retry_at <= self.clock)
            })
            .map(|(index, _)| index)
            .collect();
        match self.rng.pick(&awake).copied() {
            Some(worker) => self.work(tenant, worker),
            None => self.operate(tenant),
        }
    }

    pub(super) fn work(&mut self, tenant: usize, index: usize) -> Result<(), Vec<Finding>> {
        let Some(world) = self.tenants.get_mut(tenant) else { return Ok(()) };
        let Some(worker) = world.workers.get_mut(index) else { return Ok(()) };
        let actor = Actor::Worker { tenant, worker: index, life: worker.life };
        if let Some(pending) = worker.pending.take() {
            return self.retry(actor, pending);
        }
        let mut scene = Scene {
            rng: &mut self.rng,
            ops: &mut self.next_op,
            model: &self.model,
            clock: self.clock,
            tenant: world.id,
            tag: world.tag,
            healed: self.healed,
        };
        let misbehaves = !self.healed && scene.rng.chance(190);
        let intent = match misbehaves.then(|| worker.misbehave(&mut scene)).flatten() {
            Some(intent) => Some(intent),
            None => worker.choose(&mut scene),
        };
        match intent {
            Some(intent) => self.send(actor, intent),
            None => Ok(()),
        }
    }

    fn operator_step(&mut self) -> Result<(), Vec<Finding>> {
        let tenant = self.pick_tenant();
        self.operate(tenant)
    }

    fn operate(&mut self, tenant: usize) -> Result<(), Vec<Finding>> {
        let open_runs = self.settings.open_runs;
        let Some(world) = self.tenants.get(tenant) else { return Ok(()) };
        let open = self.open_runs(world.id, |status| !status.is_terminal());
        let Some(world) = self.tenants.get_mut(tenant) else { return Ok(()) };
        let actor = Actor::Operator { tenant };
        match world.operator.pending.take() {
            Some(pending) if pending.retry_at <= self.clock => return self.retry(actor, pending),
            waiting => world.operator.pending = waiting,
        }
        let mut scene = Scene {
            rng: &mut self.rng,
            ops: &mut self.next_op,
            model: &self.model,
            clock: self.clock,
            tenant: world.id,
            tag: world.tag,
            healed: self.healed,
        };
        let busy = world.operator.pending.is_some();
        let intent = if !busy && open < open_runs && !world.full {
            world.next_run += 1;
            let run = RunId::from_raw(world.next_run);
            match scene.rng.chance(400) {
                true => world.operator.create_with_shards(run, &mut scene),
                false => Operator::create(run, &mut scene),
            }
        } else if scene.rng.chance(180) {
            world.operator.misbehave(&mut scene)
        } else if busy {
            None
        } else {
            world.operator.choose(&mut scene)
        };
        match intent {
            Some(intent) => self.send(actor, intent),
            None => Ok(()),
        }
    }

    /// Lets something be asked at the very moment at which a lease ends.
    fn deadline_step(&mut self) -> Result<(), Vec<Finding>> {
        let tenant = self.pick_tenant();
        let Some(world) = self.tenants.get(tenant) else { return Ok(()) };
        let deadlines: Vec<(u64, usize)> = world
            .workers
            .iter()
            .enumerate()
            .filter(|(_, worker)| worker.pending.is_none() && worker.asleep_until <= self.clock)
            .flat_map(|(index, worker)| {
                worker.held.iter().map(move |held| (held.lease.deadline().as_millis(), index))
            })
            .filter(|(deadline, _)| (self.clock..self.clock + 1_000).contains(deadline))
            .collect();
        let Some(&(deadline, worker)) = self.rng.pick(&deadlines) else {
            return self.worker_step();
        };
        self.clock = deadline;
        self.tally.fault(Fault::DeadlineHit);
        self.work(tenant, worker)
    }

    fn jump(&mut self) {
        self.clock += self.rng.between(150, 1_500);
        self.tally.fault(Fault::ClockJumped);
        self.trace.line(format_args!("{} the clock jumps", self.clock));
    }

    fn put_to_sleep(&mut self) {
        let (tenant, clock) = (self.pick_tenant(), self.clock);
        let long = self.rng.between(30, 900);
        let Some(world) = self.tenants.get_mut(tenant) else { return };
        let index = self.rng.index(world.workers.len());
        let Some(worker) = world.workers.get_mut(index) else { return };
        worker.asleep_until = clock + long;
        self.tally.fault(Fault::WorkerAsleep);
        if worker.held.iter().any(|held| held.lease.deadline().as_millis() <= clock + long) {
            self.tally.fault(Fault::WorkerAsleepBeyondLease);
        }
        let name = worker.id.as_raw();
        self.trace.line(format_args!("{clock} worker {name} sleeps for {long} ms"));
    }

    fn crash(&mut self) {
        let (tenant, clock) = (self.pick_tenant(), self.clock);
        let until = clock + self.rng.between(5, 400);
        let Some(world) = self.tenants.get_mut(tenant) else { return };
        let index = self.rng.index(world.workers.len());
        let Some(worker) = world.workers.get_mut(index) else { return };
        worker.crash(until);
        self.tally.fault(Fault::WorkerCrashed);
        let name = worker.id.as_raw();
        self.trace.line(format_args!("{clock} worker {name} crashes until {until}"));
    }
}
