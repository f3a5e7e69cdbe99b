//! Commits per second on a single etcd that syncs its writes. It compares a plain compare-and-swap
//! of one key per request with commits of the store that expect three keys and write one of them.
//! Both have the same client and the same number of callers.
//!
//! `cargo bench -p shardwright-store --features test-support --bench etcd_commits`
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "it measures and prints")]

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use shardwright_store::etcd::EtcdStore;
use shardwright_store::testing::{EtcdCluster, EtcdOperator, EtcdSetup};
use shardwright_store::{Commit, Expect, Key, Revision, Store};

const CALLERS: [usize; 3] = [1, 16, 256];
const ROUNDS: usize = 5;
const TIME: Duration = Duration::from_secs(2);
const VALUE: Bytes = Bytes::from_static(&[7; 512]);

/// The result of one measurement.
#[derive(Clone, Copy)]
struct Rate {
    per_second: f64,
    p99: Duration,
}

/// Calls in sequence until the time is over, with the duration of each.
async fn repeat<F: Future<Output = Revision>>(
    mut call: impl FnMut(Revision) -> F,
) -> Vec<Duration> {
    let start = Instant::now();
    let mut took = Vec::new();
    let mut revision = Revision::ZERO;
    while start.elapsed() < TIME {
        let before = Instant::now();
        revision = call(revision).await;
        took.push(before.elapsed());
    }
    took
}

async fn measure<F>(callers: usize, caller: impl Fn(usize) -> F) -> Rate
where
    F: Future<Output = Vec<Duration>> + Send + 'static,
{
    let start = Instant::now();
    let tasks: Vec<_> = (0..callers).map(|number| tokio::spawn(caller(number))).collect();
    let mut took = Vec::new();
    for task in tasks {
        took.extend(task.await.unwrap());
    }
    let per_second = took.len() as f64 / start.elapsed().as_secs_f64();
    took.sort();
    let p99 = took.get(took.len() * 99 / 100).copied().unwrap_or_default();
    Rate { per_second, p99 }
}

async fn plain(operator: &Arc<EtcdOperator>, callers: usize, round: usize) -> Rate {
    measure(callers, |number| {
        let operator = Arc::clone(operator);
        let key = Bytes::from(format!("plain/{callers}/{round}/{number}"));
        async move {
            repeat(|revision| {
                let (operator, key) = (Arc::clone(&operator), key.clone());
                async move {
                    operator.compare_and_swap(key, revision, VALUE).await.unwrap().unwrap()
                }
            })
            .await
        }
    })
    .await
}

async fn fenced(store: &EtcdStore, gate: Revision, callers: usize, round: usize) -> Rate {
    measure(callers, |number| {
        let store = store.clone();
        let name = format!("{callers}/{round}/{number}");
        async move {
            let binding = Key::from(format!("binding/{name}"));
            let bind = Commit::builder().expect(binding.clone(), Expect::Absent);
            let bind = bind.put(binding.clone(), "worker").build().unwrap();
            let bound = store.commit(bind).await.unwrap();
            let progress = Key::from(format!("progress/{name}"));
            repeat(|revision| {
                let expect = match revision {
                    Revision::ZERO => Expect::Absent,
                    revision => Expect::At(revision),
                };
                let commit = Commit::builder()
                    .expect(Key::from("gate"), Expect::At(gate))
                    .expect(binding.clone(), Expect::At(bound))
                    .expect(progress.clone(), expect)
                    .put(progress.clone(), VALUE)
                    .build()
                    .unwrap();
                let store = store.clone();
                async move { store.commit(commit).await.unwrap() }
            })
            .await
        }
    })
    .await
}

fn median(mut rates: Vec<Rate>) -> Rate {
    rates.sort_by(|one, other| one.per_second.total_cmp(&other.per_second));
    rates.get(rates.len() / 2).copied().unwrap()
}

async fn run() {
    let setup = EtcdSetup::members(1).synced().argument("--auto-compaction-retention=1");
    let cluster: EtcdCluster = setup.start().await.unwrap();
    let operator = Arc::new(cluster.operator(0).await.unwrap());
    let store = EtcdStore::connect(cluster.options()).await.unwrap();
    let gate = Commit::builder().expect(Key::from("gate"), Expect::Absent);
    let gate = store.commit(gate.put(Key::from("gate"), "open").build().unwrap()).await.unwrap();
    println!("callers  plain/s  p99 ms  fenced/s  p99 ms  ratio   (medians of {ROUNDS})");
    for callers in CALLERS {
        let (mut plains, mut fences) = (Vec::new(), Vec::new());
        // Alternating, so that other load on the machine affects both.
        for round in 0..ROUNDS {
            plains.push(plain(&operator, callers, round).await);
            fences.push(fenced(&store, gate, callers, round).await);
        }
        let (plain, fenced) = (median(plains), median(fences));
        println!(
            "{callers:7}  {:7.0}  {:6.1}  {:8.0}  {:6.1}  {:5.2}",
            plain.per_second,
            plain.p99.as_secs_f64() * 1e3,
            fenced.per_second,
            fenced.p99.as_secs_f64() * 1e3,
            fenced.per_second / plain.per_second,
        );
    }
}

fn main() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.enable_all().build().unwrap().block_on(run());
}
