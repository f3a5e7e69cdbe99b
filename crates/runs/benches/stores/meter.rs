//! Elapsed time and processor time.

use std::fs;
use std::time::{Duration, Instant};

/// Linux counts in hundredths of a second.
const TICK: Duration = Duration::from_millis(10);

/// Measures from its creation.
#[derive(Clone, Copy)]
pub(crate) struct Meter {
    begin: Instant,
    spent: Duration,
    server: Option<u32>,
}

/// Result of a measurement.
#[derive(Clone, Copy)]
pub(crate) struct Rate {
    pub(crate) per_second: f64,
    pub(crate) p99: Duration,
    /// Processor time per call, in this process and the server. Other load on the machine hardly
    /// affects it.
    pub(crate) processor: Duration,
}

impl Meter {
    /// Measures this process, and a server if given.
    pub(crate) fn start(server: Option<u32>) -> Self {
        Self { begin: Instant::now(), spent: spent(server), server }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }

    /// Returns the rate of calls with these latencies.
    pub(crate) fn rate(&self, mut took: Vec<Duration>) -> Rate {
        let per_second = took.len() as f64 / self.elapsed().as_secs_f64();
        let processor = (spent(self.server) - self.spent).div_f64(took.len().max(1) as f64);
        took.sort();
        let p99 = took.get(took.len() * 99 / 100).copied().unwrap_or_default();
        Rate { per_second, p99, processor }
    }
}

pub(crate) fn median(mut rates: Vec<Rate>) -> Rate {
    rates.sort_by(|one, other| one.per_second.total_cmp(&other.per_second));
    rates.get(rates.len() / 2).copied().unwrap()
}

fn spent(server: Option<u32>) -> Duration {
    let server = server.map(|process| processor_time(&process.to_string()));
    processor_time("self") + server.unwrap_or_default()
}

fn processor_time(process: &str) -> Duration {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // The name of the program is in brackets and may contain anything.
    let (_, fields) = text.rsplit_once(')').unwrap();
    let ticks = fields.split_whitespace().skip(11).take(2).map(|it| it.parse::<u32>().unwrap());
    TICK * ticks.sum()
}
