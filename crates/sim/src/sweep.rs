//! Many worlds of one kind, on all cores.

use std::iter::{Skip, StepBy};
use std::ops::Range;

use crate::oracle::Finding;
use crate::report::Table;
use crate::trace::Trace;

/// A kind of world that a sweep can run.
pub trait World {
    /// Counts.
    type Tally: Default + Send;
    /// Flags that choose the kind on the command line.
    const FLAGS: &'static [&'static str];
    /// Default number of acts of chaos per seed.
    const ACTS: u64;

    /// Runs the world of a seed: `acts` of chaos, then healing.
    fn live(seed: u64, acts: u64, keep_trace: bool) -> Report<Self::Tally>;

    /// Adds the counts of one world to those of many.
    fn add(sum: &mut Self::Tally, one: &Self::Tally);

    /// Defects of a world without a violation, for example too little activity.
    fn remark(_acts: u64, _tally: &Self::Tally) -> Vec<String> {
        Vec::new()
    }

    /// Faults and answers that a sweep must see and has not seen.
    fn missing(tally: &Self::Tally) -> Vec<String>;

    /// The rows of the table at the end of a sweep.
    fn rows(tally: &Self::Tally, table: &mut Table);
}

/// The result of a world.
#[derive(Clone, Debug)]
pub struct Report<T> {
    /// Violations of the oracles.
    pub findings: Vec<Finding>,
    /// Counts.
    pub tally: T,
    /// The trace.
    pub trace: Trace,
}

/// A seed with a violation.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// The violations.
    pub findings: Vec<Finding>,
    /// The end of the trace.
    pub tail: Vec<String>,
    /// The command that runs it again.
    pub replay: String,
}

impl Failure {
    /// The findings, the end of the trace, and the command that prints all of it.
    #[must_use]
    pub fn describe(&self) -> String {
        let findings: Vec<String> = self
            .findings
            .iter()
            .map(|finding| format!("  {}: {}", finding.oracle, finding.text))
            .collect();
        format!(
            "seed {} violates:\n{}\nlast steps:\n  {}\nreplay: {}",
            self.seed,
            findings.join("\n"),
            self.tail.join("\n  "),
            self.replay,
        )
    }
}

/// The command that runs one seed again.
fn replay<W: World>(seed: u64, acts: u64) -> String {
    let mut command = ["cargo xtask sim"].iter().chain(W::FLAGS).copied().collect::<Vec<_>>();
    let (seed, acts_asked) = (format!("--seed {seed}"), format!("--steps {acts}"));
    command.push(&seed);
    if acts != W::ACTS {
        command.push(&acts_asked);
    }
    command.join(" ")
}

/// The result of many worlds.
pub struct Sweep<W: World> {
    /// Counts of all of them.
    pub tally: W::Tally,
    /// Seeds with a violation, in order.
    pub failures: Vec<Failure>,
    /// Defects of seeds without a violation.
    pub remarks: Vec<(u64, String)>,
}

impl<W: World> Default for Sweep<W> {
    fn default() -> Self {
        Self { tally: W::Tally::default(), failures: Vec::new(), remarks: Vec::new() }
    }
}

impl<W: World> Sweep<W> {
    /// Runs `seeds`, `acts` of chaos each, on all cores.
    #[must_use]
    pub fn run(seeds: Range<u64>, acts: u64) -> Self {
        let mut sweep = Self::default();
        for (tally, failures, remarks) in on_all_cores(seeds, |own| {
            let mut part = Self::default();
            own.for_each(|seed| part.live(seed, acts));
            (part.tally, part.failures, part.remarks)
        }) {
            W::add(&mut sweep.tally, &tally);
            sweep.failures.extend(failures);
            sweep.remarks.extend(remarks);
        }
        sweep.failures.sort_by_key(|failure| failure.seed);
        sweep.remarks.sort_unstable();
        sweep
    }

    fn live(&mut self, seed: u64, acts: u64) {
        let Report { findings, tally, trace } = W::live(seed, acts, false);
        W::add(&mut self.tally, &tally);
        if findings.is_empty() {
            let remarks = W::remark(acts, &tally);
            self.remarks.extend(remarks.into_iter().map(|remark| (seed, remark)));
        } else {
            let (tail, replay) = (trace.lines().map(Into::into).collect(), replay::<W>(seed, acts));
            self.failures.push(Failure { seed, findings, tail, replay });
        }
    }

    /// Every reason why the sweep fails.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        let mut complaints: Vec<String> = self.failures.iter().map(Failure::describe).collect();
        complaints.extend(self.remarks.iter().map(|(seed, text)| format!("seed {seed} {text}")));
        complaints.extend(W::missing(&self.tally));
        complaints
    }

    /// The table at the end of the sweep.
    #[must_use]
    pub fn table(&self) -> String {
        let mut table = Table::default();
        W::rows(&self.tally, &mut table);
        table.row("violations", self.failures.len());
        table.into_text()
    }
}

/// Distributes seeds over one thread per core, and returns the result of each.
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
        // A panic of a thread must fail the sweep.
        parts.map(|part| part.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Broken;

    impl World for Broken {
        type Tally = u64;
        const FLAGS: &'static [&'static str] = &["--engine"];
        const ACTS: u64 = 900;

        fn live(_: u64, _: u64, _: bool) -> Report<u64> {
            let mut trace = Trace::new(false);
            trace.line(format_args!("1000 the clock jumps"));
            let finding = Finding { oracle: "tiling", text: "nothing covers it".into() };
            Report { findings: vec![finding], tally: 1, trace }
        }

        fn add(sum: &mut u64, one: &u64) {
            *sum += one;
        }

        fn missing(_: &u64) -> Vec<String> {
            Vec::new()
        }

        fn rows(tally: &u64, table: &mut Table) {
            table.row("seeds", tally);
        }
    }

    #[test]
    fn failing_seed_prints_findings_trace_and_replay_command() {
        let sweep = Sweep::<Broken>::run(42..45, 900);
        assert_eq!((sweep.tally, sweep.failures.len(), sweep.complaints().len()), (3, 3, 3));
        let text = sweep.failures[0].describe();
        assert!(text.contains("tiling: nothing covers it") && text.contains("the clock jumps"));
        assert!(text.ends_with("\nreplay: cargo xtask sim --engine --seed 42"), "{text}");
        let text = Sweep::<Broken>::run(42..43, 7).failures[0].describe();
        let replayed = "\nreplay: cargo xtask sim --engine --seed 42 --steps 7";
        assert!(text.ends_with(replayed), "{text}");
        assert!(sweep.table().contains("violations"), "{}", sweep.table());
    }
}
