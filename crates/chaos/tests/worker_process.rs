//! A worker process, on its own.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::process::{Command, Stdio};

#[test]
fn a_worker_does_not_outlive_whoever_started_it() {
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("1.history");
    let mut worker = Command::new(env!("CARGO_BIN_EXE_chaos"))
        .args(["worker", "--seed", "1", "--worker", "16", "--endpoint", "http://127.0.0.1:1"])
        .arg("--history")
        .arg(&history)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    // It cannot reach anything, and tries again and again.
    while !history.exists() {
        assert!(worker.try_wait().unwrap().is_none(), "it has ended by itself");
        std::thread::yield_now();
    }
    drop(worker.stdin.take());
    assert!(!worker.wait().unwrap().success());
}
