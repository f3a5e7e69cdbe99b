//! The second phase: faults have stopped, and every run must end.

use shardwright_coordination::ShardStatus;

use super::{Director, Findings, Subject};
use crate::actor::{Actor, Intent, Scene, remedy};
use crate::oracle::{Finding, LIVENESS};

/// Number of acts within which every run has to end.
const ACTS_MAX: u64 = 8_000;

impl<S: Subject> Director<S> {
    pub(super) fn heal(&mut self) -> Result<(), Findings> {
        self.healed = true;
        self.note(format_args!("the world heals"));
        S::heal(self);
        for what in self.agenda.take_all() {
            self.run_scheduled(what);
        }
        for _ in 0..ACTS_MAX {
            self.next_act_us = self.clock.now_us() + self.rng.below(12_000);
            self.run_until_act()?;
            self.check_stuck()?;
            if self.all_ended() {
                return S::conclude(self);
            }
            let tenant = self.rng.index(self.tenants.len());
            if self.rng.chance(250) {
                self.remedy_run(tenant);
            } else {
                let workers = self.tenants.get(tenant).map_or(0, |tenant| tenant.workers.len());
                let worker = self.rng.index(workers);
                self.work(tenant, worker);
            }
        }
        Err(vec![Finding { oracle: LIVENESS.name, text: self.unfinished() }])
    }

    fn all_ended(&self) -> bool {
        let mut runs =
            self.subject.model().tenants.values().flat_map(|tenant| tenant.runs.values());
        runs.all(|run| run.status.is_terminal()) && self.calls.is_empty()
    }

    fn unfinished(&self) -> String {
        let runs = self.subject.model().tenants.values().flat_map(|tenant| &tenant.runs);
        let open: Vec<String> = runs
            .filter(|(_, run)| !run.status.is_terminal())
            .map(|(id, run)| {
                let (active, parked) =
                    (run.count(ShardStatus::Active), run.count(ShardStatus::Parked));
                format!("run {id} is {:?}, {active} active, {parked} parked", run.status)
            })
            .collect();
        format!("after {ACTS_MAX} acts without faults: {}", open.join("; "))
    }

    /// The operator resumes, unparks or completes a run.
    fn remedy_run(&mut self, index: usize) {
        let process = self.rng.index(self.processes.len());
        if self.processes.get(process).is_none_or(|it| it.port.is_none()) {
            return;
        }
        let actor = Actor::Operator { tenant: index };
        let hopeless = S::is_hopeless(self);
        let Some(world) = self.tenants.get_mut(index) else { return };
        if let Some(pending) = world.operator.pending.take() {
            if pending.id != 0 {
                world.operator.pending = Some(pending);
                return;
            }
            return self.retry(process, actor, pending.intent, pending.attempts);
        }
        let mut scene = Scene {
            rng: &mut self.rng,
            ops: &mut self.next_op,
            model: self.subject.model(),
            clock: self.clock.now_ms(),
            tenant: world.id,
            tag: world.tag,
            healed: true,
        };
        let Some(run) = scene.pick_run(|run| !run.status.is_terminal()) else { return };
        if let Some(request) = remedy(run, hopeless, &mut scene) {
            self.send(process, actor, Intent::honest(request), 1);
        }
    }
}
