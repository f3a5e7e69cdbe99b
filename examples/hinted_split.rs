//! Shards that state which rows they hold, before and after a split.
//!
//! A builder makes the first shard, with a hint in its metadata. Two slots of a worker share the
//! work by splitting it. Every shard that results has a hint of its own.
//!
//! `cargo run --example hinted_split -- FOLDER`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use shardwright_connectors::LineConnector;
use shardwright_contracts::{CursorSemantics, RunId, ShardArena, TenantId};
use shardwright_coordination::RunConfig;
use shardwright_engine::TokioEnv;
use shardwright_frontier::{PreallocShardBuilder, ShardHint, decode_hint};
use shardwright_runs::FileCoordinator;
use shardwright_worker::connector::Item;
use shardwright_worker::sink::NullSink;
use shardwright_worker::{Observer, Worker, WorkerEvent, WorkerOptions, create_run, each};
use tokio::sync::Semaphore;

const TENANT: TenantId = TenantId::from_bytes([0; 32]);
const RUN: RunId = RunId::from_raw(1);
const ROWS: u64 = 400;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = PathBuf::from(std::env::args_os().nth(1).unwrap_or_else(|| "hints".into()));
    for (start, end) in rows_of_shards(&folder).await? {
        println!("a shard of rows {start} to {}", end - 1);
    }
    Ok(())
}

/// Processes a file of rows, and returns the rows of each shard that the run has at its end.
async fn rows_of_shards(folder: &Path) -> anyhow::Result<Vec<(u64, u64)>> {
    fs::create_dir_all(folder)?;
    let rows: String = (0..ROWS).map(|number| format!("{number}\n")).collect();
    fs::write(folder.join("rows"), rows)?;
    let lines = LineConnector::open(folder.join("rows")).await?;
    let coordinator = FileCoordinator::in_folder(folder.join("state")).await?;

    // Builder: one shard of all rows. Its metadata states that, with bytes of the caller's choice.
    let mut arena = ShardArena::new(1, 1_024);
    let mut builder = PreallocShardBuilder::<1>::new(&mut arena, 1)?;
    builder.add_manifest(lines.manifest_id(), 0, lines.rows(), b"rows.txt")?;

    // Register: the run begins with what was built. A repetition finds it created.
    let config = RunConfig::try_new(CursorSemantics::Completed, 10_000, None)?;
    create_run(&coordinator, TENANT, RUN, config, &builder.build_inputs()?).await?;

    // Worker: the second slot finds no shard, and requests a part of the first slot's.
    let divided = Arc::new(Semaphore::new(0));
    let is_divided = Arc::clone(&divided);
    let handler = each(move |_: Item| {
        let is_divided = Arc::clone(&is_divided);
        async move {
            // An item that takes long. Closing the semaphore at the split ends the wait.
            let _closed = is_divided.acquire().await;
            Ok(Vec::new())
        }
    });
    Worker::builder(TENANT, RUN)
        .backend(coordinator.clone())
        .env(TokioEnv::current().context("no tokio runtime")?)
        .connector(lines)
        .handler(handler)
        .sink(NullSink)
        .options(WorkerOptions { slots: 2, ..WorkerOptions::default() })
        .observer(Arc::new(FirstSplit(divided)))
        .run()
        .await?;

    // Decode: each shard's hint names the rows of its own range.
    let shards = coordinator.inspect_shards(TENANT, RUN).await?;
    let rows_of = |hint| match hint {
        ShardHint::Manifest { start_row, end_row, .. } => Ok((start_row, end_row)),
        ShardHint::Range | ShardHint::Prefix { .. } => anyhow::bail!("a shard without rows"),
    };
    shards.iter().map(|shard| rows_of(decode_hint(shard.spec.as_spec_ref())?)).collect()
}

/// Closes the semaphore when a shard is split.
struct FirstSplit(Arc<Semaphore>);

impl Observer for FirstSplit {
    fn event(&self, _: usize, event: WorkerEvent<'_>) {
        if let WorkerEvent::Split { .. } = event {
            self.0.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn hints_of_split_shards_tile_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let rows = tokio::time::timeout(Duration::from_secs(60), rows_of_shards(folder.path()));
        let rows = rows.await.unwrap().unwrap();
        assert!(rows.len() > 1, "{rows:?}");
        let mut next = 0;
        for (start, end) in &rows {
            assert_eq!(*start, next, "{rows:?}");
            next = *end;
        }
        assert_eq!(next, ROWS, "{rows:?}");
    }
}
