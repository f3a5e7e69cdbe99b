//! A program or an output folder that is missing stops the worker; no item is blamed.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use shardwright_contracts::CursorSemantics::Completed;
use shardwright_process::{BatchInput, ProcessPerBatch, ProcessPerItem, Spill, Template};
use shardwright_worker::{Handler, RunOutcome, WorkerError};
use tokio::time::timeout;

use crate::programs::guard;
use crate::support::{
    Coordinator, Hurried, Journal, LONG, env, join, results, shards, sink, start_with_lease,
    worker_with,
};

/// A run whose leases do not expire during a test.
async fn begin(count: usize, shards: usize) -> Coordinator {
    start_with_lease(count, shards, Completed, 600_000).await
}

/// Runs a worker that must fail, and returns its error message.
async fn failure_message(
    coordinator: &Coordinator,
    handler: impl Handler,
    journal: &Journal,
) -> String {
    let (_folder, sink) = sink();
    let worker = worker_with(join(coordinator).await, handler, &sink)
        .env(Hurried(env()))
        .observer(Arc::new(journal.clone()));
    let error = timeout(LONG, worker.run()).await.unwrap().unwrap_err();
    assert!(matches!(error, WorkerError::Handler { .. }), "{error:?}");
    assert_eq!(journal.count("parked"), 0, "{:?}", journal.lines());
    assert!(shards(coordinator).await.iter().all(|shard| shard.head.lease.is_none()));
    error.to_string()
}

fn template(program: &Path) -> Template {
    Template::new(&[program.into(), OsString::from("{}")]).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_program_stops_the_worker_until_it_exists() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("tool");
    let guard = guard();
    let spill = Spill::new(folder.path().join("spill"), 1_000);
    let one_by_one = || ProcessPerItem::new(template(&program), Arc::clone(&guard), spill.clone());
    let together = || {
        let (template, guard) = (template(&program), Arc::clone(&guard));
        ProcessPerBatch::new(template, guard, spill.clone(), 10, BatchInput::Lines)
    };
    let (items, batches) = (begin(30, 2).await, begin(30, 2).await);
    for message in [
        failure_message(&items, one_by_one(), &Journal::default()).await,
        failure_message(&batches, together(), &Journal::default()).await,
    ] {
        assert!(message.contains(program.to_str().unwrap()), "{message}");
    }
    fs::write(&program, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(finish_with(&items, one_by_one()).await, 30);
    assert_eq!(finish_with(&batches, together()).await, 30);
}

/// Finishes the run with a handler, and counts the results.
async fn finish_with(coordinator: &Coordinator, handler: impl Handler) -> usize {
    let (_folder, sink) = sink();
    let worker = worker_with(join(coordinator).await, handler, &sink);
    assert_eq!(timeout(LONG, worker.run()).await.unwrap().unwrap(), RunOutcome::Done);
    results(coordinator, &sink).await.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_that_cannot_be_stored_stops_the_worker() {
    let coordinator = begin(5, 1).await;
    let folder = tempfile::tempdir().unwrap();
    let no_folder = folder.path().join("file");
    fs::write(&no_folder, "").unwrap();
    let handler = |spill: &Path| {
        let guard = guard();
        let command = ["sh", "-c", "head -c 5000 /dev/zero"].map(OsString::from);
        ProcessPerItem::new(Template::new(&command).unwrap(), guard, Spill::new(spill, 1_000))
    };
    let message = failure_message(&coordinator, handler(&no_folder), &Journal::default()).await;
    assert!(message.contains(no_folder.to_str().unwrap()), "{message}");
    assert_eq!(finish_with(&coordinator, handler(&folder.path().join("spill"))).await, 5);
}
