//! The speed of `shardwright scan`, compared with specialised scanners.

mod contenders;
mod corpus;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use cargo_metadata::Metadata;

use self::contenders::Contender;
use self::corpus::Corpus;
use crate::system_packages::{self, Package, Proof};
use crate::workspace;

/// How often each contender runs. The median counts.
const ROUNDS: usize = 5;

const PACKAGES: &[Package] = &[
    Package {
        name: "ripgrep",
        proof: Proof::Program("rg"),
        reason: "the scan is measured beside it",
    },
    Package {
        name: "python3-pip",
        proof: Proof::File("/usr/lib/python3/dist-packages/pip/__main__.py"),
        reason: "Kingfisher comes in a Python package",
    },
];

/// Creates a tree, runs every contender on it in turn, and prints a table.
pub(crate) fn run(metadata: &Metadata) -> Result<()> {
    system_packages::ensure(PACKAGES, &mut system_packages::Debian)?;
    let mut build = workspace::cargo(metadata, &["build", "--release", "--locked"]);
    workspace::succeed(build.args(["--package", "shardwright-cli"]))?;
    let folder = tempfile::tempdir()?;
    println!("creating a tree …");
    let corpus = Corpus::make(&folder.path().join("tree"))?;
    let rules = metadata.workspace_root.join("crates/scan/src/rules/default.toml");
    let patterns = contenders::patterns(rules.as_std_path())?;
    let contenders = contenders::all(metadata, folder.path(), &corpus.root, &patterns)?;
    println!(
        "{} files, {:.0} MB, of which {:.0} MB are text; {} secrets planted; {} patterns",
        corpus.files,
        megabytes(corpus.bytes),
        megabytes(corpus.text_bytes),
        corpus.planted,
        patterns.len()
    );
    let taken = measure(&contenders)?;
    print_table(&contenders, &taken, corpus.bytes);
    let found = count_lines(&folder.path().join(contenders::REPORT))?;
    ensure!(found == corpus.planted, "{} secrets were planted, {found} found", corpus.planted);
    println!("all {found} planted secrets were found, and nothing else");
    Ok(())
}

/// The times of one contender, round by round.
#[derive(Clone, Default)]
struct Taken {
    wall: Vec<Duration>,
    /// On all cores together. Other load on the machine affects it less.
    processor: Vec<Duration>,
}

/// Runs all contenders in turn, so that other load on the machine affects all of them.
fn measure(contenders: &[Contender]) -> Result<Vec<Taken>> {
    let mut all = vec![Taken::default(); contenders.len()];
    // The first round brings files into memory.
    for round in 0..=ROUNDS {
        for (contender, taken) in contenders.iter().zip(&mut all) {
            let before = workspace::time_of_children()?;
            let wall = time(contender)?;
            if round > 0 {
                taken.wall.push(wall);
                taken.processor.push(workspace::time_of_children()?.saturating_sub(before));
            }
        }
    }
    Ok(all)
}

fn time(contender: &Contender) -> Result<Duration> {
    let mut command = Command::new(&contender.program);
    command.args(&contender.arguments).stdin(Stdio::null()).stdout(Stdio::null());
    let start = Instant::now();
    let status = command.stderr(Stdio::null()).status();
    let status = status.with_context(|| format!("{} did not start", contender.name))?;
    let took = start.elapsed();
    match status.code() {
        Some(code) if contender.exits.contains(&code) => Ok(took),
        _ => bail!("{} ended with {status}: {command:?}", contender.name),
    }
}

fn print_table(contenders: &[Contender], taken: &[Taken], bytes: u64) {
    let seconds = |times: &[Duration]| median(times).as_secs_f64();
    let Some(ours) = taken.first() else { return };
    println!("\n| | time | range | MB/s | processor time | time / ours | processor / ours |");
    println!("|---|---|---|---|---|---|---|");
    for (contender, taken) in contenders.iter().zip(taken) {
        let (wall, processor) = (seconds(&taken.wall), seconds(&taken.processor));
        let least = taken.wall.iter().min().copied().unwrap_or_default().as_secs_f64();
        let most = taken.wall.iter().max().copied().unwrap_or_default().as_secs_f64();
        println!(
            "| {} | {wall:.2} s | {least:.2} to {most:.2} s | {:.0} | {processor:.2} s | {:.2} | \
             {:.2} |",
            contender.name,
            megabytes(bytes) / wall,
            wall / seconds(&ours.wall),
            processor / seconds(&ours.processor),
        );
    }
    println!();
}

fn median(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort();
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

#[expect(clippy::cast_precision_loss, reason = "for people to read")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

fn count_lines(file: &Path) -> Result<usize> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    Ok(text.lines().count())
}
