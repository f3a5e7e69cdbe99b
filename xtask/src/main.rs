//! The project's chores, from `cargo xtask test` to `cargo xtask model`. `--help` lists them.
//!
//! All that CI and the `justfile` do is written here once, in Rust, so that it runs the same on
//! every machine with a Rust toolchain.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a chore prints to the terminal")]

mod bench_run;
mod bench_scan;
mod check;
mod picture;
mod programs;
mod prove;
mod steps;
mod sweep;
mod system_packages;
mod test;
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
    /// Check a change before a commit: formatting, tidy, lints, and the tests of changed crates
    Check,
    /// Run every kind of check: formatting, tidy, lints, tests, chaos, specification, docs
    Test,
    /// Run the same checks in larger quantity: more worlds, longer chaos, larger bounds
    Prove {
        /// Share MINUTES among all checks instead of running each to its end
        #[arg(long)]
        minutes: Option<u64>,
    },
    /// Check what no compiler does: crate edges, banned calls, sizes, words, links, commits
    Tidy,
    /// Visit every state of the run protocol within large bounds
    Model {
        /// Check the TLA+ module and its planted defects instead of the operations
        #[arg(long)]
        tla: bool,
    },
    /// Simulate worlds: `--seeds N` of them, or `--seed N` with its whole trace
    Sim {
        /// Arguments of the simulator, see `cargo xtask sim -- --help`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Plant each known bug in the run protocol and show the seed that catches it
    MutantsPlanted,
    /// Run workers on etcd under faults, until each has occurred once or for `--minutes N`
    Chaos {
        /// Arguments of the program, see `cargo xtask chaos -- --help`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Measure the run protocol on every store, compared with the disk and a plain rival
    BenchStores {
        /// Measure only `file`, `etcd`, `shards` or `memory`
        only: Option<String>,
    },
    /// Measure routing, planning, calls, moves and drains of a cluster, with alternatives
    BenchCluster,
    /// Measure `shardwright run`, xargs, GNU parallel and HyperQueue, and write the section of
    /// `docs/benchmarks.md` and its picture
    BenchRun {
        /// Measure only this row, and write nothing
        only: Option<bench_run::Row>,
    },
    /// Measure `shardwright scan`, ripgrep and Kingfisher on a generated tree
    BenchScan,
    /// Draw the live view of `docs/pictures/run.svg` from a run in tmux
    Picture,
    /// Check licences, sources and banned crates of the dependencies
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
        Chore::Picture => picture::run(&metadata),
        Chore::Deny => programs::deny(&metadata),
    }
}
