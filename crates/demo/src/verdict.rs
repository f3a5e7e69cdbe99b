//! Checks whether the cluster kept its promises.

use std::time::Duration;

use crate::load::{Failure, Tally};

/// The time beyond the session TTL within which calls must succeed again.
const SLACK: Duration = Duration::from_secs(2);

/// The number of unexplained failures that are listed. All are counted.
const SHOWN: usize = 20;

/// An injected fault, after which calls may fail for a while.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The name of the fault.
    pub name: &'static str,
    /// When it happened, since the start of the load.
    pub at: Duration,
}

/// The records to check.
pub struct Recorded<'a> {
    /// The records of the clients.
    pub tally: &'a Tally,
    /// The injected faults, in order.
    pub faults: &'a [Fault],
    /// The sum of the stored counters at the end.
    pub total: i128,
    /// The TTL of a node's session.
    pub session: Duration,
    /// Broken promises that were found before.
    pub broken: Vec<String>,
}

/// The result of the check.
#[derive(Debug, Default)]
pub struct Verdict {
    /// The broken promises, one sentence each.
    pub broken: Vec<String>,
    /// Calls that failed although no fault explains it.
    pub failed_without_fault: u64,
    /// Acknowledged increments that are not in the store.
    pub lost: i128,
    /// For each fault, the time from it to the start of the last failed call.
    pub recoveries: Vec<(&'static str, Duration)>,
}

impl Verdict {
    /// Compares the records of the clients with the store.
    #[must_use]
    pub fn of(recorded: Recorded<'_>) -> Self {
        let Recorded { tally, faults, total, session, broken } = recorded;
        let mut verdict = Self { broken, ..Self::default() };
        let allowed = session + SLACK;
        let mut unexplained = Vec::new();
        verdict.recoveries = faults.iter().map(|fault| (fault.name, Duration::ZERO)).collect();
        for failure in &tally.failures {
            let cause = faults.iter().rposition(|fault| explains(fault, failure, allowed));
            match cause.and_then(|at| faults.get(at).zip(verdict.recoveries.get_mut(at))) {
                Some((fault, (_, recovery))) => {
                    *recovery = (*recovery).max(failure.begun_at.saturating_sub(fault.at));
                }
                None => {
                    verdict.failed_without_fault += 1;
                    unexplained.push(failure);
                }
            }
        }
        for failure in unexplained.iter().take(SHOWN) {
            let Failure { counter, begun_at, ended_at, why } = failure;
            let (begun, ended) = (begun_at.as_secs_f64(), ended_at.as_secs_f64());
            verdict.broken.push(format!(
                "call to counter {counter}, made at {begun:.3} s, failed at {ended:.3} s: {why}"
            ));
        }
        let kept = tally.failures.len() as u64;
        if tally.failed > kept {
            verdict.broken.push(format!(
                "{} calls failed, but only the first {kept} failures were recorded",
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
            self.broken.push(format!("{} acknowledged increments are lost", self.lost));
        }
        if total > acknowledged + unknown {
            let excess = total - acknowledged - unknown;
            self.broken.push(format!("the store has {excess} increments that no client made"));
        }
    }
}

/// Whether a fault may be the cause of a failed call: the call ended after the fault, and was made
/// within the allowed recovery time.
fn explains(fault: &Fault, failure: &Failure, allowed: Duration) -> bool {
    failure.ended_at >= fault.at && failure.begun_at <= fault.at + allowed
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
        let faults = [Fault { name: "kill", at: ms(10_000) }];
        let (session, broken) = (ms(3_000), Vec::new());
        Verdict::of(Recorded { tally, faults: &faults, total, session, broken })
    }

    #[test]
    fn failures_are_allowed_only_around_a_fault() {
        let fine = judged(&[(9_000, 10_000), (14_900, 16_900)], 11);
        assert!(fine.broken.is_empty(), "{fine:?}");
        assert_eq!(fine.recoveries, [("kill", Duration::from_millis(4_900))]);
        for bad in [(7_000, 9_000), (15_100, 15_200)] {
            assert_eq!(judged(&[bad], 11).failed_without_fault, 1, "{bad:?}");
        }
    }

    #[test]
    fn unrecorded_failures_break_the_promise() {
        let (at, why) = (Duration::from_millis(10_500), "no answer in time".to_owned());
        let kept = Failure { counter: 1, begun_at: at, ended_at: at, why };
        let tally = Tally { acknowledged: 10, failed: 2, failures: vec![kept], ..Tally::default() };
        assert_eq!(verdict_of(&tally, 10).broken.len(), 1);
        assert!(verdict_of(&Tally { failed: 1, ..tally }, 10).broken.is_empty());
    }

    #[test]
    fn stored_increments_match_the_answers() {
        for (total, is_fine) in [(9, false), (10, true), (11, true), (12, false)] {
            assert_eq!(judged(&[(9_000, 10_000)], total).broken.is_empty(), is_fine, "{total}");
        }
        assert_eq!(judged(&[], 7).lost, 3);
    }
}
