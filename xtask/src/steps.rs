//! Steps that run in order up to the first that fails, and the table of their times.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;
use cargo_metadata::Metadata;

use crate::sweep::Sweep;
use crate::{system_packages, tidy, tla, workspace};

/// One step of a chore.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) action: Action,
    /// After this time the step is stopped. It has passed if it has not failed before.
    pub(crate) limit: Option<Duration>,
}

/// What a step does.
#[derive(Debug)]
pub(crate) enum Action {
    Packages,
    Tidy,
    Specification,
    Cargo {
        arguments: Vec<String>,
        environment: Vec<(&'static str, &'static str)>,
    },
    /// A program that an earlier step has built.
    Built {
        program: &'static str,
        arguments: Vec<String>,
    },
    /// Another chore of this program.
    Chore {
        arguments: Vec<String>,
    },
    /// Worlds of the simulator, in slices.
    Sweep(Sweep),
}

impl Step {
    /// A step without a limit.
    pub(crate) const fn new(name: &'static str, action: Action) -> Self {
        Self { name, action, limit: None }
    }

    /// A step that calls cargo with the words of a line.
    pub(crate) fn cargo(name: &'static str, line: &str) -> Self {
        Self::new(name, Action::Cargo { arguments: words(line), environment: Vec::new() })
    }

    /// The same step with a variable in cargo's environment.
    pub(crate) fn with(mut self, name: &'static str, value: &'static str) -> Self {
        if let Action::Cargo { environment, .. } = &mut self.action {
            environment.push((name, value));
        }
        self
    }

    /// The same step without incremental compilation. A clean build would write data for
    /// compilations that never follow.
    pub(crate) fn without_incremental(self) -> Self {
        self.with("CARGO_INCREMENTAL", "0")
    }

    /// A step that starts a program with the words of a line.
    pub(crate) fn built(name: &'static str, program: &'static str, line: &str) -> Self {
        Self::new(name, Action::Built { program, arguments: words(line) })
    }

    /// A step that runs another chore.
    pub(crate) fn chore(name: &'static str, line: &str) -> Self {
        Self::new(name, Action::Chore { arguments: words(line) })
    }

    /// The line that is printed before the step runs.
    pub(crate) fn heading(&self) -> String {
        let command = match &self.action {
            Action::Packages | Action::Tidy | Action::Specification => return self.title(),
            Action::Cargo { arguments, .. } => format!("cargo {}", arguments.join(" ")),
            Action::Built { program, arguments } => format!("{program} {}", arguments.join(" ")),
            Action::Chore { arguments } => format!("cargo xtask {}", arguments.join(" ")),
            Action::Sweep(sweep) => sweep.describe(),
        };
        format!("{}: {}", self.title(), command.trim_end())
    }

    fn title(&self) -> String {
        format!("== {}", self.name)
    }

    /// Runs the step.
    pub(crate) fn execute(&self, metadata: &Metadata) -> Result<()> {
        match &self.action {
            Action::Packages => {
                system_packages::ensure(system_packages::PACKAGES, &mut system_packages::Debian)
            }
            Action::Tidy => tidy::run(metadata),
            Action::Specification => tla::small(metadata),
            Action::Cargo { arguments, environment } => {
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                let mut command = workspace::cargo(metadata, &arguments);
                workspace::succeed_within(command.envs(environment.iter().copied()), self.limit)
            }
            Action::Built { program, arguments } => {
                self.run_program(metadata, Command::new(built(metadata, program)), arguments)
            }
            // Not the running program, because building the workspace has replaced its file.
            Action::Chore { arguments } => {
                self.run_program(metadata, Command::new(built(metadata, "xtask")), arguments)
            }
            Action::Sweep(sweep) => sweep.run(&built(metadata, "sim"), self.limit),
        }
    }

    fn run_program(
        &self,
        metadata: &Metadata,
        mut command: Command,
        arguments: &[String],
    ) -> Result<()> {
        command.args(arguments).current_dir(&metadata.workspace_root);
        workspace::succeed_within(&mut command, self.limit)
    }
}

