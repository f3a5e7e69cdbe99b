//! Oracles of calls.

use super::{ensure, violation};
use crate::oracle::{Finding, Oracle};

pub(in crate::clusters) const PLANNED: &Oracle = &Oracle::of_the_world(
    "planned moves fail no call",
    "without faults every call is answered while nodes join, drain and leave and shards move",
);

pub(in crate::clusters) const READS: &Oracle = &Oracle::of_the_world(
    "reads are not stale",
    "a read returns every increment that was acknowledged before the read",
);

pub(in crate::clusters) const INCREMENTS: &Oracle = &Oracle::of_the_world(
    "no increment is lost",
    "in the end a counter has every acknowledged increment, and beyond them at most those with \
     unknown outcome",
);

pub(in crate::clusters) const DEADLINES: &Oracle = &Oracle::of_the_world(
    "deadlines are kept",
    "a caller gets an answer or an error by its deadline, unless its own process is paused",
);

/// The violation that a call failed in a world without faults.
pub(in crate::clusters) fn failed_in_calm(call: u64, why: &str) -> Finding {
    violation(PLANNED, format!("call {call} failed: {why}"))
}

/// Judges a read.
pub(in crate::clusters) fn judge_read(
    counter: &str,
    read: u64,
    at_least: u64,
) -> Result<(), Finding> {
    ensure(READS, read >= at_least, || {
        format!("{counter} was read as {read}, {at_least} increments were acknowledged before")
    })
}

/// Judges the final value of a counter.
pub(in crate::clusters) fn judge_counter(
    counter: &str,
    value: u64,
    acknowledged: u64,
    unknown: u64,
) -> Result<(), Finding> {
    ensure(INCREMENTS, (acknowledged..=acknowledged + unknown).contains(&value), || {
        format!("{counter} is {value}: {acknowledged} acknowledged, {unknown} unknown")
    })
}

/// Tolerance of a deadline.
const SLACK_US: u64 = 1_000;

/// Judges the time of an answer, or the current time of a call that is not answered.
pub(in crate::clusters) fn judge_deadline(
    call: u64,
    now_us: u64,
    due_us: u64,
) -> Result<(), Finding> {
    ensure(DEADLINES, now_us <= due_us + SLACK_US, || {
        format!("call {call} was due at {due_us}, it is {now_us} now")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_read_is_detected() {
        assert_eq!(judge_read("a", 4, 4), Ok(()));
        assert!(judge_read("a", 3, 4).is_err());
    }

    #[test]
    fn lost_and_extra_increments_are_detected() {
        assert_eq!(judge_counter("a", 4, 4, 0), Ok(()));
        assert_eq!(judge_counter("a", 6, 4, 2), Ok(()));
        assert!(judge_counter("a", 3, 4, 2).is_err(), "an increment is lost");
        assert!(judge_counter("a", 7, 4, 2).is_err(), "a refused increment was applied");
    }

    #[test]
    fn late_answer_is_detected() {
        assert_eq!(judge_deadline(1, 5_000, 5_000), Ok(()));
        assert!(judge_deadline(1, 5_001 + SLACK_US, 5_000).is_err());
    }
}
