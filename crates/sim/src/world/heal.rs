//! The second phase: faults have stopped, the clock runs on, and everything must come to an end.

use shardwright_contracts::{RunId, ShardKey};
use shardwright_coordination::{RunStatus, ShardStatus};

use super::World;
use super::intent::{Intent, Scene};
use crate::network::Actor;
use crate::oracle::{Finding, LIVENESS};
use crate::request::{Request, RunAct};
use crate::system::System;

/// In how many steps every run has to end.
const STEPS_MAX: u64 = 4_000;

impl<S: System> World<S> {
    pub(super) fn heal(&mut self) -> Result<(), Vec<Finding>> {
        self.healed = true;
        let shards = self.model.shards_in_all();
        self.trace.line(format_args!("{} the world heals, with {shards} shards", self.clock));
        while let Some(message) = self.network.take_first() {
            self.tally.steps += 1;
            self.arrive(message)?;
        }
        for world in &mut self.tenants {
            world.workers.iter_mut().for_each(|worker| worker.asleep_until = 0);
        }
        for _ in 0..STEPS_MAX {
            if self.all_ended() {
                return self.look_around();
            }
            self.tally.steps += 1;
            self.clock += self.rng.between(0, 12);
            let tenant = self.rng.index(self.tenants.len());
            if self.rng.chance(200) {
                self.tend(tenant)?;
            } else {
                let workers = self.tenants.get(tenant).map_or(0, |tenant| tenant.workers.len());
                let worker = self.rng.index(workers);
                self.work(tenant, worker)?;
            }
        }
        let text = self.unfinished();
        Err(vec![Finding { oracle: LIVENESS.name, text }])
    }

    fn all_ended(&self) -> bool {
        let mut runs = self.model.tenants.values().flat_map(|tenant| tenant.runs.values());
        runs.all(|run| run.status.is_terminal())
    }

    fn unfinished(&self) -> String {
        let runs =
            self.model.tenants.iter().flat_map(|(id, tenant)| {
                tenant.runs.iter().map(move |(run, state)| (id, run, state))
            });
        let open: Vec<String> = runs
            .filter(|(_, _, state)| !state.status.is_terminal())
            .map(|(tenant, run, state)| {
                let (active, parked) =
                    (state.count(ShardStatus::Active), state.count(ShardStatus::Parked));
                let status = state.status;
                format!("run {run} of {tenant} is {status:?}, {active} active, {parked} parked")
            })
            .collect();
        format!("after {STEPS_MAX} steps without faults: {}", open.join("; "))
    }

    /// An operator who wants everything to end well: resumes, unparks, completes.
    fn tend(&mut self, tenant: usize) -> Result<(), Vec<Finding>> {
        let actor = Actor::Operator { tenant };
        let Some(world) = self.tenants.get_mut(tenant) else { return Ok(()) };
        if let Some(pending) = world.operator.pending.take() {
            return self.retry(actor, pending);
        }
        let mut scene = Scene {
            rng: &mut self.rng,
            ops: &mut self.next_op,
            model: &self.model,
            clock: self.clock,
            tenant: world.id,
            tag: world.tag,
            healed: true,
        };
        let Some(run) = scene.pick_run(|run| !run.status.is_terminal()) else { return Ok(()) };
        let hopeless = self.settings.scarce.is_some() && scene.rng.chance(150);
        match remedy(run, hopeless, &mut scene) {
            Some(request) => self.send(actor, Intent::honest(request)),
            None => Ok(()),
        }
    }
}

pub(crate) fn remedy(run: RunId, hopeless: bool, scene: &mut Scene<'_>) -> Option<Request> {
    let state = scene.model.run(scene.tenant, run)?;
    let op = scene.op();
    let act = |act| Some(Request::Run { run, act, op });
    if state.status == RunStatus::Initializing {
        return act(RunAct::Cancel);
    }
    if state.paused {
        return act(RunAct::Resume);
    }
    // Where bytes, shards or fences ran out nobody can finish the work.
    if hopeless {
        return act(RunAct::Fail);
    }
    let parked = state.shards.iter().find(|(_, shard)| shard.status == ShardStatus::Parked);
    match parked {
        Some((shard, _)) => Some(Request::Unpark { key: ShardKey::new(run, *shard), op }),
        None if state.count(ShardStatus::Active) == 0 => act(RunAct::Complete),
        None => None,
    }
}
