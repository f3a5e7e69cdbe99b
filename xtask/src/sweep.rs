//! Worlds of the simulator beyond those of the tests, slice after slice.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// Worlds per slice. Fewer than a full sweep, which must see every fault and is done by the tests.
const SLICE: u64 = 250;

/// One kind of worlds, and a range of seeds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sweep {
    /// The flags that choose the kind.
    pub(crate) flags: &'static [&'static str],
    /// The first seed.
    pub(crate) start: u64,
    /// The largest number of worlds.
    pub(crate) seeds: u64,
}

impl Sweep {
    pub(crate) fn describe(&self) -> String {
        format!("sim {}", self.arguments().join(" "))
    }

    /// Simulates the worlds, or as many as a limit allows. Fails with the first slice that fails.
    pub(crate) fn run(&self, program: &Path, limit: Option<Duration>) -> Result<()> {
        self.run_slices(limit, |slice| {
            let mut command = Command::new(program);
            command.args(slice);
            let output =
                command.output().with_context(|| format!("could not start {command:?}"))?;
            if !output.status.success() {
                println!("{}", String::from_utf8_lossy(&output.stdout));
                println!("{}", String::from_utf8_lossy(&output.stderr));
                bail!("{command:?}: {}", output.status);
            }
            Ok(())
        })
    }

    fn run_slices(
        &self,
        limit: Option<Duration>,
        mut run: impl FnMut(&[String]) -> Result<()>,
    ) -> Result<()> {
        let begin = Instant::now();
        let mut done = 0;
        while done < self.seeds && limit.is_none_or(|limit| begin.elapsed() < limit) {
            let seeds = SLICE.min(self.seeds - done);
            let slice = Self { start: self.start.wrapping_add(done), seeds, ..*self };
            run(&slice.arguments())?;
            done += seeds;
        }
        println!("{done} worlds from seed {}, violations 0", self.start);
        Ok(())
    }

    fn arguments(&self) -> Vec<String> {
        let numbers = ["--start", &self.start.to_string(), "--seeds", &self.seeds.to_string()];
        self.flags.iter().copied().chain(numbers).map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWEEP: Sweep = Sweep { flags: &["--engine"], start: 7, seeds: 600 };

    #[test]
    fn slices_follow_one_another_and_add_up() {
        let mut calls = Vec::new();
        let run = |slice: &[String]| {
            calls.push(slice.join(" "));
            Ok(())
        };
        SWEEP.run_slices(None, run).unwrap();
        let expected = [
            "--engine --start 7 --seeds 250",
            "--engine --start 257 --seeds 250",
            "--engine --start 507 --seeds 100",
        ];
        assert_eq!(calls, expected);
    }

    #[test]
    fn a_slice_that_fails_ends_the_sweep() {
        let mut calls = 0;
        let run = |_: &[String]| {
            calls += 1;
            bail!("exit status: 1")
        };
        assert!(SWEEP.run_slices(None, run).is_err());
        assert_eq!(calls, 1);
    }

    #[test]
    fn a_limit_ends_the_sweep_without_failure() {
        let run = |_: &[String]| bail!("no time is left");
        SWEEP.run_slices(Some(Duration::ZERO), run).unwrap();
    }

    #[test]
    fn a_sweep_is_described_by_its_command() {
        assert_eq!(SWEEP.describe(), "sim --engine --start 7 --seeds 600");
    }
}
