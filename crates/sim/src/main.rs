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
use shardwright_sim::planted::{Defect, Found, find_named};
use shardwright_sim::stored::StoredWorld;
use shardwright_sim::sweep::{Sweep, World};
use shardwright_sim::workers::WorkerWorld;

/// Simulate seeded worlds and check every oracle.
#[derive(Parser)]
#[command(name = "sim", args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Number of seeds to simulate.
    #[arg(long, default_value_t = 1_000, conflicts_with = "seed")]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    start: u64,
    /// Simulate one seed and print its whole trace.
    #[arg(long)]
    seed: Option<u64>,
    /// Acts of chaos per seed [default: as many as in the tests].
    #[arg(long)]
    steps: Option<u64>,
    /// Simulate the stored coordinator on a simulated store and network.
    #[arg(long, conflicts_with = "clusters")]
    engine: bool,
    /// Simulate nodes, gates and leaders of a cluster on a simulated store and network.
    #[arg(long)]
    clusters: bool,
    /// Simulate the worker loop with a scripted source, handler and sink.
    #[arg(long, conflicts_with_all = ["engine", "clusters"])]
    workers: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Plant every known bug, one at a time, and print the seed and the oracle that detect it.
    Planted {
        /// Plant only bugs whose name contains NAME.
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

/// Runs one seed with its whole trace, or a sweep. Returns false if an oracle fails.
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
    let mut found = find_named::<ProtocolBug>(name);
    found.extend(find_named::<StoredBug>(name));
    found.extend(find_named::<ClusterBug>(name));
    found.extend(find_named::<WorkerBug>(name));
    for Found { defect: Defect { name, sentence, seam, caught_by, .. }, seed } in &found {
        let seed = seed.map_or("ESCAPED".to_owned(), |seed| format!("seed {seed}"));
        let seam = format!("{seam:?}");
        println!("{name:<27} {seed:<9} {seam:<12} {caught_by:<36} {sentence}");
    }
    let escaped = found.iter().filter(|bug| bug.seed.is_none()).count();
    let of_output = found.iter().filter(|bug| bug.defect.seam.is_output()).count();
    println!("{} bugs, of which {of_output} only change output; {escaped} escaped", found.len());
    escaped == 0
}