/// The path of a built program of the workspace.
fn built(metadata: &Metadata, program: &str) -> PathBuf {
    metadata.target_directory.join("debug").join(program).into_std_path_buf()
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Passed(Duration),
    Failed(Duration),
    NotRun,
}

struct Row {
    name: &'static str,
    outcome: Outcome,
}

/// Runs every step, prints its time, and fails if one failed.
pub(crate) fn run(metadata: &Metadata, steps: &[Step]) -> Result<()> {
    let (rows, failure) = run_all(steps, |step| step.execute(metadata));
    println!("\n{}", summary(&rows));
    match failure {
        Some(failure) => Err(failure),
        None => Ok(()),
    }
}

fn run_all(
    steps: &[Step],
    mut execute: impl FnMut(&Step) -> Result<()>,
) -> (Vec<Row>, Option<anyhow::Error>) {
    let mut rows = Vec::new();
    let mut failure = None;
    for step in steps {
        let name = step.name;
        if failure.is_some() {
            rows.push(Row { name, outcome: Outcome::NotRun });
            continue;
        }
        println!("\n{}", step.heading());
        let start = Instant::now();
        let result = execute(step);
        let elapsed = start.elapsed();
        println!("== {name}: {:.1} s", elapsed.as_secs_f64());
        let outcome = match result {
            Ok(()) => Outcome::Passed(elapsed),
            Err(error) => {
                failure = Some(error.context(format!("step `{name}` failed")));
                Outcome::Failed(elapsed)
            }
        };
        rows.push(Row { name, outcome });
    }
    (rows, failure)
}

fn summary(rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or_default();
    let lines: Vec<String> = rows
        .iter()
        .map(|row| {
            let (verdict, seconds) = match row.outcome {
                Outcome::Passed(elapsed) => ("passed", Some(elapsed)),
                Outcome::Failed(elapsed) => ("FAILED", Some(elapsed)),
                Outcome::NotRun => ("not run", None),
            };
            let seconds =
                seconds.map_or(String::new(), |time| format!("{:.1} s", time.as_secs_f64()));
            format!("{:width$}  {verdict:7}  {seconds:>9}", row.name).trim_end().to_owned()
        })
        .collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    fn steps(names: &[&'static str]) -> Vec<Step> {
        names.iter().map(|name| Step::new(name, Action::Tidy)).collect()
    }

    #[test]
    fn the_first_failing_step_ends_the_run_and_is_named() {
        let mut ran = Vec::new();
        let steps = steps(&["packages", "format", "lints", "tests"]);
        let (rows, failure) = run_all(&steps, |step| {
            ran.push(step.name);
            if step.name == "lints" {
                bail!("exit status: 101");
            }
            Ok(())
        });
        assert_eq!(ran, ["packages", "format", "lints"]);
        let message = format!("{:#}", failure.unwrap());
        assert_eq!(message, "step `lints` failed: exit status: 101");
        assert!(matches!(rows[2].outcome, Outcome::Failed(_)));
        assert!(rows[3..].iter().all(|row| row.outcome == Outcome::NotRun));
    }

    #[test]
    fn a_run_without_failures_runs_every_step() {
        let (rows, failure) = run_all(&steps(&["a", "b"]), |_| Ok(()));
        assert!(failure.is_none());
        assert_eq!(rows.len(), 2);
        assert!(rows.iter().all(|row| matches!(row.outcome, Outcome::Passed(_))));
    }

    #[test]
    fn the_summary_has_a_line_for_each_step() {
        let row = |name, outcome| Row { name, outcome };
        let rows = [
            row("format", Outcome::Passed(Duration::from_millis(1_250))),
            row("lints", Outcome::Failed(Duration::from_secs(61))),
            row("tidy", Outcome::NotRun),
        ];
        let expected = "format  passed       1.2 s\nlints   FAILED      61.0 s\ntidy    not run";
        assert_eq!(summary(&rows), expected);
    }

    #[test]
    fn a_heading_is_the_command() {
        assert_eq!(Step::cargo("lints", "clippy  --x").heading(), "== lints: cargo clippy --x");
        assert_eq!(Step::built("chaos", "chaos", "").heading(), "== chaos: chaos");
        assert_eq!(Step::new("tidy", Action::Tidy).heading(), "== tidy");
    }
}
