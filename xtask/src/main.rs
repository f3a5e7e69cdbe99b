//! The project's chores: `cargo xtask test`, `cargo xtask tidy` and `cargo xtask deny`.
//!
//! Whatever continuous integration or the `justfile` does is written here once, in Rust, so that
//! it runs the same on every machine that has a Rust toolchain.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line chore talks to its user through the terminal"
)]

mod deny;
mod system_packages;
mod test;
mod tidy;
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
    /// Everything that must pass: formatting, lints, tidy, tests, examples, benches, docs.
    Test,
    /// The rules that no compiler checks: crate edges, banned calls, sizes, forbidden words.
    Tidy,
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
        Chore::Test => test::run(&metadata),
        Chore::Tidy => tidy::run(&metadata),
        Chore::Deny => deny::run(&metadata),
    }
}
