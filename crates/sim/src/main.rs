//! The simulator from the command line.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a program that reports")]

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use shardwright_sim::clusters::{self, ClusterSweep};
use shardwright_sim::planted::clusters::ClusterBug;
use shardwright_sim::planted::protocol::ProtocolBug;
use shardwright_sim::planted::stored::StoredBug;
use shardwright_sim::planted::{Bug, Hunted, hunt_named};
use shardwright_sim::stored::{self, StoredSweep};
use shardwright_sim::sweep::{STEPS, Sweep};
use shardwright_sim::trace::Trace;
use shardwright_sim::workers::{self, WorkerSweep};
use shardwright_sim::{memory, report};

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
    /// Plant every known bug, one at a time, and show which seed and oracle catch it.
    Planted {
        /// Only bugs whose name contains NAME.
        name: Option<String>,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let good = match (&arguments.command, arguments.seed) {
        (Some(Command::Planted { name }), _) => hunt_all(name.as_deref().unwrap_or_default()),
        (None, Some(seed)) if arguments.workers => {
            replay_workers(seed, arguments.steps.unwrap_or(workers::ACTS))
        }
        (None, None) if arguments.workers => sweep_workers(&arguments),
        (None, Some(seed)) if arguments.clusters => {
            replay_cluster(seed, arguments.steps.unwrap_or(clusters::ACTS))
        }
        (None, None) if arguments.clusters => sweep_clusters(&arguments),
        (None, Some(seed)) if arguments.engine => {
            replay_stored(seed, arguments.steps.unwrap_or(stored::ACTS))
        }
        (None, Some(seed)) => replay(seed, arguments.steps.unwrap_or(STEPS)),
        (None, None) if arguments.engine => sweep_stored(&arguments),
        (None, None) => sweep(&arguments),
    };
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn sweep(arguments: &Arguments) -> bool {
    let end = arguments.start.saturating_add(arguments.seeds);
    let sweep = Sweep::run(arguments.start..end, arguments.steps.unwrap_or(STEPS));
    let complaints = sweep.complaints();
    for complaint in &complaints {
        println!("{complaint}\n");
    }
    print!("{}", report::table(&sweep));
    complaints.is_empty()
}

fn sweep_stored(arguments: &Arguments) -> bool {
    let end = arguments.start.saturating_add(arguments.seeds);
    let acts = arguments.steps.unwrap_or(stored::ACTS);
    let sweep = StoredSweep::run(arguments.start..end, acts);
    let complaints = sweep.complaints();
    for complaint in &complaints {
        println!("{complaint}\n");
    }
    print!("{}", stored::table(&sweep));
    complaints.is_empty()
}

fn replay_stored(seed: u64, acts: u64) -> bool {
    let report = stored::live(seed, acts, true);
    tell(seed, &report.trace, report.findings.len())
}

fn sweep_clusters(arguments: &Arguments) -> bool {
    let end = arguments.start.saturating_add(arguments.seeds);
    let acts = arguments.steps.unwrap_or(clusters::ACTS);
    let sweep = ClusterSweep::run(arguments.start..end, acts);
    let complaints = sweep.complaints();
    for complaint in &complaints {
        println!("{complaint}\n");
    }
    print!("{}", clusters::table(&sweep));
    complaints.is_empty()
}

fn replay_cluster(seed: u64, acts: u64) -> bool {
    let report = clusters::live(seed, acts, true);
    tell(seed, &report.trace, report.findings.len())
}

fn sweep_workers(arguments: &Arguments) -> bool {
    let end = arguments.start.saturating_add(arguments.seeds);
    let acts = arguments.steps.unwrap_or(workers::ACTS);
    let sweep = WorkerSweep::run(arguments.start..end, acts);
    let complaints = sweep.complaints();
    for complaint in &complaints {
        println!("{complaint}\n");
    }
    print!("{}", workers::table(&sweep));
    complaints.is_empty()
}

fn replay_workers(seed: u64, acts: u64) -> bool {
    let report = workers::live(seed, acts, true);
    tell(seed, &report.trace, report.findings.len())
}

fn tell(seed: u64, trace: &Trace, violations: usize) -> bool {
    for line in trace.lines() {
        println!("{line}");
    }
    println!("seed {seed}, digest of the trace {:016x}", trace.digest());
    println!("violations: {violations}");
    violations == 0
}

fn replay(seed: u64, steps: u64) -> bool {
    let report = memory::live(seed, steps, true);
    tell(seed, &report.trace, report.findings.len())
}

fn hunt_all(name: &str) -> bool {
    let (protocol, stored) = (hunted::<ProtocolBug>(name), hunted::<StoredBug>(name));
    protocol & stored & hunted::<ClusterBug>(name)
}

/// Hunts for the bugs of one kind of world; false if one escaped.
fn hunted<B: Bug>(name: &str) -> bool {
    let mut all_caught = true;
    for Hunted { defect, catch } in hunt_named::<B>(name) {
        let (name, sentence) = (defect.name, defect.sentence);
        match catch {
            Some(catch) => println!(
                "{name:<26} seed {:>3}  {sentence:<66} {}",
                catch.seed,
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
