//! Contenders that run in turn, so that other load on the machine affects all of them.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::workspace;

/// A contender, and how often it runs.
pub(super) struct Contender<'a> {
    pub(super) name: String,
    pub(super) rounds: usize,
    work: Box<dyn FnMut() -> Result<Duration> + 'a>,
}

impl<'a> Contender<'a> {
    /// A contender that reports its own time.
    pub(super) fn new(name: &str, work: impl FnMut() -> Result<Duration> + 'a) -> Self {
        Self { name: name.to_owned(), rounds: usize::MAX, work: Box::new(work) }
    }

    /// A program that is timed from its start to its end.
    pub(super) fn program(name: &str, mut command: impl FnMut() -> Result<Command> + 'a) -> Self {
        Self::new(name, move || time(&mut command()?))
    }

    /// Limits its rounds.
    pub(super) fn at_most(mut self, rounds: usize) -> Self {
        self.rounds = rounds;
        self
    }
}

/// The times of a contender, round by round.
pub(super) struct Taken {
    pub(super) name: String,
    times: Vec<Duration>,
    /// The processor time of all cores.
    processor: Vec<Duration>,
}

impl Taken {
    /// The median, in seconds.
    pub(super) fn seconds(&self) -> f64 {
        median(&self.times)
    }

    /// The median of the processor time, in seconds.
    pub(super) fn processor_seconds(&self) -> f64 {
        median(&self.processor)
    }

    /// The shortest and the longest time, as text.
    pub(super) fn range(&self) -> String {
        let least = self.times.iter().min().copied().unwrap_or_default().as_secs_f64();
        let most = self.times.iter().max().copied().unwrap_or_default().as_secs_f64();
        match self.times.len() {
            1 => "once".to_owned(),
            _ => format!("{least:.2} to {most:.2} s"),
        }
    }
}

fn median(times: &[Duration]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort();
    sorted.get(sorted.len() / 2).copied().unwrap_or_default().as_secs_f64()
}

/// Runs all contenders in turn, round by round.
pub(super) fn take_turns(rounds: usize, contenders: Vec<Contender<'_>>) -> Result<Vec<Taken>> {
    let mut all: Vec<(Contender<'_>, Taken)> = Vec::new();
    for contender in contenders {
        let name = contender.name.clone();
        all.push((contender, Taken { name, times: Vec::new(), processor: Vec::new() }));
    }
    for round in 0..rounds {
        for (contender, taken) in &mut all {
            if round >= contender.rounds {
                continue;
            }
            let before = workspace::time_of_children()?;
            let took = (contender.work)().with_context(|| contender.name.clone())?;
            println!("  {}: {:.2} s", contender.name, took.as_secs_f64());
            taken.times.push(took);
            taken.processor.push(workspace::time_of_children()?.saturating_sub(before));
        }
    }
    Ok(all.into_iter().map(|(_, taken)| taken).collect())
}

/// Runs a program to its successful end, and returns its time.
pub(super) fn time(command: &mut Command) -> Result<Duration> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let start = Instant::now();
    let output = command.output().with_context(|| format!("{command:?} did not start"))?;
    let took = start.elapsed();
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} ended with {}: {complaint}", output.status);
    Ok(took)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn contenders_run_in_turn_and_the_median_counts() {
        let order = RefCell::new(String::new());
        let contender = |name: &'static str, seconds: [u64; 3]| {
            let (order, mut seconds) = (&order, seconds.into_iter());
            Contender::new(name, move || {
                order.borrow_mut().push_str(name);
                Ok(Duration::from_secs(seconds.next().unwrap()))
            })
        };
        let contenders = vec![contender("a", [9, 1, 2]), contender("b", [7, 0, 0]).at_most(1)];
        let taken = take_turns(3, contenders).unwrap();
        assert_eq!(*order.borrow(), "abaa");
        let seconds: Vec<f64> = taken.iter().map(Taken::seconds).collect();
        assert_eq!(seconds, [2.0, 7.0]);
        assert_eq!(taken[0].range(), "1.00 to 9.00 s");
        assert_eq!(taken[1].range(), "once");
    }

    #[test]
    fn a_program_that_fails_is_no_contender() {
        let failed = time(Command::new("sh").args(["-c", "echo no >&2; exit 3"])).unwrap_err();
        assert!(failed.to_string().contains("no"), "{failed}");
    }
}
