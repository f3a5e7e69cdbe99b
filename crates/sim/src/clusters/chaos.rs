//! The first phase: everything happens that can.

use std::collections::BTreeMap;

use super::director::Director;
use super::oracle::{broken, rest};
use crate::oracle::Finding;

/// How long a cluster may take to come to rest, in steps of so many microseconds.
const PATIENCE: u64 = 6_000;
const STEP_US: u64 = 10_000;

impl Director {
    pub(super) fn chaos(&mut self, acts: u64) -> Result<(), Finding> {
        if self.settings.is_calm {
            // Before there are shards, calls have nowhere to go.
            self.come_to_rest(self.settings.nodes)?;
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
                _ => self.mishap(),
            }
        }
        Ok(())
    }

    /// Waits until the first so many nodes have all shards, and all calls are answered.
    pub(super) fn come_to_rest(&mut self, nodes: usize) -> Result<(), Finding> {
        let weighed = self.processes.iter().map(|process| process.address.clone());
        let weighed = weighed.zip(self.settings.weights.iter().copied()).take(nodes);
        let weighed: BTreeMap<_, _> = weighed.collect();
        let mut why = None;
        for step in 0..PATIENCE {
            self.next_act_us = self.clock.now_us() + STEP_US;
            self.run_until_act()?;
            if self.healed && step % 2 == 0 && step < 200 {
                self.client_act();
            }
            why = rest::missing(&self.truth, &weighed);
            let gates_open = self.processes.iter().filter(|process| process.is_gate);
            let mut gates_open = gates_open.map(|gate| &gate.running);
            let is_open =
                gates_open.all(|running| matches!(running, super::director::Running::Gate(_)));
            if why.is_none() && self.calls.is_empty() && self.operations.is_empty() && is_open {
                return Ok(());
            }
        }
        let (calls, operations) = (self.calls.len(), self.operations.len());
        let why = why.unwrap_or_else(|| format!("{calls} calls, {operations} operations"));
        Err(broken(rest::ORACLE, format!("it does not come to rest: {why}")))
    }
}
