//! The simulator from the command line.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a program that reports")]

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use shardwright_sim::sweep::{STEPS, Sweep};
use shardwright_sim::{report, world};

/// Lives through seeded worlds around the run protocol and judges what happens.
#[derive(Parser)]
#[command(name = "sim", args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// How many seeds to live through.
    #[arg(long, default_value_t = 1_000, conflicts_with = "seed")]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    start: u64,
    /// Live through one seed and print all of its trace.
    #[arg(long)]
    seed: Option<u64>,
    /// Steps of chaos per seed.
    #[arg(long, default_value_t = STEPS)]
    steps: u64,
}

#[derive(Subcommand)]
enum Command {
    /// Plant every known bug, one at a time, and show which seed and oracle catch it.
    Planted,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let good = match (&arguments.command, arguments.seed) {
        (Some(Command::Planted), _) => hunt(),
        (None, Some(seed)) => replay(seed, arguments.steps),
        (None, None) => sweep(&arguments),
    };
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn sweep(arguments: &Arguments) -> bool {
    let end = arguments.start.saturating_add(arguments.seeds);
    let sweep = Sweep::run(arguments.start..end, arguments.steps);
    let complaints = sweep.complaints();
    for complaint in &complaints {
        println!("{complaint}\n");
    }
    print!("{}", report::table(&sweep));
    complaints.is_empty()
}

fn replay(seed: u64, steps: u64) -> bool {
    let report = world::live(seed, steps, true);
    for line in report.trace.lines() {
        println!("{line}");
    }
    println!("seed {seed}, digest of the trace {:016x}", report.trace.digest());
    println!("violations: {}", report.findings.len());
    report.findings.is_empty()
}

#[cfg(not(feature = "planted-bugs"))]
fn hunt() -> bool {
    println!("bugs can only be planted in a build with the feature `planted-bugs`");
    false
}

#[cfg(feature = "planted-bugs")]
fn hunt() -> bool {
    let mut all_caught = true;
    for (defect, caught) in shardwright_sim::planted::hunt_all() {
        let (name, sentence) = (format!("{defect:?}"), defect.sentence());
        match caught {
            Some(catch) => println!(
                "{name:<26} seed {:>3}  {:<60} {}",
                catch.seed,
                sentence,
                catch.oracles.join(", "),
            ),
            None => {
                all_caught = false;
                println!("{name:<26} NOT CAUGHT  {sentence}");
            }
        }
    }
    all_caught
}
