//! The result of a test, as a table.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use crate::check::Findings;
use crate::final_state::FinalState;
use crate::history::{Action, History, Outcome};
use crate::nemesis::Fault;

/// The result of a test.
#[derive(Clone, Debug)]
pub struct Report {
    seed: u64,
    lasted: Duration,
    operations: BTreeMap<&'static str, Tally>,
    faults: BTreeMap<Fault, u64>,
    runs: usize,
    keys: u64,
    /// The result of the checks.
    pub findings: Findings,
}

/// Outcomes of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    done: u64,
    replayed: u64,
    refused: u64,
    not_applied: u64,
    unknown: u64,
}

impl Tally {
    const fn add(&mut self, outcome: Option<&Outcome>) {
        match outcome {
            Some(Outcome::Done(facts)) if facts.replayed => self.replayed += 1,
            Some(Outcome::Done(_)) => self.done += 1,
            Some(Outcome::Refused(_) | Outcome::Corrupt(_)) => self.refused += 1,
            Some(Outcome::NotApplied(_)) => self.not_applied += 1,
            Some(Outcome::Unknown(_)) | None => self.unknown += 1,
        }
    }

    const fn sum(self, other: Self) -> Self {
        Self {
            done: self.done + other.done,
            replayed: self.replayed + other.replayed,
            refused: self.refused + other.refused,
            not_applied: self.not_applied + other.not_applied,
            unknown: self.unknown + other.unknown,
        }
    }
}

impl Report {
    /// Counts the outcomes of a history.
    #[must_use]
    pub fn new(
        seed: u64,
        lasted: Duration,
        history: &History,
        state: &FinalState,
        faults: BTreeMap<Fault, u64>,
        findings: Findings,
    ) -> Self {
        let mut operations: BTreeMap<&'static str, Tally> = BTreeMap::new();
        for recorded in &history.calls {
            let outcome = recorded.answer.as_ref().map(|(_, outcome)| outcome);
            operations.entry(name(&recorded.action)).or_default().add(outcome);
        }
        let runs = state.runs.iter().filter(|run| run.is_done).count();
        let keys = history.effects.iter().map(|effect| effect.to - effect.from + 1).sum();
        Self { seed, lasted, operations, faults, runs, keys, findings }
    }

    /// The table.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = String::new();
        let Findings { shards, longest, stale_refusals, violations } = &self.findings;
        let mut line = |name: &str, value: &dyn std::fmt::Display| {
            // Writing to a string cannot fail.
            let _infallible = writeln!(text, "{name:<30} {value:>8}");
        };
        line("seed", &self.seed);
        line("seconds of faults", &self.lasted.as_secs());
        for (fault, count) in &self.faults {
            line(&format!("fault: {}", fault.name()), count);
        }
        line("runs finished", &self.runs);
        line("shards checked", shards);
        line("longest shard history", longest);
        line("keys processed", &self.keys);
        let head = ["operation", "done", "replayed", "refused", "not applied", "unknown"];
        let [name, rest @ ..] = head;
        let _infallible = write!(text, "\n{name:<16}");
        for column in rest {
            let _infallible = write!(text, " {column:>11}");
        }
        let total = self.operations.values().fold(Tally::default(), |all, one| all.sum(*one));
        let rows = self.operations.iter().map(|(name, tally)| (*name, *tally));
        for (name, tally) in rows.chain([("all", total)]) {
            let Tally { done, replayed, refused, not_applied, unknown } = tally;
            let _infallible = write!(
                text,
                "\n{name:<16} {done:>11} {replayed:>11} {refused:>11} {not_applied:>11} \
                 {unknown:>11}"
            );
        }
        let mut line = |name: &str, value: &dyn std::fmt::Display| {
            let _infallible = write!(text, "\n{name:<30} {value:>8}");
        };
        line("\nunknown outcomes", &total.unknown);
        line("stale refusals", stale_refusals);
        line("violations", &violations.len());
        text
    }
}

const fn name(action: &Action) -> &'static str {
    match action {
        Action::Register { .. } => "register",
        Action::Claim => "claim",
        Action::Acquire { .. } => "acquire",
        Action::Renew { .. } => "renew",
        Action::Checkpoint { .. } => "checkpoint",
        Action::Complete { .. } => "complete",
        Action::Park { .. } => "park",
        Action::Unpark { .. } => "unpark",
        Action::Release { .. } => "release",
        Action::SplitReplace { .. } => "split_replace",
        Action::SplitResidual { .. } => "split_residual",
        Action::RequestSplit { .. } => "request_split",
        Action::DeclineSplit { .. } => "decline_split",
        Action::CompleteRun { .. } => "complete_run",
    }
}
