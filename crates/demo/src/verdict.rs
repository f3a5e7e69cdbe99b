//! Whether promises were kept.

use std::time::Duration;

use crate::load::{Failure, Tally};

/// How much longer than a session it may take until calls are answered again.
const SLACK: Duration = Duration::from_secs(2);

/// How many calls are told of that failed for nothing; all are counted.
const SHOWN: usize = 20;

/// Something unplanned that was done, during which calls may fail.
#[derive(Clone, Copy, Debug)]
pub struct Trouble {
    /// What it is called.
    pub name: &'static str,
    /// When, from the beginning of the load.
    pub at: Duration,
}

/// What is judged.
pub struct Recorded<'a> {
    /// What clients recorded.
    pub tally: &'a Tally,
    /// What was done, in order.
    pub troubles: &'a [Trouble],
    /// What is stored in the end.
    pub total: i128,
    /// The TTL of a node's session.
    pub session: Duration,
    /// What was seen to go wrong already.
    pub broken: Vec<String>,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Verdict {
    /// What was promised and not kept, each in a sentence.
    pub broken: Vec<String>,
    /// Calls that failed though nothing unplanned was done.
    pub failed_for_nothing: u64,
    /// Calls that were answered and are not in the store.
    pub lost: i128,
    /// For each trouble, how long after it the last call was made that failed.
    pub recoveries: Vec<(&'static str, Duration)>,
}

impl Verdict {
    /// Compares the records of clients with what is stored.
    #[must_use]
    pub fn of(recorded: Recorded<'_>) -> Self {
        let Recorded { tally, troubles, total, session, broken } = recorded;
        let mut verdict = Self { broken, ..Self::default() };
        let allowed = session + SLACK;
        let mut unforgiven = Vec::new();
        verdict.recoveries = troubles.iter().map(|one| (one.name, Duration::ZERO)).collect();
        for failure in &tally.failures {
            let cause = troubles.iter().rposition(|one| is_of(failure, one, allowed));
            match cause.and_then(|at| troubles.get(at).zip(verdict.recoveries.get_mut(at))) {
                Some((trouble, (_, recovery))) => {
                    *recovery = (*recovery).max(failure.begun_at.saturating_sub(trouble.at));
                }
                None => {
                    verdict.failed_for_nothing += 1;
                    unforgiven.push(failure);
                }
            }
        }
        for failure in unforgiven.iter().take(SHOWN) {
            let Failure { counter, begun_at, ended_at, why } = failure;
            let (begun, ended) = (begun_at.as_secs_f64(), ended_at.as_secs_f64());
            verdict.broken.push(format!(
                "a call to counter {counter} that was made at {begun:.3} s failed at {ended:.3} s: \
                 {why}"
            ));
        }
        let kept = tally.failures.len() as u64;
        if tally.failed > kept {
            verdict.broken.push(format!(
                "{} calls failed, and only of the first {kept} is it known when and why",
                tally.failed
            ));
        }
        verdict.judge_total(tally, total);
        verdict
    }

    fn judge_total(&mut self, tally: &Tally, total: i128) {
        let (acknowledged, unknown) = (i128::from(tally.acknowledged), i128::from(tally.unknown));
        self.lost = (acknowledged - total).max(0);
        if self.lost > 0 {
            self.broken.push(format!("{} increments were answered and are lost", self.lost));
        }
        if total > acknowledged + unknown {
            let much = total - acknowledged - unknown;
            self.broken.push(format!("{much} increments were counted that nobody made"));
        }
    }
}

/// Whether a call may have failed because of some trouble: it ended after that had begun, and was
/// made before it should have been over.
fn is_of(failure: &Failure, trouble: &Trouble, allowed: Duration) -> bool {
    failure.ended_at >= trouble.at && failure.begun_at <= trouble.at + allowed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(failures: &[(u64, u64)], total: i128) -> Verdict {
        let ms = Duration::from_millis;
        let failures = failures.iter().map(|&(begun, ended)| Failure {
            counter: 1,
            begun_at: ms(begun),
            ended_at: ms(ended),
            why: "no answer in time".to_owned(),
        });
        let failures: Vec<_> = failures.collect();
        let failed = failures.len() as u64;
        let tally =
            Tally { acknowledged: 10, failed, unknown: failed, failures, ..Tally::default() };
        verdict_of(&tally, total)
    }

    fn verdict_of(tally: &Tally, total: i128) -> Verdict {
        let ms = Duration::from_millis;
        let troubles = [Trouble { name: "kill", at: ms(10_000) }];
        let (session, broken) = (ms(3_000), Vec::new());
        Verdict::of(Recorded { tally, troubles: &troubles, total, session, broken })
    }

    #[test]
    fn failures_are_forgiven_around_a_trouble_only() {
        let fine = judged(&[(9_000, 10_000), (14_900, 16_900)], 11);
        assert!(fine.broken.is_empty(), "{fine:?}");
        assert_eq!(fine.recoveries, [("kill", Duration::from_millis(4_900))]);
        for bad in [(7_000, 9_000), (15_100, 15_200)] {
            assert_eq!(judged(&[bad], 11).failed_for_nothing, 1, "{bad:?}");
        }
    }

    #[test]
    fn failures_that_nobody_has_kept_are_not_forgiven() {
        let (at, why) = (Duration::from_millis(10_500), "no answer in time".to_owned());
        let kept = Failure { counter: 1, begun_at: at, ended_at: at, why };
        let tally = Tally { acknowledged: 10, failed: 2, failures: vec![kept], ..Tally::default() };
        assert_eq!(verdict_of(&tally, 10).broken.len(), 1);
        assert!(verdict_of(&Tally { failed: 1, ..tally }, 10).broken.is_empty());
    }

    #[test]
    fn what_was_answered_is_stored_and_nothing_else() {
        for (total, is_fine) in [(9, false), (10, true), (11, true), (12, false)] {
            assert_eq!(judged(&[(9_000, 10_000)], total).broken.is_empty(), is_fine, "{total}");
        }
        assert_eq!(judged(&[], 7).lost, 3);
    }
}
