//! The simulator from the command line.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a program that reports")]

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use shardwright_sim::clusters::ClusterWorld;
use shardwright_sim::memory::MemoryWorld;
use shardwright_sim::planted::clusters::ClusterBug;
use shardwright_sim::planted::protocol::ProtocolBug;
use shardwright_sim::planted::stored::StoredBug;
use shardwright_sim::planted::workers::WorkerBug;
use shardwright_sim::planted::{Bug, Found, find_named};
use shardwright_sim::stored::StoredWorld;
use shardwright_sim::sweep::{Sweep, World};
use shardwright_sim::workers::WorkerWorld;

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
    /// Steps of chaos per seed; by default as many as the tests take.
    #[arg(long)]
    steps: Option<u64>,
    /// The stored engine on a simulated store and network, and not the in-memory backend.
    #[arg(long, conflicts_with = "clusters")]
    engine: bool,
    /// Nodes, gates and leaders of a cluster on a simulated store and network.
    #[arg(long)]
    clusters: bool,
    /// The real worker loop with a scripted source, handler and sink.
    #[arg(long, conflicts_with_all = ["engine", "clusters"])]
    workers: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Plant every known bug, one at a time, and show which seed and oracle detection it.
    Planted {
        /// Only bugs whose name contains NAME.
        name: Option<String>,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let good = if let Some(Command::Planted { name }) = &arguments.command {
        find_planted(name.as_deref().unwrap_or_default())
    } else if arguments.workers {
        run::<WorkerWorld>(&arguments)
    } else if arguments.clusters {
        run::<ClusterWorld>(&arguments)
    } else if arguments.engine {
        run::<StoredWorld>(&arguments)
    } else {
        run::<MemoryWorld>(&arguments)
    };
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs one seed with its whole trace, or many; false if a sweep fails or a violation is found.
fn run<W: World>(arguments: &Arguments) -> bool {
    let acts = arguments.steps.unwrap_or(W::ACTS);
    match arguments.seed {
        Some(seed) => replay::<W>(seed, acts),
        None => sweep::<W>(arguments, acts),
    }
}

fn sweep<W: World>(arguments: &Arguments, acts: u64) -> bool {
    let end = arguments.start.saturating_add(arguments.seeds);
    let sweep = Sweep::<W>::run(arguments.start..end, acts);
    let complaints = sweep.complaints();
    for complaint in &complaints {
        println!("{complaint}\n");
    }
    print!("{}", sweep.table());
    complaints.is_empty()
}

fn replay<W: World>(seed: u64, acts: u64) -> bool {
    let report = W::live(seed, acts, true);
    for line in report.trace.lines() {
        println!("{line}");
    }
    println!("seed {seed}, digest of the trace {:016x}", report.trace.digest());
    println!("violations: {}", report.findings.len());
    report.findings.is_empty()
}

fn find_planted(name: &str) -> bool {
    let (protocol, stored) = (all_found::<ProtocolBug>(name), all_found::<StoredBug>(name));
    let (clusters, workers) = (all_found::<ClusterBug>(name), all_found::<WorkerBug>(name));
    protocol & stored & clusters & workers
}

/// Looks for the bugs of one kind of world; false if one escaped.
fn all_found<B: Bug>(name: &str) -> bool {
    let mut all_caught = true;
    for Found { defect, detection } in find_named::<B>(name) {
        let (name, sentence) = (defect.name, defect.sentence);
        match detection {
            Some(detection) => println!(
                "{name:<26} seed {:>3}  {sentence:<66} {}",
                detection.seed,
                detection.oracles.join(", "),
            ),
            None => {
                all_caught = false;
                println!("{name:<26} NOT CAUGHT  {sentence}");
            }
        }
    }
    all_caught
}
