use super::ensure;
use crate::oracle::{Finding, Oracle};

pub(in crate::clusters) const ORACLE: &Oracle = &Oracle::of_the_world(
    "answers come in time",
    "whoever calls gets an answer or an error by the deadline, unless the gate itself stands still",
);

/// How much later than its deadline a call may be answered.
const SLACK_US: u64 = 1_000;

/// Judges when a call was answered, or that it still is not.
pub(in crate::clusters) fn judge(call: u64, now_us: u64, due_us: u64) -> Result<(), Finding> {
    ensure(ORACLE, now_us <= due_us + SLACK_US, || {
        format!("call {call} was due at {due_us}, and now it is {now_us}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_comes_late_is_noticed() {
        assert_eq!(judge(1, 5_000, 5_000), Ok(()));
        assert!(judge(1, 5_001 + SLACK_US, 5_000).is_err());
    }
}
