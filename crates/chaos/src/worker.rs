//! A worker process: the real engine on etcd, with random operations of every kind.

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

/// The line on stdin that requests to finish: start no new run.
pub const FINISH: &str = "finish";

/// Number of shards that one process works on at a time.
const TASKS: u64 = 2;
/// Distance between the first worker numbers of two processes.
pub const WORKERS_APART: u64 = 16;

/// Arguments of a worker process.
#[derive(Clone, Debug, clap::Args)]
pub struct WorkerArguments {
    /// Address of an etcd member, behind a proxy of this process alone
    #[arg(long = "endpoint", required = true)]
    pub endpoints: Vec<String>,
    /// Path of the history file
    #[arg(long)]
    pub history: PathBuf,
    /// Seed of all random choices
    #[arg(long)]
    pub seed: u64,
    /// Number of its first worker
    #[arg(long)]
    pub worker: u64,
}

/// Works until the controller requests to finish and all runs are done. Exits if the controller
/// exits.
pub fn run(arguments: &WorkerArguments) -> Result<()> {
    let finishing = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&finishing);
    std::thread::spawn(move || {
        for line in stdin().lock().lines() {
            match line {
                Ok(line) if line == FINISH => flag.store(true, Ordering::Relaxed),
                _ => break,
            }
        }
        // The controller has exited and cannot kill this process.
        std::process::exit(1);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(work(arguments, &finishing))
}

async fn work(arguments: &WorkerArguments, finishing: &AtomicBool) -> Result<()> {
    let recorder = Arc::new(Recorder::create(&arguments.history)?);
    let coordinator = connect(arguments).await;
    let tasks = (0..TASKS).map(|task| {
        let worker = arguments.worker + task;
        let caller = Caller::new(coordinator.clone(), Arc::clone(&recorder), worker);
        let rng = fastrand::Rng::with_seed(arguments.seed ^ worker.rotate_left(32));
        WorkerTask::new(caller, rng, finishing).work()
    });
    let mut tasks: Vec<_> = tasks.map(Box::pin).collect();
    // Poll all of them in one task, so that the failure of one ends all.
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

/// Connects, and retries until that succeeds.
async fn connect(arguments: &WorkerArguments) -> AsyncEtcdCoordinator {
    // Short timeouts, so that many calls end without an answer.
    let timeouts = EtcdTimeouts {
        connect: Duration::from_millis(500),
        attempt: Duration::from_millis(500),
        call: Duration::from_millis(1_500),
        silence: Duration::from_millis(400),
        ..EtcdTimeouts::default()
    };
    let config = EngineConfig {
        skew_allowance_ms: SKEW_MS,
        clock_mark_interval_ms: SKEW_MS,
        sessions: LeaseBinding::Session { ttl: Duration::from_secs(SESSION_SECONDS) },
        quota_block: 4,
        ..EngineConfig::default()
    };
    loop {
        let options = EtcdOptions::new(arguments.endpoints.clone()).timeouts(timeouts);
        match AsyncEtcdCoordinator::on_etcd(options, config).await {
            Ok(coordinator) => return coordinator,
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}
