//! Chaos from the command line.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that reports")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::{Parser, Subcommand};
use shardwright_chaos::check::Findings;
use shardwright_chaos::scenario::{self, Settings};
use shardwright_chaos::worker::{self, WorkerArguments};

/// Most violations that are printed. All are counted.
const SHOWN_MAX: usize = 20;

/// Run worker processes on a real etcd cluster under faults, and check their history
#[derive(Parser)]
#[command(name = "chaos", args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Inject faults for MINUTES [default: until each fault has occurred]
    #[arg(long)]
    minutes: Option<f64>,
    /// Seed of all random choices [default: random]
    #[arg(long)]
    seed: Option<u64>,
}

#[derive(Subcommand)]
enum Command {
    /// Run one worker process
    #[command(hide = true)]
    Worker(WorkerArguments),
    /// Check the histories in FOLDER again
    Check {
        /// Folder with histories
        folder: PathBuf,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let good = match &arguments.command {
        Some(Command::Worker(arguments)) => worker::run(arguments).map(|()| true),
        Some(Command::Check { folder }) => judge(folder),
        None => run(&arguments),
    };
    match good {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<bool> {
    let minutes = arguments.minutes.map(|minutes| Duration::try_from_secs_f64(minutes * 60.0));
    let duration = minutes.transpose()?;
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..));
    let folder = scenario::folder()?;
    println!("seed {seed}, histories in {}", folder.display());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let report = runtime.block_on(scenario::run(Settings { duration, seed }, &folder))?;
    print(&report.findings);
    println!("{}", report.table());
    if report.findings.violations.is_empty() {
        std::fs::remove_dir_all(&folder)?;
        return Ok(true);
    }
    println!("histories kept in {}", folder.display());
    Ok(false)
}

fn judge(folder: &Path) -> Result<bool> {
    let start = Instant::now();
    let findings = scenario::judge(folder)?;
    print(&findings);
    let (shards, seconds) = (findings.shards, start.elapsed().as_secs_f64());
    println!("{shards} shards in {seconds:.1} s, violations {}", findings.violations.len());
    Ok(findings.violations.is_empty())
}

fn print(findings: &Findings) {
    for violation in findings.violations.iter().take(SHOWN_MAX) {
        println!("violation: {violation}\n");
    }
    let more = findings.violations.len().saturating_sub(SHOWN_MAX);
    if more > 0 {
        println!("and {more} more violations\n");
    }
}
