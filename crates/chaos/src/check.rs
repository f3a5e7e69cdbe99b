//! Checks that a recorded history is possible and legal.
//!
//! | module | contents |
//! |---|---|
//! | `model` | the legal behaviour of one shard, independent of the code under test |
//! | `search` | the search for a linearization of a shard's history |
//! | `objects` | the history of each shard |
//! | `properties` | properties of every history, such as one writer per fence |
//! | `coverage` | every key is processed; leaves and counts are correct |

mod coverage;
mod model;
mod objects;
mod properties;
mod search;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use crate::final_state::FinalState;
use crate::history::{History, Outcome};
use coverage::{CoveredKeys, Effects};
use model::Event;
use objects::ShardHistory;
use search::{Operation, Verdict, search};

pub use model::Seen;

/// The result of the checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Number of checked shards.
    pub shards: usize,
    /// Number of operations in the longest history of a shard.
    pub longest: usize,
    /// Refusals that were true only before their call. Each is also a violation.
    pub stale_refusals: usize,
    /// Descriptions of all violations.
    pub violations: Vec<String>,
}

/// Checks a history and the records stored after it.
#[must_use]
pub fn check(history: &History, state: &FinalState) -> Findings {
    let (histories, complaints) = objects::shard_histories(history, state);
    let mut findings =
        Findings { shards: histories.len(), violations: complaints, ..Findings::default() };
    findings.violations.extend(properties::complaints(history));
    findings.violations.extend(coverage::run_complaints(history, state));
    let effects = Effects::of(history);
    let mut covered = CoveredKeys::default();
    for shard in &histories {
        findings.longest = findings.longest.max(shard.operations.len());
        if let Some(order) = findings.judge(shard) {
            covered.follow(&effects, shard, &order);
        }
    }
    findings.violations.extend(covered.complaints(history, state));
    let mut seen = BTreeSet::new();
    findings.violations.retain(|violation| seen.insert(violation.clone()));
    findings
}

impl Findings {
    /// A linearization of a shard's history, if there is one.
    fn judge(&mut self, shard: &ShardHistory) -> Option<Vec<usize>> {
        let verdict = match search(shard.initial.clone(), &shard.operations) {
            Verdict::Impossible(best) => self.judge_leniently(shard, best),
            verdict => verdict,
        };
        let ShardHistory { run, shard: id, operations, .. } = shard;
        match verdict {
            Verdict::Linearizable(order) => Some(order),
            Verdict::Impossible(best) => {
                let excerpt = excerpt(shard, &best);
                let text = format!("run {run}, shard {id:x} has no linearization:\n{excerpt}");
                self.violations.push(text);
                None
            }
            Verdict::TooLong => {
                let count = operations.len();
                let text =
                    format!("run {run}, shard {id:x}: {count} operations exceed the search limit");
                self.violations.push(text);
                None
            }
        }
    }

    /// Searches again, with refusals that may have been true at any earlier time. A stale refusal
    /// has no effect, but it is a violation: reads of etcd are current, and a refusal on cached
    /// records must be decided again on a fresh read.
    fn judge_leniently(&mut self, shard: &ShardHistory, best: Vec<usize>) -> Verdict {
        let mut stale = 0;
        let lenient = |operation: &Operation| match &operation.event {
            Event::Call { outcome: Some(Outcome::Refused(_)), .. } | Event::RunSeenEnded => {
                Operation { called: 0, ..operation.clone() }
            }
            _ => operation.clone(),
        };
        let operations: Vec<Operation> = shard.operations.iter().map(lenient).collect();
        let Verdict::Linearizable(order) = search(shard.initial.clone(), &operations) else {
            return Verdict::Impossible(best);
        };
        // A refusal is stale if it precedes an operation that was answered before its call.
        for (position, index) in order.iter().enumerate() {
            let called = shard.operations.get(*index).map(|operation| operation.called);
            let later = order.iter().skip(position + 1).filter_map(|at| shard.operations.get(*at));
            stale += usize::from(
                later.filter_map(|o| o.answered).any(|at| called.is_some_and(|called| at < called)),
            );
        }
        self.stale_refusals += stale;
        let ShardHistory { run, shard: id, .. } = shard;
        let excerpt = excerpt(shard, &best);
        let text = format!("run {run}, shard {id:x}: at least {stale} stale refusals:\n{excerpt}");
        self.violations.push(text);
        Verdict::Linearizable(order)
    }
}

/// The end of the longest possible order, and the operations that cannot follow.
fn excerpt(shard: &ShardHistory, best: &[usize]) -> String {
    const SHOWN: usize = 12;
    let mut state = shard.initial.clone();
    let mut lines = Vec::new();
    for index in best {
        let Some(operation) = shard.operations.get(*index) else { continue };
        state = state.after(&operation.event).unwrap_or(state);
        lines.push(line(operation));
    }
    let skipped = lines.len().saturating_sub(SHOWN);
    let mut text = format!("  … {skipped} earlier operations\n");
    text.extend(lines.iter().skip(skipped).map(|line| format!("  {line}\n")));
    text.push_str(&format!("  state: {state:?}\n  remaining operations:\n"));
    let left = shard.operations.iter().enumerate().filter(|(index, _)| !best.contains(index));
    text.extend(left.take(SHOWN).map(|(_, operation)| format!("  {}\n", line(operation))));
    text
}

fn line(operation: &Operation) -> String {
    const MICROSECOND: u64 = 1_000;
    let called = operation.called / MICROSECOND;
    let answered =
        operation.answered.map_or("never".to_owned(), |at| (at / MICROSECOND).to_string());
    format!("{called} to {answered}: {:?}", operation.event)
}
