//! The scripted handler: takes its time, fails, hangs, and returns one line per item.

use std::collections::BTreeSet;
use std::future::pending;

use shardwright_coordination::ParkReason;
use shardwright_worker::ItemFailure;
use shardwright_worker::handler::{Batch, Handler, Outcome};

use super::script::{Call, Script};
use super::settings::Settings;
use super::source::first_at;
use super::tally::WorkerFault;

/// The handler of one process.
pub(crate) struct ScriptedHandler {
    script: Script,
    process: usize,
    batch: usize,
    failing_permille: u64,
    item_us: (u64, u64),
    lease_us: u64,
    poisoned: BTreeSet<u64>,
    killers: BTreeSet<u64>,
}

/// The result of an item: its number, and the call that made it.
fn line(item: u64, call: u64) -> Vec<u8> {
    format!("{item:06} by call {call}\n").into_bytes()
}

/// The items of the lines in a segment, in the order in which they were appended.
pub(super) fn items_in(bytes: &[u8]) -> Vec<u64> {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    lines.filter(|line| line.ends_with(b"\n")).map(first_digits).collect()
}

fn first_digits(line: &[u8]) -> u64 {
    let digits = line.split(|byte| *byte == b' ').next().unwrap_or_default();
    first_at(digits)
}

impl ScriptedHandler {
    pub(super) fn new(script: Script, process: usize, settings: &Settings) -> Self {
        Self {
            script,
            process,
            batch: settings.batch,
            failing_permille: settings.failing_permille,
            item_us: settings.item_us,
            lease_us: settings.run.lease_duration_ms.get() * 1_000,
            poisoned: settings.poisoned.clone(),
            killers: settings.killers.clone(),
        }
    }

    /// How long a batch takes.
    fn duration_us(&self, items: usize) -> u64 {
        let mut state = self.script.lock();
        let (low, high) = self.item_us;
        let usual: u64 = (0..items).map(|_| state.rng.between(low, high)).sum();
        if state.strikes(4, WorkerFault::HandlerHung) {
            return usual + state.rng.between(self.lease_us, 3 * self.lease_us);
        }
        if state.strikes(40, WorkerFault::HandlerSlow) {
            return usual + state.rng.between(10_000, 150_000);
        }
        usual
    }

    fn outcome(&self, item: u64, call: u64) -> Outcome {
        let mut state = self.script.lock();
        if self.poisoned.contains(&item) {
            state.fault(WorkerFault::ItemPoisoned);
            return Err(ItemFailure::permanent(ParkReason::Poisoned, "poisoned"));
        }
        if state.strikes(self.failing_permille, WorkerFault::HandlerFailed) {
            return Err(ItemFailure::retryable("scripted"));
        }
        if state.strikes(3, WorkerFault::HandlerUnable) {
            return Err(ItemFailure::retryable("scripted").of_worker());
        }
        state.resolved.insert(item);
        Ok(line(item, call))
    }
}

impl Handler for ScriptedHandler {
    fn batch_size(&self) -> usize {
        self.batch
    }

    async fn process(&self, batch: Batch<'_>) -> Vec<Outcome> {
        let items: Vec<u64> = batch.items.iter().map(|item| first_at(&item.key)).collect();
        let assignment = batch.assignment;
        let alive = self.script.begin(Call {
            number: 0,
            process: self.process,
            slot: assignment.worker.as_raw(),
            shard: assignment.shard,
            fence: assignment.fence,
            attempt: batch.attempt,
            items: items.clone(),
        });
        let duration_us = self.duration_us(items.len());
        self.script.clock.sleep_us(duration_us / 2).await;
        alive.goes_on();
        self.script.clock.sleep_us(duration_us.div_ceil(2)).await;
        alive.goes_on();
        if items.iter().any(|item| self.killers.contains(item)) {
            self.script.kill(self.process);
            return pending().await;
        }
        let call = alive.call().number;
        let mut outcomes: Vec<Outcome> = items.iter().map(|it| self.outcome(*it, call)).collect();
        if self.script.lock().strikes(8, WorkerFault::HandlerShort) {
            outcomes.pop();
        }
        outcomes
    }
}
