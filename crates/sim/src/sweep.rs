//! Many worlds, one after the other on each core.

use std::iter::{Skip, StepBy};
use std::ops::Range;

use crate::coverage;
use crate::oracle::Finding;
use crate::tally::Tally;
use crate::world::{self, Report};

/// The command that replays one seed, which follows it.
const REPLAY: &str = "cargo xtask sim --seed";

/// Steps of chaos per seed.
pub const STEPS: u64 = 2_000;
/// From how many seeds on a sweep must have seen everything.
pub const FULL_SWEEP: u64 = 1_000;

/// A seed whose world broke a sentence.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// What was found.
    pub findings: Vec<Finding>,
    /// The end of the trace.
    pub tail: Vec<String>,
}

/// What many worlds came to.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    /// What happened in all of them.
    pub tally: Tally,
    /// Those that broke a sentence, by seed.
    pub failures: Vec<Failure>,
    /// Seeds that spent too much of their time on runs that had ended, with the percentage.
    pub idle: Vec<(u64, u64)>,
}

/// Deals seeds out to as many threads as there are cores, and gives what each came to.
pub(crate) fn on_all_cores<T: Send>(
    seeds: Range<u64>,
    live: impl Fn(StepBy<Skip<Range<u64>>>) -> T + Sync,
) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|first| {
                let own = seeds.clone().skip(first).step_by(threads);
                scope.spawn(|| live(own))
            })
            .collect();
        let parts = workers.into_iter().map(std::thread::ScopedJoinHandle::join);
        // A panic is the worst finding of all, so it must not get lost with its thread.
        parts.map(|part| part.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

impl Sweep {
    /// Lives through `seeds`, `steps` of chaos each, on all cores.
    #[must_use]
    pub fn run(seeds: Range<u64>, steps: u64) -> Self {
        let parts = on_all_cores(seeds, |own| Self::of(own, steps));
        let mut sweep = Self::default();
        for part in parts {
            sweep.tally.add(&part.tally);
            sweep.failures.extend(part.failures);
            sweep.idle.extend(part.idle);
        }
        sweep.failures.sort_by_key(|failure| failure.seed);
        sweep.idle.sort_unstable();
        sweep
    }

    fn of(seeds: impl Iterator<Item = u64>, steps: u64) -> Self {
        let mut sweep = Self::default();
        for seed in seeds {
            let Report { findings, tally, trace } = world::live(seed, steps, false);
            if tally.ended_steps * 100 > tally.steps * 20 {
                sweep.idle.push((seed, (tally.ended_steps * 100).div_ceil(tally.steps)));
            }
            sweep.tally.add(&tally);
            if !findings.is_empty() {
                let tail = trace.lines().map(Into::into).collect();
                sweep.failures.push(Failure { seed, findings, tail });
            }
        }
        sweep
    }

    /// Everything that makes the sweep a failure, in words.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        let mut complaints: Vec<String> = self.failures.iter().map(Failure::describe).collect();
        for (seed, share) in &self.idle {
            complaints.push(format!("seed {seed} spent {share} % of its steps in ended runs"));
        }
        let Tally { seeds, steps, accepted_steps, refused_steps, .. } = self.tally;
        if accepted_steps * 100 < steps * 30 {
            complaints.push(format!("only {accepted_steps} of {steps} steps were accepted"));
        }
        if refused_steps * 100 < steps * 10 {
            complaints.push(format!("only {refused_steps} of {steps} steps were refused"));
        }
        if seeds >= FULL_SWEEP {
            complaints.extend(coverage::missing(&self.tally));
        }
        complaints
    }
}

impl Failure {
    /// What was found, the end of the trace, and how to see all of it.
    #[must_use]
    pub fn describe(&self) -> String {
        self.describe_with(REPLAY)
    }

    /// The same, for worlds that are seen again by another command.
    pub(crate) fn describe_with(&self, replay: &str) -> String {
        let findings: Vec<String> = self
            .findings
            .iter()
            .map(|finding| format!("  {}: {}", finding.oracle, finding.text))
            .collect();
        format!(
            "seed {} broke:\n{}\nthe last steps:\n  {}\nreplay it: {replay} {}",
            self.seed,
            findings.join("\n"),
            self.tail.join("\n  "),
            self.seed,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_seed_tells_what_broke_how_it_came_about_and_how_to_see_it_again() {
        let finding = Finding { oracle: "tiling", text: "nothing covers it".into() };
        let (findings, tail) = (vec![finding], vec!["1000 the clock jumps".into()]);
        let text = Failure { seed: 42, findings, tail }.describe();
        assert!(text.contains("tiling: nothing covers it") && text.contains("the clock jumps"));
        assert!(text.ends_with(&format!("{REPLAY} 42")), "{text}");
    }

    #[test]
    fn a_sweep_in_which_little_happens_fails() {
        let tally = Tally { seeds: FULL_SWEEP, steps: 100, accepted_steps: 29, ..Tally::default() };
        let sweep = Sweep { tally, idle: vec![(7, 21)], ..Sweep::default() };
        let complaints = sweep.complaints().join("\n");
        for expected in [
            "only 29 of 100 steps were accepted",
            "only 0 of 100 steps were refused",
            "seed 7 spent 21 %",
            "renew was never refused for LeaseExpired",
            "never this fault: request lost",
            "checkpoint was never replayed",
        ] {
            assert!(complaints.contains(expected), "{expected}");
        }
    }
}
