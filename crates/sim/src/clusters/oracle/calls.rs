//! What callers get.

use super::{broken, ensure};
use crate::oracle::{Finding, Oracle};

pub(in crate::clusters) const PLANNED: &Oracle = &Oracle::of_the_world(
    "planned moves fail no call",
    "while nodes join, drain and leave and shards are moved, and nothing else goes wrong, every \
     call is answered",
);

pub(in crate::clusters) const READS: &Oracle = &Oracle::of_the_world(
    "reads are not stale",
    "a read tells every increment that was acknowledged before it was asked",
);

pub(in crate::clusters) const INCREMENTS: &Oracle = &Oracle::of_the_world(
    "no increment is lost",
    "in the end a counter holds every increment that was acknowledged, and besides at most those \
     whose outcome is not known",
);

pub(in crate::clusters) const TIMELY: &Oracle = &Oracle::of_the_world(
    "answers come in time",
    "whoever calls gets an answer or an error by the deadline, unless the gate itself stands still",
);

/// A call that failed though nothing went wrong.
pub(in crate::clusters) fn failed_in_calm(call: u64, why: &str) -> Finding {
    broken(PLANNED, format!("call {call} failed: {why}"))
}

/// Judges what was read.
pub(in crate::clusters) fn judge_read(
    counter: &str,
    read: u64,
    at_least: u64,
) -> Result<(), Finding> {
    ensure(READS, read >= at_least, || {
        format!("{counter} was read as {read}, and {at_least} had been acknowledged before")
    })
}

/// Judges a counter at the end.
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

/// How much later than its deadline a call may be answered.
const SLACK_US: u64 = 1_000;

/// Judges when a call was answered, or that it still is not.
pub(in crate::clusters) fn judge_deadline(
    call: u64,
    now_us: u64,
    due_us: u64,
) -> Result<(), Finding> {
    ensure(TIMELY, now_us <= due_us + SLACK_US, || {
        format!("call {call} was due at {due_us}, and now it is {now_us}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_that_misses_something_is_noticed() {
        assert_eq!(judge_read("a", 4, 4), Ok(()));
        assert!(judge_read("a", 3, 4).is_err());
    }

    #[test]
    fn what_was_acknowledged_is_there_and_no_more_than_may_be() {
        assert_eq!(judge_counter("a", 4, 4, 0), Ok(()));
        assert_eq!(judge_counter("a", 6, 4, 2), Ok(()));
        assert!(judge_counter("a", 3, 4, 2).is_err(), "one is lost");
        assert!(judge_counter("a", 7, 4, 2).is_err(), "one was refused and done all the same");
    }

    #[test]
    fn an_answer_that_comes_late_is_noticed() {
        assert_eq!(judge_deadline(1, 5_000, 5_000), Ok(()));
        assert!(judge_deadline(1, 5_001 + SLACK_US, 5_000).is_err());
    }
}
