//! `cargo xtask test`: the one command that checks the whole tree.
//!
//! It runs every kind of check, each in the quantity that CI can afford. `cargo xtask prove` adds
//! quantity. No step is skipped because a tool is missing: the tools are installed first, or the
//! run fails with their names.

use anyhow::Result;
use cargo_metadata::Metadata;

use crate::steps::{self, Action, Step};
use crate::workspace;

/// Runs every step, prints its time, and fails if one failed.
pub(crate) fn run(metadata: &Metadata) -> Result<()> {
    steps::run(metadata, &plan(workspace::has_subcommand(metadata, "nextest")))
}

/// The steps, the quick ones first. All use one set of features, so that no crate compiles twice.
pub(crate) fn plan(has_nextest: bool) -> Vec<Step> {
    let tests = if has_nextest {
        "nextest run --workspace --all-features --locked --no-fail-fast"
    } else {
        // All targets but the benches, which would run as tests.
        "test --workspace --all-features --lib --bins --tests --examples --locked --no-fail-fast"
    };
    let steps = [
        Step::new("system packages", Action::Packages),
        Step::cargo("format", "fmt --all --check"),
        Step::new("tidy", Action::Tidy),
        // Type-checks the benches, too.
        Step::cargo(
            "lints",
            "clippy --workspace --all-targets --all-features --locked -- -D warnings",
        ),
        // Builds the examples and all programs, too.
        Step::cargo("tests", tests),
        // Features add up over a workspace. Only a separate check shows that a crate compiles
        // without them.
        Step::cargo(
            "default features",
            "check -p shardwright-contracts -p shardwright-frontier -p shardwright-store \
             -p shardwright-engine -p shardwright-runs -p shardwright-cluster --lib --locked",
        ),
        Step::cargo(
            "without object stores",
            "check -p shardwright-connectors -p shardwright-process --no-default-features --lib \
             --locked",
        ),
        Step::cargo(
            "library without features",
            "check -p shardwright --no-default-features --lib --locked",
        ),
        Step::cargo("doc tests", "test --doc --workspace --all-features --locked"),
        // Until each fault has occurred once.
        Step::built("etcd chaos", "chaos", ""),
        Step::new("specification (TLC)", Action::Specification),
        Step::cargo("documentation", "doc --workspace --no-deps --all-features --locked")
            .with("RUSTDOCFLAGS", "-D warnings"),
    ];
    steps.map(Step::without_incremental).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(has_nextest: bool) -> Vec<String> {
        plan(has_nextest).iter().map(Step::heading).collect()
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
    fn no_test_is_filtered_out() {
        let config = include_str!("../../.config/nextest.toml");
        assert!(!config.contains("default-filter"), "{config}");
        let lines = lines(true);
        let line = lines.iter().find(|line| line.starts_with("== tests")).unwrap();
        let expected = "cargo nextest run --workspace --all-features --locked --no-fail-fast";
        assert!(line.ends_with(expected), "{line}");
    }

    #[test]
    fn chaos_runs_until_each_fault_has_occurred() {
        assert!(lines(true).contains(&"== etcd chaos: chaos".to_owned()));
    }

    #[test]
    fn documentation_warnings_are_errors() {
        let plan = plan(true);
        let step = plan.iter().find(|step| step.name == "documentation").unwrap();
        let Action::Cargo { environment, .. } = &step.action else { panic!("not a cargo step") };
        assert!(environment.contains(&("RUSTDOCFLAGS", "-D warnings")), "{environment:?}");
    }
}
