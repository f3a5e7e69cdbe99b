//! A job over the lines of a file. Leases, checkpoints, splits of slow shards and resuming after a
//! kill are the library's work.
//!
//! Run it, kill it, run it again, in as many terminals as you like:
//! `cargo run --release --example library_job -- FILE FOLDER`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use shardwright::connectors::Lines;
use shardwright::{Item, Outcome, Shardwright};

async fn measure(file: &str, folder: &str) -> shardwright::Result<Outcome> {
    let shardwright = Shardwright::open(&format!("file:{folder}/state")).await?;
    let run = shardwright.run("lengths"); // starts, joins or resumes the run of this name
    run.source(Lines::open(file).await?)
        .results(format!("{folder}/results")) // each result exactly once, in key order
        .each(async |item: Item| Ok(format!("{} bytes\n", item.text()?.len())))
        .await
}

#[tokio::main]
async fn main() -> shardwright::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().unwrap_or_else(|| "Cargo.lock".to_owned());
    let folder = arguments.next().unwrap_or_else(|| "lengths".to_owned());
    println!("{}", measure(&file, &folder).await?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn two_tasks_measure_every_line_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("numbers.txt");
        std::fs::write(&file, (0..5_000).map(|n| format!("{n}\n")).collect::<String>()).unwrap();
        let (file, folder) = (file.to_str().unwrap(), folder.path().to_str().unwrap());
        let (one, other) = tokio::join!(measure(file, folder), measure(file, folder));
        for outcome in [one.unwrap(), other.unwrap()] {
            assert_eq!(outcome.to_string(), "5000 items done, 0 parked");
            let bytes = |n: u64| format!("{} bytes\n", n.to_string().len());
            let expected: String = (0..5_000).map(bytes).collect();
            assert_eq!(std::fs::read_to_string(outcome.results.unwrap()).unwrap(), expected);
        }
    }
}
