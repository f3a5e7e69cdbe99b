//! A run over a file of numbers that survives any number of kills.
//!
//! It uses the crates below the facade: a coordinator, a connector and a worker.
//!
//! Run it, kill it, run it again, in as many terminals as you like:
//! `cargo run --example durable_run -- /tmp/numbers`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use shardwright_connectors::LineConnector;
use shardwright_contracts::{CursorSemantics, RunId, TenantId};
use shardwright_coordination::RunConfig;
use shardwright_engine::TokioEnv;
use shardwright_runs::FileCoordinator;
use shardwright_worker::connector::{Connector as _, Item, Payload};
use shardwright_worker::sink::NullSink;
use shardwright_worker::{
    ItemFailure, RunOutcome, Worker, WorkerOptions, create_run, each, first_shards,
};

const TENANT: TenantId = TenantId::from_bytes([0; 32]);
const RUN: RunId = RunId::from_raw(1);
const NUMBERS: u64 = 2_400;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = PathBuf::from(std::env::args_os().nth(1).unwrap_or_else(|| "numbers".into()));
    println!("{:?}: {}", work(&folder).await?, report(&folder.join("results"))?);
    Ok(())
}

async fn work(folder: &Path) -> anyhow::Result<RunOutcome> {
    let results = folder.join("results");
    fs::create_dir_all(&results)?;
    let rows: String = (0..NUMBERS).map(|number| format!("{number}\n")).collect();
    write_at_once(&folder.join("rows"), &rows)?;
    let connector = LineConnector::open(folder.join("rows")).await?;
    let coordinator = FileCoordinator::in_folder(folder.join("state")).await?;
    // The first process creates the run. For later processes the call changes nothing.
    let config = RunConfig::try_new(CursorSemantics::Completed, 10_000, None)?;
    let ranges = connector.initial_ranges(12).await?;
    create_run(&coordinator, TENANT, RUN, config, &first_shards(&ranges)).await?;
    let handler = each(move |item| std::future::ready(solve(&item, &results)));
    let worker = Worker::builder(TENANT, RUN)
        .backend(coordinator)
        .env(TokioEnv::current().ok_or_else(|| anyhow::anyhow!("no tokio runtime"))?)
        .connector(connector)
        .handler(handler)
        .sink(NullSink)
        // A kill repeats at most this many items. No item is parked because of kills.
        .options(WorkerOptions { commit_items: 10, crash_limit: u32::MAX, ..Default::default() });
    Ok(worker.run().await?)
}

/// Writes the result to a file of its own, so a repetition has no further effect.
fn solve(item: &Item, results: &Path) -> Result<Vec<u8>, ItemFailure> {
    let Payload::Row { number, .. } = &item.payload else { return Ok(Vec::new()) };
    let written = write_at_once(&results.join(number.to_string()), &steps(*number).to_string());
    written.map_err(|error| ItemFailure::retryable(error.to_string()))?;
    Ok(Vec::new())
}

fn write_at_once(path: &Path, text: &str) -> io::Result<()> {
    let unfinished = path.with_extension(std::process::id().to_string());
    fs::write(&unfinished, text)?;
    fs::rename(unfinished, path)
}

/// The length of the Collatz sequence from a number to 1.
fn steps(mut number: u64) -> u64 {
    let mut steps = 0;
    while number > 1 {
        number = if number.is_multiple_of(2) { number / 2 } else { 3 * number + 1 };
        steps += 1;
    }
    steps
}

fn report(results: &Path) -> anyhow::Result<String> {
    let mut total = 0;
    for number in 0..NUMBERS {
        total += fs::read_to_string(results.join(number.to_string()))?.parse::<u64>()?;
    }
    Ok(format!("{NUMBERS} numbers, {total} steps"))
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    const FOLDER: &str = "DURABLE_RUN_FOLDER";
    const KILLS: usize = 30;
    /// The timeout for work that must happen.
    const TIMEOUT: Duration = Duration::from_secs(60);

    /// The process that the other test starts and kills.
    #[test]
    fn child_process_finishes_the_run() {
        let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
        let runtime = tokio::runtime::Runtime::new().unwrap();
        assert_eq!(runtime.block_on(work(&folder)).unwrap(), RunOutcome::Done);
        write_at_once(&folder.join("report"), &report(&folder.join("results")).unwrap()).unwrap();
    }

    fn start(folder: &Path) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::child_process_finishes_the_run"])
            .env(FOLDER, folder)
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// The number of results.
    fn done(folder: &Path) -> usize {
        let Ok(results) = fs::read_dir(folder.join("results")) else { return 0 };
        results.flatten().filter(|file| file.path().extension().is_none()).count()
    }

    #[derive(Default)]
    struct Kills {
        all: usize,
        /// Kills while the process had work in progress.
        at_work: usize,
    }

    impl Kills {
        /// Starts a process and kills it after some work, or right after its start.
        fn one_more(&mut self, folder: &Path) {
            let mut child = start(folder);
            let (begin, before) = (Instant::now(), done(folder));
            let (work, time) = if fastrand::u8(..5) == 0 {
                (usize::MAX, Duration::from_millis(fastrand::u64(..30)))
            } else {
                (fastrand::usize(1..120), TIMEOUT)
            };
            while begin.elapsed() < time && done(folder) - before < work {
                if child.try_wait().unwrap().is_some() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            let was_at_work = done(folder) > before;
            child.kill().unwrap();
            if !child.wait().unwrap().success() {
                self.all += 1;
                self.at_work += usize::from(was_at_work);
            }
        }
    }

    #[test]
    fn thirty_kills_do_not_change_the_outcome() {
        let expected: u64 = (0..NUMBERS).map(steps).sum();
        let mut kills = Kills::default();
        while kills.all < KILLS {
            let folder = tempfile::tempdir().unwrap();
            while !folder.path().join("report").exists() {
                if kills.all < KILLS {
                    kills.one_more(folder.path());
                } else {
                    assert!(start(folder.path()).wait().unwrap().success());
                }
            }
            let report = fs::read_to_string(folder.path().join("report")).unwrap();
            assert_eq!(report, format!("{NUMBERS} numbers, {expected} steps"));
        }
        let Kills { all, at_work } = kills;
        assert!(at_work * 2 > all, "only {at_work} of {all} kills hit a process at work");
    }
}
