//! The two phases: chaos, then faults stop and all work must be done.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use shardwright_contracts::ShardId;
use shardwright_coordination::{RunStatus, ShardStatus};

use super::director::Director;
use super::operator::Order;
use super::oracle::{
    judge_done, judge_repeated, judge_straggler, lost_in_all, missing_for_end, named, once_in_all,
};
use super::source::left;
use crate::oracle::Finding;

impl Director {
    pub(super) fn chaos(&mut self, acts: u64) -> Result<(), Finding> {
        if self.settings.is_calm {
            return Ok(());
        }
        for _ in 0..acts {
            self.next_act_us = self.clock.now_us()
                + match self.rng.below(100) {
                    0..30 => self.rng.below(1_000),
                    30..95 => self.rng.between(1_000, 20_000),
                    _ => self.rng.between(20_000, 200_000),
                };
            self.run_until_act()?;
            if self.stored.status().is_some_and(RunStatus::is_terminal) {
                return Ok(());
            }
            match self.rng.below(1_000) {
                0..60 => self.inject_fault(),
                60..85 => self.operator_act(),
                85..150 if self.stored.is_paused() => self.order(Order::Resume),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Number of steps within which all work must be done.
const STEPS: u64 = 12_000;
const STEP_US: u64 = 25_000;
/// Time within which operations in flight may still take effect.
const QUIET_US: u64 = 3_000_000;

impl Director {
    pub(super) fn heal(&mut self) -> Result<(), Finding> {
        self.note(format_args!("the world heals"));
        self.healed = true;
        self.faults.lock().stop();
        self.script.lock().is_stormy = false;
        self.store.let_sessions_outlive(Duration::ZERO);
        for what in self.agenda.take_all() {
            self.run_scheduled(what);
        }
        let bad: BTreeSet<u64> =
            self.settings.poisoned.union(&self.settings.killers).copied().collect();
        let (mut missing, mut quiet_us) = (None, 0);
        for _ in 0..STEPS {
            self.next_act_us = self.clock.now_us() + STEP_US;
            self.run_until_act()?;
            missing = missing_for_end(&self.stored, &bad);
            // An operation in flight may still undo it.
            quiet_us = if missing.is_none() { quiet_us + STEP_US } else { 0 };
            if quiet_us > QUIET_US && self.ordered.is_none() {
                break;
            }
            if self.stored.is_paused() {
                self.order(Order::Resume);
            } else {
                self.unpark_any(|item| !bad.contains(&item));
            }
        }
        judge_done(missing)?;
        self.judge_results()
    }

    /// Judges the results of the whole run.
    fn judge_results(&mut self) -> Result<(), Finding> {
        let mut found: BTreeMap<u64, Vec<ShardId>> = BTreeMap::new();
        let mut rest = BTreeSet::new();
        for shard in self.stored.shards() {
            for item in named(&self.script, shard)? {
                found.entry(item).or_default().push(shard.head.key.shard);
            }
            if matches!(shard.head.status, ShardStatus::Active | ShardStatus::Parked) {
                rest.extend(left(shard));
            }
        }
        once_in_all(&found)?;
        lost_in_all(self.settings.items, &found, &rest)?;
        let shards = self.stored.shards().count();
        if self.settings.is_lopsided {
            judge_straggler(shards, self.busy.len())?;
        }
        if self.settings.is_calm {
            judge_repeated(self.settings.items, &self.script.lock().tries)?;
        }
        self.tally.items += found.len() as u64;
        self.tally.parked += rest.len() as u64;
        self.tally.shards += shards as u64;
        Ok(())
    }
}
