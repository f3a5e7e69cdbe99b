//! Properties of every history, each checked on its own.
//!
//! They follow from a linearization. If there is none, they show what is wrong.

use std::collections::BTreeMap;

use super::model::{operation, presented_fence};
use super::objects::of_shard;
use crate::history::{Acquired, Action, Facts, History, Outcome, Recorded};

/// All violations.
#[must_use]
pub(super) fn complaints(history: &History) -> Vec<String> {
    let mut of_shards: BTreeMap<(u64, u64), Vec<Done<'_>>> = BTreeMap::new();
    for done in history.calls.iter().filter_map(Done::of) {
        let shard = done.facts.acquired.map(|acquired| acquired.shard);
        if let Some(shard) = shard.or(of_shard(&done.call.action)) {
            of_shards.entry((done.call.run, shard)).or_default().push(done);
        }
    }
    let mut complaints = one_effect_per_operation(history);
    for ((run, shard), done) in &of_shards {
        let found = one_writer_per_fence(done)
            .into_iter()
            .chain(fences_rise(done))
            .chain(cursor_never_goes_back(done))
            .chain(terminal_stays_terminal(done));
        complaints.extend(found.map(|text| format!("run {run}, shard {shard:x}: {text}")));
    }
    complaints
}

/// A call that had an effect.
struct Done<'h> {
    call: &'h Recorded,
    answered: u64,
    facts: &'h Facts,
}

impl<'h> Done<'h> {
    fn of(call: &'h Recorded) -> Option<Self> {
        match &call.answer {
            Some((answered, Outcome::Done(facts))) if !facts.replayed => {
                Some(Self { call, answered: *answered, facts })
            }
            _ => None,
        }
    }

    /// The fence of the call.
    fn fence(&self) -> Option<u64> {
        self.facts.acquired.map(|acquired| acquired.fence).or(presented_fence(&self.call.action))
    }

    /// The cursor that the call reports.
    fn cursor(&self) -> Option<u64> {
        match (&self.call.action, self.facts.acquired) {
            (_, Some(Acquired { cursor, .. })) => cursor,
            (Action::Checkpoint { key, .. } | Action::Complete { key, .. }, None) => Some(*key),
            _ => None,
        }
    }

    fn is_advice(&self) -> bool {
        matches!(self.call.action, Action::RequestSplit { .. } | Action::DeclineSplit { .. })
    }
}

fn one_writer_per_fence(done: &[Done<'_>]) -> Vec<String> {
    let mut writers: BTreeMap<u64, u64> = BTreeMap::new();
    let mut granted: BTreeMap<u64, u64> = BTreeMap::new();
    let mut complaints = Vec::new();
    for one in done.iter().filter(|one| !one.is_advice()) {
        let (Some(fence), worker) = (one.fence(), one.call.worker) else { continue };
        let writer = *writers.entry(fence).or_insert(worker);
        if writer != worker {
            complaints.push(format!("workers {writer} and {worker} both wrote with fence {fence}"));
        }
        if one.facts.acquired.is_some() && granted.insert(fence, worker).is_some() {
            complaints.push(format!("fence {fence} was granted twice"));
        }
    }
    complaints
}

fn fences_rise(done: &[Done<'_>]) -> Vec<String> {
    let acquired: Vec<&Done<'_>> = done.iter().filter(|one| one.facts.acquired.is_some()).collect();
    ordered(&acquired)
        .filter(|(earlier, later)| earlier.fence() >= later.fence())
        .map(|(earlier, later)| {
            format!("fence {:?} was granted after {:?}", later.fence(), earlier.fence())
        })
        .collect()
}

fn cursor_never_goes_back(done: &[Done<'_>]) -> Vec<String> {
    let decided: Vec<&Done<'_>> =
        done.iter().filter(|one| one.cursor().is_some() || one.facts.acquired.is_some()).collect();
    ordered(&decided)
        .filter(|(earlier, later)| earlier.cursor() > later.cursor())
        .map(|(earlier, later)| {
            format!("the cursor was at {:?} after {:?}", later.cursor(), earlier.cursor())
        })
        .collect()
}

fn terminal_stays_terminal(done: &[Done<'_>]) -> Vec<String> {
    let all: Vec<&Done<'_>> = done.iter().filter(|one| !one.is_advice()).collect();
    ordered(&all)
        .filter(|(earlier, _)| {
            matches!(earlier.call.action, Action::Complete { .. } | Action::SplitReplace { .. })
        })
        .map(|(earlier, later)| {
            format!("{:?} was executed after {:?}", later.call.action, earlier.call.action)
        })
        .collect()
}

fn one_effect_per_operation(history: &History) -> Vec<String> {
    let mut effects: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for done in history.calls.iter().filter_map(Done::of) {
        if let Some(op) = operation(&done.call.action) {
            *effects.entry((done.call.run, op)).or_default() += 1;
        }
    }
    effects.retain(|_, count| *count > 1);
    let sentence = |((run, op), count): (&(u64, u64), &u64)| {
        format!("operation {op:x} of run {run} had {count} effects")
    };
    effects.iter().map(sentence).collect()
}

/// Pairs of calls of which the first was answered before the second was made.
fn ordered<'d, 'h>(done: &'d [&'d Done<'h>]) -> impl Iterator<Item = (&'d Done<'h>, &'d Done<'h>)> {
    done.iter().flat_map(move |earlier| {
        done.iter()
            .filter(move |later| earlier.answered < later.call.called)
            .map(move |later| (*earlier, *later))
    })
}
