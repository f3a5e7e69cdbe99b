//! Cost of the run protocol on each store, beside the physical limit or the simplest baseline.
//! `cargo xtask bench-stores` prints the table that `docs/benchmarks.md` records.
#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a bench may use the real world"
)]
#![allow(clippy::print_stdout, reason = "a bench prints")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a bench that fails panics")]

mod checkpoints;
mod counted;
mod limits;
mod memory;
mod meter;
mod shards;

use std::ops::Deref;
use std::sync::Arc;

use shardwright_engine::TokioEnv;
use shardwright_engine::keyspace::Keyspace;
use shardwright_runs::{EngineConfig, StoredCoordinator};
use shardwright_store::etcd::EtcdStore;
use shardwright_store::file::{FileOptions, FileStore};
use shardwright_store::memory::MemoryStore;
use shardwright_store::testing::{EtcdCluster, EtcdSetup};
use shardwright_store::{MachineClock, Store};
use tempfile::TempDir;

use counted::{Counted, Counts};
use meter::Rate;

/// Callers at a time.
pub(crate) const CALLERS: [usize; 3] = [1, 16, 256];
/// Rounds per measurement. The median counts.
pub(crate) const ROUNDS: usize = 3;

/// Contenders on etcd.
const CONTENDERS: usize = 3;

#[derive(Clone)]
pub(crate) struct Coordinator {
    backend: StoredCoordinator,
    pub(crate) counts: Counts,
}

impl Deref for Coordinator {
    type Target = StoredCoordinator;

    fn deref(&self) -> &StoredCoordinator {
        &self.backend
    }
}

fn main() {
    // Test runners start every bench with these arguments.
    if std::env::args().any(|argument| argument == "--list" || argument == "--test") {
        return;
    }
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        if wanted("file") {
            file().await;
        }
        if wanted("etcd") {
            etcd().await;
        }
        if wanted("shards") {
            shards().await;
        }
        if wanted("memory") {
            memory::report().await;
        }
    });
}

async fn file() {
    let disk = limits::median(limits::sync_rate);
    let bare = limits::median(limits::bare_rate);
    println!("\ndurable checkpoints in a folder");
    println!("  fdatasync after an append of 4 KiB  {disk:8.0}/s");
    println!("  bare SQLite, one put and one sync   {bare:8.0}/s  {:5.2} x the disk", bare / disk);
    for callers in CALLERS {
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            let folder = TempDir::new().unwrap();
            let store = FileStore::open(folder.path(), FileOptions::default()).unwrap();
            rounds.push(checkpoints::measure(&open(store).await, None, callers).await);
        }
        let rate = meter::median(rounds);
        println!(
            "  {callers:3} callers                         {:8.0}/s  {:5.2} x the disk, p99 {:?}",
            rate.per_second,
            rate.per_second / disk,
            rate.p99,
        );
    }
}

async fn etcd() {
    println!("\nfenced checkpoints on one etcd that syncs, beside plain compare-and-swap");
    println!("{:42}  each              processor, both sides", "");
    for callers in CALLERS {
        let (mut plain, mut nested, mut fenced) = (Vec::new(), Vec::new(), Vec::new());
        for turn in 0..ROUNDS * CONTENDERS {
            // Each contender gets a fresh etcd, and each is first equally often.
            let cluster = synced_etcd().await;
            match (turn + turn / CONTENDERS) % CONTENDERS {
                0 => plain.push(checkpoints::plain(&cluster, callers).await),
                1 => nested.push(checkpoints::nested(&cluster, callers).await),
                _ => {
                    let server = cluster.process_id(0).ok();
                    let coordinator = on_etcd(&cluster).await;
                    fenced.push(checkpoints::measure(&coordinator, server, callers).await);
                }
            }
        }
        let plain = meter::median(plain);
        beside(&format!("{callers:3} callers, plain"), plain, plain);
        beside("             ours", meter::median(fenced), plain);
        beside("             bare swaps, nested", meter::median(nested), plain);
    }
}

fn beside(name: &str, rate: Rate, plain: Rate) {
    let Rate { per_second, p99, processor } = rate;
    println!(
        "  {name:32} {per_second:6.0}/s {:5.2} x, p99 {p99:9.1?}, {processor:8.1?} {:5.2} x less",
        per_second / plain.per_second,
        plain.processor.div_duration_f64(processor),
    );
}

async fn shards() {
    println!("\nregistering 10,000 shards, and 200 workers claiming them");
    let store = MemoryStore::new(Arc::new(MachineClock));
    shards::report("memory", &open(store).await).await;
    let folder = TempDir::new().unwrap();
    let store = FileStore::open(folder.path(), FileOptions::default()).unwrap();
    shards::report("folder", &open(store).await).await;
    let cluster = synced_etcd().await;
    shards::report("etcd", &on_etcd(&cluster).await).await;
}

async fn synced_etcd() -> EtcdCluster {
    EtcdSetup::members(1).synced().start().await.unwrap()
}

pub(crate) async fn open(store: impl Store) -> Coordinator {
    open_with(store, Keyspace::default()).await
}

/// As users do: the store's namespace is the only prefix of keys.
async fn on_etcd(cluster: &EtcdCluster) -> Coordinator {
    let store = EtcdStore::connect(cluster.options()).await.unwrap();
    open_with(store, Keyspace::bare()).await
}

async fn open_with(store: impl Store, keys: Keyspace) -> Coordinator {
    let (env, config) = (TokioEnv::current().unwrap(), EngineConfig::default());
    let (store, counts) = Counted::new(store);
    let backend = StoredCoordinator::open(store, env, keys, config).await.unwrap();
    Coordinator { backend, counts }
}
