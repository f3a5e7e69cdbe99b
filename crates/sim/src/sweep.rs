//! Many worlds, one after the other on each core.

use std::iter::{Skip, StepBy};
use std::ops::Range;

use crate::coverage;
use crate::memory::{self, Report};
use crate::oracle::Finding;
use crate::tally::Tally;
use crate::trace::Trace;

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
    /// The command that lives through it again.
    pub replay: String,
}

/// Which worlds a sweep lives through.
pub(crate) struct Kind {
    /// What chooses them on the command line.
    pub(crate) flags: &'static [&'static str],
    /// Steps of chaos per seed, unless the command line says otherwise.
    pub(crate) steps: u64,
}

impl Kind {
    /// The command that lives through one seed again.
    fn replay(&self, seed: u64, steps: u64) -> String {
        let mut command = ["cargo xtask sim"].iter().chain(self.flags).copied().collect::<Vec<_>>();
        let (seed, steps_asked) = (format!("--seed {seed}"), format!("--steps {steps}"));
        command.push(&seed);
        if steps != self.steps {
            command.push(&steps_asked);
        }
        command.join(" ")
    }
}

/// Lives through seeds on all cores: what happened in all of them, added up, and those that broke a
/// sentence, by seed.
pub(crate) fn live_through<T: Default + Send>(
    kind: &Kind,
    seeds: Range<u64>,
    steps: u64,
    live: impl Fn(u64) -> (Vec<Finding>, T, Trace) + Sync,
    add: impl Fn(&mut T, &T) + Sync,
) -> (T, Vec<Failure>) {
    let parts = on_all_cores(seeds, |own| {
        let (mut counts, mut failures) = (T::default(), Vec::new());
        for seed in own {
            let (findings, counted, trace) = live(seed);
            add(&mut counts, &counted);
            if !findings.is_empty() {
                let tail = trace.lines().map(Into::into).collect();
                let replay = kind.replay(seed, steps);
                failures.push(Failure { seed, findings, tail, replay });
            }
        }
        (counts, failures)
    });
    let (mut counts, mut failures) = (T::default(), Vec::new());
    for (counted, failed) in parts {
        add(&mut counts, &counted);
        failures.extend(failed);
    }
    failures.sort_by_key(|failure| failure.seed);
    (counts, failures)
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
    /// Seeds that lived through less chaos than asked for though nothing was found, with the steps.
    pub short: Vec<(u64, u64)>,
}

/// Deals seeds out to as many threads as there are cores, and gives what each came to.
fn on_all_cores<T: Send>(
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
        let kind = Kind { flags: &[], steps: STEPS };
        let live = |seed| {
            let Report { findings, tally, trace } = memory::live(seed, steps, false);
            let mut sweep = Self::default();
            if tally.ended_steps * 100 > tally.steps * 20 {
                sweep.idle.push((seed, (tally.ended_steps * 100).div_ceil(tally.steps)));
            }
            if findings.is_empty() && tally.chaos_steps < steps {
                sweep.short.push((seed, tally.chaos_steps));
            }
            sweep.tally = tally;
            (findings, sweep, trace)
        };
        let (mut sweep, failures) = live_through(&kind, seeds, steps, live, Self::add);
        sweep.failures = failures;
        sweep.idle.sort_unstable();
        sweep.short.sort_unstable();
        sweep
    }

    fn add(&mut self, other: &Self) {
        self.tally.add(&other.tally);
        self.idle.extend_from_slice(&other.idle);
        self.short.extend_from_slice(&other.short);
    }

    /// Everything that makes the sweep a failure, in words.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        let mut complaints: Vec<String> = self.failures.iter().map(Failure::describe).collect();
        for (seed, share) in &self.idle {
            complaints.push(format!("seed {seed} spent {share} % of its steps in ended runs"));
        }
        for (seed, steps) in &self.short {
            complaints.push(format!("seed {seed} lived through only {steps} steps of chaos"));
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
        let findings: Vec<String> = self
            .findings
            .iter()
            .map(|finding| format!("  {}: {}", finding.oracle, finding.text))
            .collect();
        format!(
            "seed {} broke:\n{}\nthe last steps:\n  {}\nreplay it: {}",
            self.seed,
            findings.join("\n"),
            self.tail.join("\n  "),
            self.replay,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_seed_tells_what_broke_how_it_came_about_and_how_to_see_it_again() {
        let fail = |flags, steps| {
            let kind = Kind { flags, steps: STEPS };
            let live = |_| {
                let mut trace = Trace::new(false);
                trace.line(format_args!("1000 the clock jumps"));
                let finding = Finding { oracle: "tiling", text: "nothing covers it".into() };
                (vec![finding], 1, trace)
            };
            let (lived, failures) =
                live_through(&kind, 42..45, steps, live, |sum, one| *sum += one);
            assert_eq!((lived, failures.len()), (3, 3));
            failures[0].describe()
        };
        let text = fail(&[], STEPS);
        assert!(text.contains("tiling: nothing covers it") && text.contains("the clock jumps"));
        assert!(text.ends_with("\nreplay it: cargo xtask sim --seed 42"), "{text}");
        let text = fail(&["--engine"], STEPS);
        assert!(text.ends_with("\nreplay it: cargo xtask sim --engine --seed 42"), "{text}");
        let text = fail(&["--clusters"], 7);
        let replayed = "\nreplay it: cargo xtask sim --clusters --seed 42 --steps 7";
        assert!(text.ends_with(replayed), "{text}");
    }

    #[test]
    fn a_sweep_in_which_little_happens_fails() {
        let tally = Tally { seeds: FULL_SWEEP, steps: 100, accepted_steps: 29, ..Tally::default() };
        let sweep = Sweep { tally, idle: vec![(7, 21)], short: vec![(8, 99)], ..Sweep::default() };
        let complaints = sweep.complaints().join("\n");
        for expected in [
            "only 29 of 100 steps were accepted",
            "only 0 of 100 steps were refused",
            "seed 7 spent 21 %",
            "seed 8 lived through only 99 steps of chaos",
            "nobody was told of a renew: BackendError(Corrupt)",
            "renew was never refused for LeaseExpired",
            "never this fault: request lost",
            "checkpoint was never replayed",
        ] {
            assert!(complaints.contains(expected), "{expected}");
        }
    }
}
