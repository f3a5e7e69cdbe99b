//! The two phases: chaos, then faults stop and the cluster must converge.

use std::collections::BTreeMap;
use std::time::Duration;

use shardwright_node::{Call, ObjectKey};
use shardwright_placement::ObjectId;

use super::calls::Meaning;
use super::counter::{COUNTER, payload};
use super::director::{Director, Running};
use super::operators::settled;
use super::oracle::balance::{CONVERGENCE, missing_for_convergence};
use super::oracle::calls::judge_counter;
use super::oracle::violation;
use crate::oracle::Finding;

/// Number of steps within which a cluster must converge, and their length.
const STEPS_MAX: u64 = 6_000;
const STEP_US: u64 = 10_000;

impl Director {
    pub(super) fn chaos(&mut self, acts: u64) -> Result<(), Finding> {
        if self.settings.is_calm {
            // Calls fail until the shards have holders.
            self.converge(self.settings.nodes)?;
        }
        for _ in 0..acts {
            self.next_act_us = self.clock.now_us()
                + match self.rng.below(100) {
                    0..40 => self.rng.below(1_000),
                    40..96 => self.rng.between(1_000, 30_000),
                    _ => self.rng.between(30_000, 250_000),
                };
            self.run_until_act()?;
            match self.rng.below(1_000) {
                0..860 => self.client_act(),
                860..920 => self.operator_act(),
                _ if self.settings.is_calm => self.client_act(),
                _ => self.inject_fault(),
            }
        }
        Ok(())
    }

    /// Waits until the first `nodes` nodes hold all shards, and all calls are answered.
    pub(super) fn converge(&mut self, nodes: usize) -> Result<(), Finding> {
        let weighed = self.processes.iter().map(|process| process.address.clone());
        let weighed = weighed.zip(self.settings.weights.iter().copied()).take(nodes);
        let weighed: BTreeMap<_, _> = weighed.collect();
        let mut why = None;
        for step in 0..STEPS_MAX {
            self.next_act_us = self.clock.now_us() + STEP_US;
            self.run_until_act()?;
            if self.healed && step % 2 == 0 && step < 200 {
                self.client_act();
            }
            why = missing_for_convergence(&self.stored, &weighed);
            let gates_open = self.processes.iter().filter(|process| process.is_gate);
            let mut gates_open = gates_open.map(|gate| &gate.running);
            let is_open = gates_open.all(|running| matches!(running, Running::Gate(_)));
            if why.is_none() && self.calls.is_empty() && self.operations.is_empty() && is_open {
                return Ok(());
            }
        }
        let (calls, operations) = (self.calls.len(), self.operations.len());
        let why = why.unwrap_or_else(|| {
            format!("{calls} calls and {operations} operations are not answered")
        });
        Err(violation(CONVERGENCE, format!("the cluster does not converge: {why}")))
    }
}

/// Number of attempts of operators to restore the cluster, and the pause between two.
const ATTEMPTS_MAX: u64 = 400;
const PAUSE_US: u64 = 20_000;
/// Time within which all processes learn of the last change.
const QUIET_US: u64 = 2_000_000;

impl Director {
    pub(super) fn heal(&mut self) -> Result<(), Finding> {
        self.note(format_args!("the world heals"));
        self.healed = true;
        self.faults.lock().stop();
        {
            let mut wires = self.wires.lock();
            wires.is_stormy = false;
            wires.cuts.clear();
        }
        self.store.let_sessions_outlive(Duration::ZERO);
        for what in self.agenda.take_all() {
            self.run_scheduled(what);
        }
        self.restore()?;
        // A late duplicate of an earlier operation may still be applied.
        self.next_act_us = self.clock.now_us() + QUIET_US;
        self.run_until_act()?;
        self.restore()?;
        let nodes = self.settings.nodes + self.settings.spare_nodes;
        self.converge(nodes)?;
        if self.takeover(nodes)? {
            self.restore()?;
            self.converge(nodes)?;
        }
        // No shard may move while the processes learn of the last change.
        self.next_act_us = self.clock.now_us() + QUIET_US;
        self.run_until_act()?;
        self.converge(nodes)?;
        self.converged = true;
        self.judge_counters()
    }

    /// Starts all processes, and undoes drains, pins and freezes.
    fn restore(&mut self) -> Result<(), Finding> {
        for _ in 0..ATTEMPTS_MAX {
            self.next_act_us = self.clock.now_us() + PAUSE_US;
            self.run_until_act()?;
            for process in 0..self.processes.len() {
                self.start(process);
            }
            let is_up = |process: &super::director::Process| {
                !matches!(process.running, Running::Nothing) && !process.draining
            };
            if !self.operations.is_empty() || !self.processes.iter().all(is_up) {
                continue;
            }
            let drained = self.stored.drained.iter().next().cloned();
            let pinned = self
                .stored
                .assignments
                .iter()
                .find(|(_, assignment)| assignment.target.flags.is_pinned());
            let pinned = pinned.map(|(shard, _)| *shard);
            if let Some(node) = drained {
                self.set_drained(node, false);
            } else if let Some(shard) = pinned {
                self.operate(format!("unpin shard {shard}"), |cluster| async move {
                    settled(cluster.unpin(shard).await)
                });
            } else if self.stored.header.frozen {
                self.set_frozen(false);
            } else {
                return Ok(());
            }
        }
        Err(violation(CONVERGENCE, "operators cannot restore the cluster".to_owned()))
    }

    /// Compares every counter, stored and read, with the acknowledged increments.
    fn judge_counters(&mut self) -> Result<(), Finding> {
        let gate = self.processes.iter().position(|process| process.is_gate).unwrap_or_default();
        let counters: Vec<_> =
            self.counted.iter().map(|(name, sum)| (name.clone(), *sum)).collect();
        for (name, (acknowledged, unknown)) in &counters {
            let row = self.fenced_store.lock().rows.get(name).copied().unwrap_or_default();
            judge_counter(name, row.value, *acknowledged, *unknown)?;
            let Ok(id) = ObjectId::parse(name) else { continue };
            let (key, timeout) = (ObjectKey::new(COUNTER, id), Duration::from_secs(4));
            let call = Call::new(key, "get", payload(0, ""), timeout);
            self.call(gate, call, Meaning::Read(name.clone(), *acknowledged));
        }
        while !self.calls.is_empty() {
            self.next_act_us = self.clock.now_us() + PAUSE_US;
            self.run_until_act()?;
        }
        Ok(())
    }
}
