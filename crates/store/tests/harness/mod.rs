//! Helpers of all harnesses.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::time::Duration;

use shardwright_store::conformance::Task;

/// Runs a scenario on several threads.
pub(crate) fn block_on<F: Future>(scenario: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(4).enable_all().build().unwrap().block_on(scenario)
}

/// Waits briefly.
pub(crate) async fn pause() {
    tokio::time::sleep(Duration::from_millis(2)).await;
}

/// Runs all tasks to their ends, each as a separate task.
pub(crate) async fn run_together(tasks: Vec<Task>) {
    let running: Vec<_> = tasks.into_iter().map(tokio::spawn).collect();
    for task in running {
        task.await.unwrap();
    }
}
