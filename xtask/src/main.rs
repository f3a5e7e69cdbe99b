//! The project's chores, from `cargo xtask test` to `cargo xtask model`; `--help` lists them.
//!
//! Whatever continuous integration or the `justfile` does is written here once, in Rust, so that
//! it runs the same on every machine that has a Rust toolchain.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line chore talks to its user through the terminal"
)]

mod bench_run;
mod bench_scan;
mod check;
mod programs;
mod prove;
mod steps;
mod sweep;
mod system_packages;
mod test;
#[cfg(test)]
mod test_names;
mod tidy;
mod tla;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The project's chores.
#[derive(Parser)]
#[command(name = "cargo xtask", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Before a commit: formatting, tidy, lints, and the tests of the crates that changed.
    Check,
    /// Every kind of check: formatting, tidy, lints, tests, chaos, specification, docs.
    Test,
    /// The same kinds in larger quantity: more worlds, longer chaos, larger bounds.
    Prove {
        /// Share so many minutes out instead of running everything to its end.
        #[arg(long)]
        minutes: Option<u64>,
    },
    /// The rules that no compiler checks: crate edges, banned calls, sizes, forbidden words.
    Tidy,
    /// Visits every state of the run protocol within bounds too large for every day.
    Model {
        /// Check the TLA+ module and its planted defects instead of the operations themselves.
        #[arg(long)]
        tla: bool,
    },
    /// Lives through simulated worlds: `--seeds N` of them, or `--seed N` with its whole trace.
    Sim {
        /// Arguments of the simulator; `cargo xtask sim -- --help` explains it.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Plants every known bug in the run protocol, one at a time, and shows which seed caught it.
    MutantsPlanted,
    /// Real workers on a real etcd under faults, until each has come once or for `--minutes N`.
    Chaos {
        /// Arguments of the program; `cargo xtask chaos -- --help` explains it.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Measures the run protocol on every store, beside the disk and the plainest rival.
    BenchStores {
        /// Measure only `file`, `etcd`, `shards` or `memory`.
        only: Option<String>,
    },
    /// Measures routing, planning, calls, moves and drains of a cluster, beside other ways.
    BenchCluster,
    /// Measures `shardwright run` beside xargs, GNU parallel and HyperQueue, and writes the section
    /// of `docs/benchmarks.md` and its picture.
    BenchRun {
        /// Measure only this, and write nothing.
        only: Option<bench_run::Row>,
    },
    /// Measures `shardwright scan` beside ripgrep and Kingfisher, on a tree it makes.
    BenchScan,
    /// Licences, sources and banned crates among the dependencies.
    Deny,
}

fn main() -> ExitCode {
    match run(&Arguments::parse().chore) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Without a backtrace: what failed is a step or a rule, not a line of this program.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(chore: &Chore) -> anyhow::Result<()> {
    let metadata = workspace::metadata()?;
    match chore {
        Chore::Check => check::run(&metadata),
        Chore::Test => test::run(&metadata),
        Chore::Prove { minutes } => prove::run(&metadata, *minutes),
        Chore::Tidy => tidy::run(&metadata),
        Chore::Model { tla: false } => programs::model(&metadata),
        Chore::Model { tla: true } => tla::large(&metadata),
        Chore::Sim { arguments } => programs::sim(&metadata, arguments),
        Chore::MutantsPlanted => programs::planted(&metadata),
        Chore::Chaos { arguments } => programs::chaos(&metadata, arguments),
        Chore::BenchStores { only } => programs::stores(&metadata, only.as_deref()),
        Chore::BenchCluster => programs::cluster(&metadata),
        Chore::BenchRun { only } => bench_run::run(&metadata, *only),
        Chore::BenchScan => bench_scan::run(&metadata),
        Chore::Deny => programs::deny(&metadata),
    }
}
