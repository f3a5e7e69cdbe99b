//! A worker process: the real engine on etcd, doing everything a worker can do, at random.

mod answer;
mod caller;
mod holding;
mod task;

use std::io::{BufRead as _, stdin};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use shardwright_runs::{AsyncEtcdCoordinator, EngineConfig, LeaseBinding};
use shardwright_store::etcd::{EtcdOptions, EtcdTimeouts};

use crate::history::Recorder;
use crate::plan::{SESSION_SECONDS, SKEW_MS};
use caller::Caller;
use task::WorkerTask;

/// What the controlling process says when no new run is to be begun.
pub const FINISH: &str = "finish";

/// How many shards one process works on at a time.
const TASKS: u64 = 2;
/// Least distance between the numbers of two processes' workers.
pub const WORKERS_APART: u64 = 16;

/// Arguments of a worker process.
#[derive(Clone, Debug, clap::Args)]
pub struct Orders {
    /// Where the members of etcd are, each behind a link of this process alone.
    #[arg(long = "endpoint", required = true)]
    pub endpoints: Vec<String>,
    /// Where to write the history.
    #[arg(long)]
    pub history: PathBuf,
    /// What its choices depend on.
    #[arg(long)]
    pub seed: u64,
    /// The number of its first worker.
    #[arg(long)]
    pub worker: u64,
}

/// Works until everything is finished, after the controller asks to finish. Ends with the
/// controlling process.
pub fn run(orders: &Orders) -> Result<()> {
    let finishing = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&finishing);
    std::thread::spawn(move || {
        for line in stdin().lock().lines() {
            match line {
                Ok(line) if line == FINISH => flag.store(true, Ordering::Relaxed),
                _ => break,
            }
        }
        // The controller is gone and would not end this process.
        std::process::exit(1);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(work(orders, &finishing))
}

async fn work(orders: &Orders, finishing: &AtomicBool) -> Result<()> {
    let recorder = Arc::new(Recorder::create(&orders.history)?);
    let coordinator = connect(orders).await;
    let tasks = (0..TASKS).map(|task| {
        let worker = orders.worker + task;
        let caller = Caller::new(coordinator.clone(), Arc::clone(&recorder), worker);
        let chance = fastrand::Rng::with_seed(orders.seed ^ worker.rotate_left(32));
        WorkerTask::new(caller, chance, finishing).work()
    });
    let mut tasks: Vec<_> = tasks.map(Box::pin).collect();
    // All of them in one task, so that none outlives the others' failure.
    std::future::poll_fn(|context| {
        let mut failed = None;
        tasks.retain_mut(|task| match task.as_mut().poll(context) {
            std::task::Poll::Pending => true,
            std::task::Poll::Ready(done) => {
                failed = failed.take().or(done.err());
                false
            }
        });
        match failed {
            Some(error) => std::task::Poll::Ready(Err(error)),
            None if tasks.is_empty() => std::task::Poll::Ready(Ok(())),
            None => std::task::Poll::Pending,
        }
    })
    .await
}

/// Connects as soon as that is possible.
async fn connect(orders: &Orders) -> AsyncEtcdCoordinator {
    // Short, so that many calls end without an answer.
    let timeouts = EtcdTimeouts {
        connect: Duration::from_millis(500),
        attempt: Duration::from_millis(500),
        call: Duration::from_millis(1_500),
        silence: Duration::from_millis(400),
        ..EtcdTimeouts::default()
    };
    let config = EngineConfig {
        skew_allowance_ms: SKEW_MS,
        sessions: LeaseBinding::Session { ttl: Duration::from_secs(SESSION_SECONDS) },
        quota_block: 4,
        ..EngineConfig::default()
    };
    loop {
        let options = EtcdOptions::new(orders.endpoints.clone()).timeouts(timeouts);
        match AsyncEtcdCoordinator::on_etcd(options, config).await {
            Ok(coordinator) => return coordinator,
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}
