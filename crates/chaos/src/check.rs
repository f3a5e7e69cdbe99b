//! Whether what processes recorded can have happened, and whether it should have.
//!
//! | module | what it says |
//! |---|---|
//! | `model` | what one shard may do, written independently of the code under test |
//! | `search` | whether there is an order in which all of a shard's history can have happened |
//! | `objects` | which part of the history is about which shard |
//! | `sentences` | what holds of every history: one writer per fence, and so on |
//! | `coverage` | whether every key was processed, and whether leaves and counts are right |

mod coverage;
mod model;
mod objects;
mod search;
mod sentences;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use crate::final_state::FinalState;
use crate::history::{History, Outcome};
use coverage::{Effects, Passed};
use model::Event;
use objects::ShardHistory;
use search::{Operation, Verdict, search};

pub use model::Seen;

/// What the checks came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// How many shards' histories were looked at.
    pub shards: usize,
    /// The most that happened to one shard.
    pub longest: usize,
    /// Refusals that were true earlier, and not any more when they were asked for. Each is a
    /// violation as well.
    pub stale_refusals: usize,
    /// What must not happen and did.
    pub violations: Vec<String>,
}

/// Judges a history by itself and by what is stored after it.
#[must_use]
pub fn check(history: &History, state: &FinalState) -> Findings {
    let (histories, complaints) = objects::shard_histories(history, state);
    let mut findings =
        Findings { shards: histories.len(), violations: complaints, ..Findings::default() };
    findings.violations.extend(sentences::complaints(history));
    findings.violations.extend(coverage::run_complaints(history, state));
    let effects = Effects::of(history);
    let mut passed = Passed::default();
    for shard in &histories {
        findings.longest = findings.longest.max(shard.operations.len());
        if let Some(order) = findings.judge(shard) {
            passed.follow(&effects, shard, &order);
        }
    }
    findings.violations.extend(passed.complaints(history, state));
    let mut seen = BTreeSet::new();
    findings.violations.retain(|violation| seen.insert(violation.clone()));
    findings
}

impl Findings {
    /// The order in which a shard's history can have happened.
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
                let text = format!("run {run}, shard {id:x} has no possible order:\n{excerpt}");
                self.violations.push(text);
                None
            }
            Verdict::TooLong => {
                let count = operations.len();
                let text = format!("run {run}, shard {id:x}: {count} operations are too many");
                self.violations.push(text);
                None
            }
        }
    }

    /// Whether the refusals of a shard's history were true earlier, however long ago. That changes
    /// nothing, but no read of etcd is out of date, and a refusal that was decided on anything else
    /// has to be decided again: so it is a violation, which says what it is.
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
        // At the least those that stand before something that was answered before their call.
        for (place, index) in order.iter().enumerate() {
            let called = shard.operations.get(*index).map(|operation| operation.called);
            let later = order.iter().skip(place + 1).filter_map(|at| shard.operations.get(*at));
            stale += usize::from(
                later.filter_map(|o| o.answered).any(|at| called.is_some_and(|called| at < called)),
            );
        }
        self.stale_refusals += stale;
        let ShardHistory { run, shard: id, .. } = shard;
        let excerpt = excerpt(shard, &best);
        let text = format!("run {run}, shard {id:x}: {stale} stale refusals at least:\n{excerpt}");
        self.violations.push(text);
        Verdict::Linearizable(order)
    }
}

/// How a shard came as far as an order goes, and what cannot come next.
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
    let mut text = format!("  … {skipped} operations before\n");
    text.extend(lines.iter().skip(skipped).map(|line| format!("  {line}\n")));
    text.push_str(&format!("  now it is {state:?}\n  and what is left is\n"));
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
