//! The second phase: faults have stopped, and everything must come to rest.

use std::time::Duration;

use shardwright_node::{Call, ObjectKey};
use shardwright_placement::ObjectId;

use super::calls::Meaning;
use super::counter::{COUNTER, payload};
use super::director::{Director, Running};
use super::operators::settled;
use super::oracle::{broken, increments, rest};
use crate::oracle::Finding;

/// How often operators try to put everything right, and how long they wait in between.
const TRIES: u64 = 400;
const PAUSE_US: u64 = 20_000;
/// How long it may take until everybody has heard of the last change.
const QUIET_US: u64 = 2_000_000;

impl Director {
    pub(super) fn heal(&mut self) -> Result<(), Finding> {
        self.note(format_args!("the world heals"));
        self.healed = true;
        {
            let mut weather = self.weather.lock();
            (weather.is_stormy, weather.is_full, weather.serves_stale) = (false, false, false);
            weather.cuts.clear();
            weather.claimless.clear();
        }
        {
            let mut wires = self.wires.lock();
            wires.is_stormy = false;
            wires.cuts.clear();
        }
        self.store.let_sessions_outlive(Duration::ZERO);
        for what in std::mem::take(&mut self.later).into_values() {
            self.happen(what);
        }
        self.put_right()?;
        // What operators had asked for before may still be on its way, and come once more.
        self.next_act_us = self.clock.now_us() + QUIET_US;
        self.run_until_act()?;
        self.put_right()?;
        let nodes = self.settings.nodes + self.settings.spare_nodes;
        self.come_to_rest(nodes)?;
        if self.ordeal(nodes)? {
            self.put_right()?;
            self.come_to_rest(nodes)?;
        }
        // Until everybody has heard of it. Nothing moves any more meanwhile.
        self.next_act_us = self.clock.now_us() + QUIET_US;
        self.run_until_act()?;
        self.come_to_rest(nodes)?;
        self.resting = true;
        self.count_up()
    }

    /// Starts what is down, and takes back what operators have asked for.
    fn put_right(&mut self) -> Result<(), Finding> {
        for _ in 0..TRIES {
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
            let drained = self.truth.drained.iter().next().cloned();
            let pinned = self.truth.aims.iter().find(|(_, aim)| aim.target.flags.is_pinned());
            let pinned = pinned.map(|(shard, _)| *shard);
            if let Some(node) = drained {
                self.set_drained(node, false);
            } else if let Some(shard) = pinned {
                self.operate(format!("unpin shard {shard}"), |cluster| async move {
                    settled(cluster.unpin(shard).await)
                });
            } else if self.truth.header.frozen {
                self.set_frozen(false);
            } else {
                return Ok(());
            }
        }
        Err(broken(rest::ORACLE, "operators cannot put everything right".to_owned()))
    }

    /// Reads every counter, and holds it against what was acknowledged.
    fn count_up(&mut self) -> Result<(), Finding> {
        let gate = self.processes.iter().position(|process| process.is_gate).unwrap_or_default();
        let counters: Vec<_> =
            self.counted.iter().map(|(name, sum)| (name.clone(), *sum)).collect();
        for (name, (acknowledged, unknown)) in &counters {
            let row = self.vault.lock().rows.get(name).copied().unwrap_or_default();
            increments::judge(name, row.value, *acknowledged, *unknown)?;
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
