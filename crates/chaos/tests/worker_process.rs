//! A single worker process.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::process::{Command, Stdio};

#[test]
fn worker_exits_with_its_controller() {
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("1.history");
    let mut worker = Command::new(env!("CARGO_BIN_EXE_chaos"))
        .args(["worker", "--seed", "1", "--worker", "16", "--endpoint", "http://127.0.0.1:1"])
        .arg("--history")
        .arg(&history)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    // It cannot connect, and retries.
    while !history.exists() {
        assert!(worker.try_wait().unwrap().is_none(), "the worker has exited");
        std::thread::yield_now();
    }
    drop(worker.stdin.take());
    assert!(!worker.wait().unwrap().success());
}
