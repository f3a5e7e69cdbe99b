//! `cargo xtask test`: the one command that says whether the tree is good.
//!
//! It is a list of steps, run in order up to the first that fails. Nothing in it is skipped for
//! want of a tool: what the tests need is installed first, or the run fails saying so.

use std::time::{Duration, Instant};

use anyhow::Result;
use cargo_metadata::Metadata;

use crate::{system_packages, tidy, tla, workspace};

/// Runs every step, prints how long each took, and fails if one failed.
pub(crate) fn run(metadata: &Metadata) -> Result<()> {
    let steps = plan(workspace::has_subcommand(metadata, "nextest"));
    let (rows, failure) = run_steps(&steps, |step| match &step.action {
        Action::Packages => {
            system_packages::ensure(system_packages::PACKAGES, &mut system_packages::Debian)
        }
        Action::Tidy => tidy::run(metadata),
        Action::Specification => tla::small(metadata),
        Action::Cargo { arguments, environment } => workspace::succeed(
            workspace::cargo(metadata, arguments).envs(environment.iter().copied()),
        ),
    });
    println!("\n{}", summary(&rows));
    match failure {
        Some(failure) => Err(failure),
        None => Ok(()),
    }
}

struct Step {
    name: &'static str,
    action: Action,
}

enum Action {
    Packages,
    Tidy,
    Specification,
    Cargo { arguments: Vec<&'static str>, environment: Vec<(&'static str, &'static str)> },
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

fn plan(has_nextest: bool) -> Vec<Step> {
    // Quick checks first, so that a slip is told in seconds.
    vec![
        Step { name: "system packages", action: Action::Packages },
        cargo_step("format", "fmt --all --check"),
        cargo_step(
            "lints",
            "clippy --workspace --all-targets --all-features --locked -- -D warnings",
        ),
        Step { name: "tidy", action: Action::Tidy },
        cargo_step(
            "tests",
            if has_nextest {
                "nextest run --workspace --all-features --locked --no-fail-fast"
            } else {
                // All targets but the benches, which would run as if they were tests.
                "test --workspace --all-features --lib --bins --tests --examples --locked \
                 --no-fail-fast"
            },
        ),
        // Features add up over a workspace, so only what is built by itself shows that a crate
        // stands without them.
        cargo_step(
            "default features",
            "check -p shardwright-contracts -p shardwright-frontier -p shardwright-store \
             -p shardwright-engine --lib --locked",
        ),
        cargo_step(
            "without object stores",
            "check -p shardwright-connectors -p shardwright-process --no-default-features --lib \
             --locked",
        ),
        cargo_step(
            "tests, default features",
            "test -p shardwright-coordination --lib --tests --locked",
        ),
        cargo_step("doc tests", "test --doc --workspace --all-features --locked"),
        cargo_step("etcd chaos", "run --quiet --locked --package shardwright-chaos -- --minutes 5"),
        Step { name: "specification (TLC)", action: Action::Specification },
        cargo_step("examples build", "build --workspace --examples --locked"),
        // In the profile of the tests, whose parts are there already.
        cargo_step("benches build", "build --workspace --benches --all-features --locked"),
        Step {
            name: "documentation",
            action: Action::Cargo {
                arguments: words("doc --workspace --no-deps --all-features --locked"),
                environment: vec![("RUSTDOCFLAGS", "-D warnings")],
            },
        },
    ]
}

fn cargo_step(name: &'static str, line: &'static str) -> Step {
    Step { name, action: Action::Cargo { arguments: words(line), environment: Vec::new() } }
}

fn words(line: &'static str) -> Vec<&'static str> {
    line.split_whitespace().collect()
}

fn heading(step: &Step) -> String {
    match &step.action {
        Action::Cargo { arguments, .. } => {
            format!("== {}: cargo {}", step.name, arguments.join(" "))
        }
        Action::Packages | Action::Tidy | Action::Specification => format!("== {}", step.name),
    }
}

fn run_steps(
    steps: &[Step],
    mut execute: impl FnMut(&Step) -> Result<()>,
) -> (Vec<Row>, Option<anyhow::Error>) {
    let mut rows = Vec::new();
    let mut failure = None;
    for step in steps {
        if failure.is_some() {
            rows.push(Row { name: step.name, outcome: Outcome::NotRun });
            continue;
        }
        println!("\n{}", heading(step));
        let start = Instant::now();
        let result = execute(step);
        let elapsed = start.elapsed();
        println!("== {}: {:.1} s", step.name, elapsed.as_secs_f64());
        let outcome = match result {
            Ok(()) => Outcome::Passed(elapsed),
            Err(error) => {
                failure = Some(error.context(format!("step `{}` failed", step.name)));
                Outcome::Failed(elapsed)
            }
        };
        rows.push(Row { name: step.name, outcome });
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

    fn lines(has_nextest: bool) -> Vec<String> {
        plan(has_nextest).iter().map(heading).collect()
    }

    #[test]
    fn every_cargo_step_but_formatting_keeps_the_lock_file() {
        for has_nextest in [true, false] {
            for line in lines(has_nextest) {
                if line.contains("cargo") && !line.contains("cargo fmt") {
                    assert!(line.contains("--locked"), "{line}");
                }
            }
        }
    }

    #[test]
    fn doc_tests_run_with_either_test_runner() {
        for has_nextest in [true, false] {
            assert!(lines(has_nextest).iter().any(|line| line.contains("test --doc")));
        }
    }

    #[test]
    fn tests_run_without_nextest_and_do_not_run_benches() {
        let lines = lines(false);
        let line = lines.iter().find(|line| line.starts_with("== tests")).unwrap();
        assert!(line.contains("cargo test --workspace --all-features"), "{line}");
        assert!(!line.contains("--all-targets") && !line.contains("--benches"), "{line}");
    }

    #[test]
    fn the_protocol_is_tested_as_it_is_shipped_too() {
        let lines = lines(true);
        let line = lines.iter().find(|line| line.contains("-p shardwright-coordination")).unwrap();
        assert!(line.contains("cargo test") && !line.contains("--all-features"), "{line}");
    }

    #[test]
    fn documentation_warnings_are_errors() {
        let plan = plan(true);
        let step = plan.iter().find(|step| step.name == "documentation").unwrap();
        let Action::Cargo { environment, .. } = &step.action else { panic!("not a cargo step") };
        assert_eq!(environment, &[("RUSTDOCFLAGS", "-D warnings")]);
    }

    #[test]
    fn the_first_failing_step_ends_the_run_and_is_named() {
        let mut ran = Vec::new();
        let (rows, failure) = run_steps(&plan(true), |step| {
            ran.push(step.name);
            if step.name == "lints" {
                bail!("exit status: 101");
            }
            Ok(())
        });
        assert_eq!(ran, ["system packages", "format", "lints"]);
        let message = format!("{:#}", failure.unwrap());
        assert_eq!(message, "step `lints` failed: exit status: 101");
        assert!(matches!(rows[2].outcome, Outcome::Failed(_)));
        assert!(rows[3..].iter().all(|row| row.outcome == Outcome::NotRun));
    }

    #[test]
    fn a_run_without_failures_runs_every_step() {
        let steps = plan(false);
        let (rows, failure) = run_steps(&steps, |_| Ok(()));
        assert!(failure.is_none());
        assert_eq!(rows.len(), steps.len());
        assert!(rows.iter().all(|row| matches!(row.outcome, Outcome::Passed(_))));
    }

    #[test]
    fn the_summary_has_a_line_for_each_step() {
        let rows = [
            Row { name: "format", outcome: Outcome::Passed(Duration::from_millis(1_250)) },
            Row { name: "lints", outcome: Outcome::Failed(Duration::from_secs(61)) },
            Row { name: "tidy", outcome: Outcome::NotRun },
        ];
        let expected = "format  passed       1.2 s\nlints   FAILED      61.0 s\ntidy    not run";
        assert_eq!(summary(&rows), expected);
    }
}
