use std::collections::BTreeMap;

use super::answers;
use crate::ground::fault::StoreFault;
use crate::request::Request;
use crate::system::Outcome;
use crate::tally::Tally;

/// Counts of what happened, of one seed or of many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredTally {
    /// What the protocol saw. A step is a commit that changed a run or a shard.
    pub counts: Tally,
    /// By kind.
    pub faults: BTreeMap<StoreFault, u64>,
    /// Answers, of whatever kind.
    pub answers: u64,
    /// Answers that left the outcome open.
    pub unknown: u64,
    /// Answers that the store had not done what was asked.
    pub not_applied: u64,
    /// Runs that were taken away.
    pub collected: u64,
}

impl StoredTally {
    pub(super) fn add_faults(&mut self, faults: &BTreeMap<StoreFault, u64>) {
        for (fault, count) in faults {
            *self.faults.entry(*fault).or_default() += count;
        }
    }

    pub(super) fn outcome(&mut self, request: &Request, outcome: &Outcome) {
        self.answers += 1;
        if answers::is_unknown(outcome) {
            self.unknown += 1;
        } else if answers::is_retryable(outcome) {
            self.not_applied += 1;
        } else {
            self.counts.outcome(request, outcome, false);
        }
    }

    /// Adds the counts of another.
    pub fn add(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        self.add_faults(&other.faults);
        self.answers += other.answers;
        self.unknown += other.unknown;
        self.not_applied += other.not_applied;
        self.collected += other.collected;
    }
}
