//! The second phase: faults have stopped, the clock runs on, and everything must come to an end.

use std::time::Duration;

use shardwright_coordination::{RunStatus, ShardStatus};
use shardwright_runs::Retention;

use super::asks::Ask;
use super::director::{Director, Findings, Later};
use crate::network::Actor;
use crate::oracle::{Finding, LIVENESS};
use crate::world::heal::remedy;
use crate::world::intent::{Intent, Scene};

/// In how many acts every run has to end.
const ACTS_MAX: u64 = 8_000;
/// In how many attempts every run that has ended has to be taken away.
const COLLECTIONS_MAX: u64 = 400;

impl Director {
    pub(super) fn heal(&mut self) -> Result<(), Findings> {
        self.healed = true;
        self.note(format_args!("the world heals"));
        {
            let mut weather = self.weather.lock();
            weather.is_stormy = false;
            weather.is_full = false;
            weather.serves_stale = false;
            weather.cuts.clear();
        }
        self.store.let_sessions_outlive(Duration::ZERO);
        for what in std::mem::take(&mut self.later).into_values() {
            if !matches!(what, Later::Storm { .. }) {
                self.happen(what);
            }
        }
        for _ in 0..ACTS_MAX {
            self.next_act_us = self.clock.now_us() + self.rng.below(12_000);
            self.run_until_act()?;
            self.check_stuck()?;
            if self.all_ended() {
                return self.clear_away();
            }
            let tenant = self.rng.index(self.tenants.len());
            if self.rng.chance(250) {
                self.tend(tenant);
            } else {
                let workers = self.tenants.get(tenant).map_or(0, |tenant| tenant.workers.len());
                let worker = self.rng.index(workers);
                self.work(tenant, worker);
            }
        }
        Err(vec![Finding { oracle: LIVENESS.name, text: self.unfinished() }])
    }

    fn all_ended(&self) -> bool {
        let mut runs = self.ledger.model.tenants.values().flat_map(|tenant| tenant.runs.values());
        runs.all(|run| run.status.is_terminal()) && self.calls.is_empty()
    }

    fn unfinished(&self) -> String {
        let runs = self.ledger.model.tenants.values().flat_map(|tenant| &tenant.runs);
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

    /// An operator who wants everything to end well: resumes, unparks, completes.
    fn tend(&mut self, index: usize) {
        let process = self.rng.index(self.processes.len());
        if self.processes.get(process).is_none_or(|it| it.coordinator.is_none()) {
            return;
        }
        let actor = Actor::Operator { tenant: index };
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
            model: &self.ledger.model,
            clock: self.clock.now_ms(),
            tenant: world.id,
            tag: world.tag,
            healed: true,
        };
        let Some(run) = scene.pick_run(|run| !run.status.is_terminal()) else { return };
        if let Some(request) = remedy(run, false, &mut scene) {
            self.send(process, actor, Intent::honest(request), 1);
        }
    }

    /// Takes away everything, until nothing is left.
    fn clear_away(&mut self) -> Result<(), Findings> {
        let runs = self.ledger.model.tenants.values().flat_map(|tenant| tenant.runs.values());
        let ended = runs.filter(|run| run.status == RunStatus::Done).count();
        self.tally.counts.runs = ended as u64;
        self.tally.collected = self.ledger.collected.len() as u64;
        for _ in 0..COLLECTIONS_MAX {
            if self.ledger.books.leftovers().is_none() {
                return Ok(());
            }
            if self.calls.is_empty() {
                let process = self.rng.index(self.processes.len());
                let retention = Retention { ended_ms: 0, initializing_ms: 0 };
                self.call(process, Ask::Collect(retention), None, None, 1);
            }
            self.next_act_us = self.clock.now_us() + 50_000;
            self.run_until_act()?;
            self.check_stuck()?;
        }
        let left = self.ledger.books.leftovers();
        left.map_or(Ok(()), |finding| Err(vec![finding]))
    }
}
