//! Checks that every key was processed and every key is covered by a cursor.

use std::collections::{BTreeMap, BTreeSet};

use super::model::{Event, presented_fence};
use super::objects::ShardHistory;
use crate::final_state::{FinalRun, FinalShard, FinalState};
use crate::history::{Action, Effect, History, Status};

/// Keys that cursors have covered, by run, and violations.
#[derive(Debug, Default)]
pub(super) struct CoveredKeys {
    keys: BTreeMap<u64, BTreeSet<u64>>,
    complaints: Vec<String>,
}

impl CoveredKeys {
    /// Follows the cursor of a shard through a linearization.
    pub(super) fn follow(&mut self, effects: &Effects, history: &ShardHistory, order: &[usize]) {
        let mut shard = history.initial.clone();
        for index in order {
            let Some(operation) = history.operations.get(*index) else { continue };
            let Some(after) = shard.after(&operation.event) else { return };
            if after.cursor != shard.cursor
                && let Event::Call { action, .. } = &operation.event
                && let Some(to) = after.cursor
            {
                let from = shard.cursor.map_or(shard.start, |cursor| cursor + 1);
                let location = (history.run, history.shard, presented_fence(action).unwrap_or(0));
                for key in from..=to {
                    if effects.has(location, key, operation.called) {
                        self.keys.entry(history.run).or_default().insert(key);
                    } else {
                        self.complaints.push(unprocessed(history, action, key));
                    }
                }
            }
            shard = after;
        }
    }

    /// Keys that a cursor covered unprocessed, or that no cursor covered.
    #[must_use]
    pub(super) fn complaints(mut self, history: &History, state: &FinalState) -> Vec<String> {
        for run in &state.runs {
            let Some((start, end)) = manifest(history, run.run) else { continue };
            let covered = self.keys.remove(&run.run).unwrap_or_default();
            let missing: Vec<u64> = (start..end).filter(|key| !covered.contains(key)).collect();
            if let Some(first) = missing.first() {
                let (run, count) = (run.run, missing.len());
                self.complaints.push(format!(
                    "run {run}: {count} keys were never processed, the first is {first}"
                ));
            }
        }
        self.complaints
    }
}

fn unprocessed(history: &ShardHistory, action: &Action, key: u64) -> String {
    let ShardHistory { run, shard, .. } = history;
    format!("run {run}, shard {shard:x}: {action:?} skipped key {key}, which no worker processed")
}

/// The processed keys by run, shard and fence, with times.
#[derive(Debug)]
pub(super) struct Effects(BTreeMap<(u64, u64, u64), Vec<Effect>>);

impl Effects {
    /// Groups the recorded effects.
    #[must_use]
    pub(super) fn of(history: &History) -> Self {
        let mut effects: BTreeMap<_, Vec<Effect>> = BTreeMap::new();
        for effect in &history.effects {
            let location = (effect.run, effect.shard, effect.fence);
            effects.entry(location).or_default().push(*effect);
        }
        Self(effects)
    }

    fn has(&self, location: (u64, u64, u64), key: u64, before: u64) -> bool {
        self.0.get(&location).is_some_and(|effects| {
            effects
                .iter()
                .any(|effect| effect.from <= key && key <= effect.to && effect.at <= before)
        })
    }
}

/// First key of a run, and first key after the last.
fn manifest(history: &History, run: u64) -> Option<(u64, u64)> {
    let mut registered = history.calls.iter().filter_map(|recorded| match &recorded.action {
        Action::Register { roots, .. } if recorded.run == run => {
            Some((roots.first()?.start, roots.last()?.end))
        }
        _ => None,
    });
    registered.next()
}

/// Violations in the stored runs.
#[must_use]
pub(super) fn run_complaints(history: &History, state: &FinalState) -> Vec<String> {
    let mut complaints = state.complaints.clone();
    for run in &state.runs {
        let mut report = |text: String| complaints.push(format!("run {}: {text}", run.run));
        if !run.is_done {
            report("the run has not ended".to_owned());
        }
        let counts = recount(run);
        if counts != run.counts {
            report(format!("stored counts {:?}, actual counts {counts:?}", run.counts));
        }
        for FinalShard { shard, seen, .. } in &run.shards {
            if seen.status == Status::Done && seen.cursor != seen.end.checked_sub(1) {
                report(format!("shard {shard:x} is done with cursor {:?}", seen.cursor));
            }
        }
        match manifest(history, run.run) {
            None => report("no process registered the run".to_owned()),
            Some((start, end)) => {
                if let Some(text) = untiled(run, start, end) {
                    report(text);
                }
                if run.watermark != Some(end) {
                    report(format!("the watermark is {:?}, not {end}", run.watermark));
                }
            }
        }
    }
    complaints
}

fn recount(run: &FinalRun) -> [u32; 4] {
    let count = |status| {
        let found = run.shards.iter().filter(|shard| shard.seen.status == status);
        u32::try_from(found.count()).unwrap_or(u32::MAX)
    };
    [count(Status::Active), count(Status::Done), count(Status::Split), count(Status::Parked)]
}

/// The first gap or overlap between the leaves of a run.
fn untiled(run: &FinalRun, start: u64, end: u64) -> Option<String> {
    let leaves = run.shards.iter().filter(|shard| shard.seen.status != Status::Split);
    let mut ranges: Vec<(u64, u64)> =
        leaves.map(|shard| (shard.seen.start, shard.seen.end)).collect();
    ranges.sort_unstable();
    let mut reached = start;
    for (from, to) in ranges {
        if from != reached {
            return Some(format!("leaves end at {reached}, the next starts at {from}"));
        }
        reached = to;
    }
    (reached != end).then(|| format!("leaves end at {reached}, the manifest at {end}"))
}
