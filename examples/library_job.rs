//! A job over the lines of a file. Leases, checkpoints, splits of slow shards and resuming after a
//! kill are the library's work.
//!
//! Run it, kill it, run it again, in as many terminals as you like:
//! `cargo run --release --example library_job`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::path::{Path, PathBuf};

use shardwright::connectors::Lines;
use shardwright::{Item, Outcome, Shardwright};

async fn square(folder: &Path) -> shardwright::Result<Outcome> {
    let shardwright =
        Shardwright::open(&format!("file:{}", folder.join("state").display())).await?;
    shardwright
        .run("squares") // begins, joins or resumes the run of this name
        .source(Lines::open(folder.join("numbers.txt")).await?)
        .results(folder.join("results")) // each result exactly once, in key order
        .each(async |item: Item| {
            let n: u64 = item.text()?.parse()?;
            Ok(format!("{n} {}\n", n * n))
        })
        .await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = PathBuf::from(std::env::args_os().nth(1).unwrap_or_else(|| "squares".into()));
    write_numbers(&folder, 10_000)?;
    let outcome = square(&folder).await?;
    println!("{outcome}");
    println!("results  {}", outcome.results.unwrap_or_default());
    Ok(())
}

/// Writes the input unless it exists.
fn write_numbers(folder: &Path, count: u64) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let file = folder.join("numbers.txt");
    if file.exists() {
        return Ok(());
    }
    std::fs::write(file, (0..count).map(|n| format!("{n}\n")).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn two_tasks_square_every_number_once() {
        let folder = tempfile::tempdir().unwrap();
        write_numbers(folder.path(), 5_000).unwrap();
        let (one, other) = tokio::join!(square(folder.path()), square(folder.path()));
        for outcome in [one.unwrap(), other.unwrap()] {
            assert_eq!(outcome.to_string(), "5000 items done, 0 parked");
            let expected: String = (0..5_000).map(|n| format!("{n} {}\n", n * n)).collect();
            assert_eq!(std::fs::read_to_string(outcome.results.unwrap()).unwrap(), expected);
        }
    }
}
