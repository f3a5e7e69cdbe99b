//! A source and a job of your own. Leases, checkpoints, splits of what is slow, and going on after
//! a kill are the library's work.
//!
//! Run it, kill it, run it again, in as many terminals as you like:
//! `cargo run --release --example library_job -- /tmp/squares 10000000`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::path::{Path, PathBuf};

use shardwright_connectors::FolderSink;
use shardwright_contracts::{CursorSemantics, RunId, TenantId};
use shardwright_coordination::RunConfig;
use shardwright_engine::{FileCoordinator, TokioEnv};
use shardwright_worker::connector::{
    Connector, ConnectorError, Item, KeyRange, Page, PageLimit, Payload, Position,
};
use shardwright_worker::{Ending, Worker, WorkerOptions, create_run, each};

const TENANT: TenantId = TenantId::from_bytes([0; 32]);
const RUN: RunId = RunId::from_raw(1);

/// The numbers below a bound. Their keys are their bytes, the highest first, so that they sort.
struct Numbers(u64);

impl Connector for Numbers {
    async fn page(
        &self,
        range: &KeyRange,
        from: &Position,
        limit: PageLimit,
    ) -> Result<Page, ConnectorError> {
        let behind = |key: &Vec<u8>| number_at(&[key, [0].as_slice()].concat());
        let first = number_at(&range.start).max(from.after.as_ref().map_or(0, behind));
        let mut numbers = first..self.0.min(number_at(&range.end));
        let items: Vec<Item> = numbers.clone().take(limit.items.max(1)).map(item).collect();
        Ok(Page { ended: numbers.nth(items.len()).is_none(), items, ..Page::default() })
    }

    async fn initial_ranges(&self, wanted: usize) -> Result<Vec<KeyRange>, ConnectorError> {
        let bound = |part: usize| (self.0 * part as u64 / wanted as u64).to_be_bytes();
        Ok((0..wanted).map(|part| KeyRange::new(bound(part), bound(part + 1))).collect())
    }
}

async fn work(folder: &Path, numbers: Numbers) -> anyhow::Result<Ending> {
    let coordinator = FileCoordinator::in_folder(folder.join("state")).await?;
    let config = RunConfig::try_new(CursorSemantics::Completed, 10_000, None)?;
    create_run(&coordinator, TENANT, RUN, config, &numbers.initial_ranges(8).await?).await?;
    let square = |item: Item| async move {
        let number = number_at(&item.key);
        Ok(format!("{number} {}\n", number * number).into_bytes())
    };
    let worker = Worker::builder(TENANT, RUN)
        .backend(coordinator)
        .env(TokioEnv::current().ok_or_else(|| anyhow::anyhow!("there is no runtime"))?)
        .connector(numbers)
        .job(each(square))
        .sink(FolderSink::new(folder.join("results")))
        .options(WorkerOptions { slots: 2, ..WorkerOptions::default() });
    Ok(worker.run().await?)
}

fn item(number: u64) -> Item {
    let payload = Payload::Row { number, bytes: number.to_string().into() };
    Item { key: number.to_be_bytes().to_vec().into(), size: None, payload }
}

/// The first number whose key is not below some bytes.
fn number_at(bytes: &[u8]) -> u64 {
    let mut key = [0; 8];
    key.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    u64::from_be_bytes(key).saturating_add(u64::from(bytes.len() > key.len()))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let folder = PathBuf::from(arguments.next().unwrap_or_else(|| "squares".into()));
    let count = arguments.next().and_then(|count| count.to_str()?.parse().ok()).unwrap_or(10_000);
    println!("{:?}", work(&folder, Numbers(count)).await?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use shardwright_worker::connector::conformance;
    use shardwright_worker::extent::Envelope;
    use shardwright_worker::sink::Sink as _;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn every_number_is_squared_once_by_however_many_work_on_it() {
        let folder = tempfile::tempdir().unwrap();
        let work = || work(folder.path(), Numbers(5_000));
        let (one, other) = tokio::join!(work(), work());
        assert_eq!((one.unwrap(), other.unwrap()), (Ending::Done, Ending::Done));
        let lines = results(folder.path()).await;
        let expected: String = (0..5_000).map(|n| format!("{n} {}\n", n * n)).collect();
        assert_eq!(lines, expected);
    }

    /// What the committed cursors name, in key order.
    async fn results(folder: &Path) -> String {
        let coordinator = FileCoordinator::in_folder(folder.join("state")).await.unwrap();
        let mut shards = coordinator.inspect_shards(TENANT, RUN).await.unwrap();
        shards.sort_by(|a, b| a.spec.as_spec_ref().start().cmp(b.spec.as_spec_ref().start()));
        let (sink, mut bytes) = (FolderSink::new(folder.join("results")), Vec::new());
        let mut piece = |piece: &[u8]| {
            bytes.extend_from_slice(piece);
            Ok(())
        };
        for shard in shards {
            for extent in Envelope::decode(shard.cursor.as_update().token()).unwrap().extents {
                sink.read(RUN, extent, &mut piece).await.unwrap();
            }
        }
        String::from_utf8(bytes).unwrap()
    }

    #[tokio::test]
    async fn the_source_keeps_what_a_connector_promises() {
        conformance::check(&Numbers(1_000)).await;
    }
}
