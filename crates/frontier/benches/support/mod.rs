//! Runs benchmarks side by side through criterion and prints their ratios.

use std::{
    collections::BTreeMap,
    env,
    time::{Duration, Instant},
};

use criterion::{Criterion, SamplingMode, Throughput};

/// Samples of each benchmark.
const SAMPLES: usize = 40;

/// Whether the benchmarks are measured, or only run once as a test.
///
/// The rule is criterion's: `cargo bench` passes `--bench`, a test runner does not.
pub(crate) fn is_measuring() -> bool {
    let has = |flag| env::args().any(|argument| argument == flag);
    has("--bench") && !has("--test") && !has("--list")
}

/// A benchmark: its name, and work on a known number of elements per call. The work must keep its
/// results from being optimized away.
pub(crate) type Contestant<'a> = (&'a str, &'a mut dyn FnMut());

/// The limit that a ratio is held against.
#[allow(dead_code, reason = "each bench target compiles this module for itself")]
#[derive(Clone, Copy)]
pub(crate) enum Bar {
    /// The ratio may not be lower.
    AtLeast(f64),
    /// The ratio may not be higher.
    AtMost(f64),
    /// The ratio is printed without a limit.
    None,
}

/// Records the samples of each benchmark.
pub(crate) struct Recorder {
    /// Nanoseconds per element, by the name of the benchmark.
    samples: BTreeMap<String, Vec<f64>>,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        Self { samples: BTreeMap::new() }
    }

    /// Measures each contestant. A call handles `elements` elements.
    ///
    /// A sample of one is always taken right next to a sample of every other. So other load on the
    /// machine affects all of them alike and cancels out in the ratios.
    pub(crate) fn bench(
        &mut self,
        criterion: &mut Criterion,
        elements: u64,
        contestants: &mut [Contestant<'_>],
    ) {
        for subject in 0..contestants.len() {
            self.bench_one(criterion, elements, contestants, subject);
        }
    }

    /// Prints how many times longer an element takes in `numerator` than in `denominator`, if both
    /// were measured.
    #[allow(clippy::print_stdout, reason = "the table is what the benchmark is run for")]
    pub(crate) fn print_ratio(&self, label: &str, numerator: &str, denominator: &str, bar: Bar) {
        let (Some(above), Some(below)) = (self.median(numerator), self.median(denominator)) else {
            return;
        };
        let ratio = above / below;
        let verdict = |is_met| if is_met { "met" } else { "MISSED" };
        let bar = match bar {
            Bar::AtLeast(limit) => format!("bar >= {limit}: {}", verdict(ratio >= limit)),
            Bar::AtMost(limit) => format!("bar <= {limit}: {}", verdict(ratio <= limit)),
            Bar::None => String::new(),
        };
        println!("{label}");
        println!("    {numerator:<26} median {above:>9.2} ns");
        println!("    {denominator:<26} median {below:>9.2} ns");
        println!("{}", format!("    {:<26}        {ratio:>9.2}     {bar}", "ratio").trim_end());
    }

    /// Lets criterion time the contestant at `subject`, and records the others.
    fn bench_one(
        &mut self,
        criterion: &mut Criterion,
        elements: u64,
        contestants: &mut [Contestant<'_>],
        subject: usize,
    ) {
        let Some((name, _)) = contestants.get(subject) else { return };
        let mut taken: Vec<Vec<f64>> = contestants.iter().map(|_| Vec::new()).collect();
        let mut group = criterion.benchmark_group(*name);
        group
            .sample_size(SAMPLES)
            .sampling_mode(SamplingMode::Flat)
            .warm_up_time(Duration::from_millis(500))
            .measurement_time(Duration::from_millis(1_500))
            .throughput(Throughput::Elements(elements));
        group.bench_function("elements", |bencher| {
            bencher.iter_custom(|iterations| {
                let handled = iterations as f64 * elements as f64;
                let mut of_subject = Duration::ZERO;
                for (place, (_, work)) in contestants.iter_mut().enumerate() {
                    let elapsed = time(iterations, work);
                    if place == subject {
                        of_subject = elapsed;
                    }
                    if let Some(taken) = taken.get_mut(place) {
                        taken.push(elapsed.as_secs_f64() * 1e9 / handled);
                    }
                }
                of_subject
            });
        });
        group.finish();

        for ((name, _), taken) in contestants.iter().zip(taken) {
            // Criterion warms up through the same closure, so only the last samples are
            // measurements. There are fewer in a test run.
            if let Some(warm_up) = taken.len().checked_sub(SAMPLES) {
                self.samples
                    .entry((*name).to_owned())
                    .or_default()
                    .extend(taken.into_iter().skip(warm_up));
            }
        }
    }

    /// The median nanoseconds per element of a benchmark, if it was measured.
    pub(crate) fn median(&self, name: &str) -> Option<f64> {
        let mut samples = self.samples.get(name)?.clone();
        samples.sort_by(f64::total_cmp);
        samples.get(samples.len() / 2).copied()
    }
}

fn time(iterations: u64, work: &mut dyn FnMut()) -> Duration {
    let start = Instant::now();
    for _ in 0..iterations {
        work();
    }
    start.elapsed()
}
