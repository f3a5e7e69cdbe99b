//! Counts of one seed or of many.

use std::collections::BTreeMap;

use shardwright_coordination::CoordError;

use crate::coverage;
use crate::director::{is_retryable, is_unknown};
use crate::fault::Fault;
use crate::request::{Answer, Reply, Request, RequestExt};
use crate::runtime::fault::StoreFault;

/// Counts of worlds around the in-memory reference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Seeds.
    pub seeds: u64,
    /// Requests and faults.
    pub steps: u64,
    /// Requests that took effect or were answered.
    pub accepted_steps: u64,
    /// Requests that were refused.
    pub refused_steps: u64,
    /// Requests about runs that had ended.
    pub ended_steps: u64,
    /// Steps before the world healed.
    pub chaos_steps: u64,
    /// Milliseconds on the world's clock.
    pub simulated_ms: u64,
    /// Runs that ended.
    pub runs: u64,
    /// By operation.
    pub accepted: BTreeMap<&'static str, u64>,
    /// By operation.
    pub replayed: BTreeMap<&'static str, u64>,
    /// By operation and refusal.
    pub refusals: BTreeMap<(&'static str, &'static str), u64>,
    /// Failures between a sender and the system, by operation and class.
    pub failures: BTreeMap<(&'static str, &'static str), u64>,
    /// By kind.
    pub faults: BTreeMap<Fault, u64>,
}

impl Tally {
    /// Counts a fault.
    pub fn fault(&mut self, fault: Fault) {
        *self.faults.entry(fault).or_default() += 1;
    }

    /// Counts a request and its outcome.
    pub fn outcome(&mut self, request: &Request, outcome: &Answer, run_ended: bool) {
        self.ended_steps += u64::from(run_ended);
        match outcome {
            Ok(answer) => {
                self.accepted_steps += 1;
                *self.accepted.entry(request.label()).or_default() += 1;
                if Reply::is_replay(answer) {
                    *self.replayed.entry(request.label()).or_default() += 1;
                }
            }
            Err(refusal) => {
                self.refused_steps += 1;
                let key = (request.label(), coverage::name(refusal));
                *self.refusals.entry(key).or_default() += 1;
            }
        }
    }

    /// Counts an infrastructure failure between a sender and the system.
    pub fn failure(&mut self, request: &Request, failure: &CoordError) {
        let key = (request.label(), coverage::name(failure));
        *self.failures.entry(key).or_default() += 1;
    }

    /// Adds the counts of another.
    pub fn add(&mut self, other: &Self) {
        self.seeds += other.seeds;
        self.steps += other.steps;
        self.accepted_steps += other.accepted_steps;
        self.refused_steps += other.refused_steps;
        self.ended_steps += other.ended_steps;
        self.chaos_steps += other.chaos_steps;
        self.simulated_ms += other.simulated_ms;
        self.runs += other.runs;
        merge(&mut self.accepted, &other.accepted);
        merge(&mut self.replayed, &other.replayed);
        merge(&mut self.refusals, &other.refusals);
        merge(&mut self.failures, &other.failures);
        merge(&mut self.faults, &other.faults);
    }
}

pub(crate) fn merge<K: Copy + Ord>(into: &mut BTreeMap<K, u64>, from: &BTreeMap<K, u64>) {
    for (key, count) in from {
        *into.entry(*key).or_default() += count;
    }
}

/// Counts of a world around the run protocol, of one seed or of many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunTally {
    /// Counts of the protocol. Around a store, a step is a commit that changed a run or a shard.
    pub counts: Tally,
    /// Faults around a store, by kind.
    pub faults: BTreeMap<StoreFault, u64>,
    /// All answers.
    pub answers: u64,
    /// Unknown outcomes.
    pub unknown: u64,
    /// Answers of `NotApplied`.
    pub not_applied: u64,
    /// Runs that were deleted.
    pub collected: u64,
}

impl RunTally {
    pub(crate) fn store_fault(&mut self, fault: StoreFault) {
        *self.faults.entry(fault).or_default() += 1;
    }

    pub(crate) fn add_store_faults(&mut self, faults: &BTreeMap<StoreFault, u64>) {
        merge(&mut self.faults, faults);
    }

    pub(crate) fn outcome(&mut self, request: &Request, answer: &Answer) {
        self.answers += 1;
        if is_unknown(answer) {
            self.unknown += 1;
        } else if is_retryable(answer) {
            self.not_applied += 1;
        } else {
            self.counts.outcome(request, answer, false);
        }
    }

    /// Adds the counts of another.
    pub fn add(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        merge(&mut self.faults, &other.faults);
        self.answers += other.answers;
        self.unknown += other.unknown;
        self.not_applied += other.not_applied;
        self.collected += other.collected;
    }
}
