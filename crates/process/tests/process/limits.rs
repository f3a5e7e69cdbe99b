//! Limits of programs: what takes too long or writes too much is ended, and its item fails.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use shardwright_process::{Limits, PersistentProcess, ProcessPerItem, Spill, Template};
use shardwright_worker::handler::{FailureCause, Handler as _};

use crate::programs::{guard, is_gone, per_item, process, row, script, stdout_of, until};

/// Long enough that no program is killed during a test.
const LONG_MS: u64 = 600_000;

fn within(timeout_ms: u64, kill_after_ms: u64) -> Limits {
    Limits { timeout_ms: Some(timeout_ms), kill_after_ms: Some(kill_after_ms), ..Limits::default() }
}

/// A handler that runs a script with limits. `$1` is the folder.
fn limited(text: &str, limits: Limits) -> (tempfile::TempDir, ProcessPerItem) {
    let folder = tempfile::tempdir().unwrap();
    let handler = per_item(script(text, folder.path()), folder.path()).limits(limits);
    (folder, handler)
}

async fn failure_of(handler: &ProcessPerItem) -> String {
    let failure = process(handler, &[row(0, "a")]).await.remove(0).unwrap_err();
    assert_eq!((failure.cause, failure.is_retryable), (FailureCause::Item, true));
    failure.detail
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn program_in_time_is_not_affected() {
    let (_folder, handler) = limited("echo a", within(LONG_MS, 1));
    assert_eq!(stdout_of(&handler, row(0, "a")).await, "a\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_of_a_late_program_can_end_themselves() {
    // The program dies of the signal at once. A child in a session of its own cleans up first.
    let text = r#"setsid sh -c 'trap "sleep 0.2; : > $0/clean; exit" TERM; : > $0/ready
            while :; do sleep 0.01; done' "$1" &
        until [ -e "$1/ready" ]; do sleep 0.01; done; echo late >&2; wait"#;
    let (folder, handler) = limited(text, within(2_000, LONG_MS));
    let detail = failure_of(&handler).await;
    assert!(detail.starts_with("timed out after 2 s: late"), "{detail}");
    assert!(folder.path().join("clean").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_ignore_the_signal_are_killed() {
    let text = r#"trap '' TERM; setsid sh -c 'trap "" TERM; echo $$ > $0/id; exec sleep 1000' "$1" &
        until [ -e "$1/id" ]; do sleep 0.01; done; kill -STOP $$"#;
    let (folder, handler) = limited(text, within(1_500, 50));
    assert_eq!(failure_of(&handler).await, "timed out after 1500 ms");
    let id = fs::read_to_string(folder.path().join("id")).unwrap();
    assert!(is_gone(&id));
    // The guard is used again.
    assert_eq!(failure_of(&handler).await, "timed out after 1500 ms");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_program_ends_by_the_signal() {
    let (folder, handler) =
        limited("trap 'echo > $1/end; exit' TERM; kill -STOP $$", within(1_000, LONG_MS));
    assert_eq!(failure_of(&handler).await, "timed out after 1 s");
    assert!(folder.path().join("end").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_batch_fails_with_all_its_items() {
    let folder = tempfile::tempdir().unwrap();
    let waits = script("cat > /dev/null; sleep 1000", folder.path());
    let handler =
        crate::programs::per_batch(waits, folder.path(), shardwright_process::BatchInput::Lines);
    let handler = handler.limits(within(100, LONG_MS));
    let processed = process(&handler, &[row(0, "a"), row(1, "b")]).await;
    for failure in processed.into_iter().map(Result::unwrap_err) {
        assert_eq!((failure.cause, failure.is_retryable), (FailureCause::Unclear, true));
        assert_eq!(failure.detail, "timed out after 100 ms");
    }
}

fn at_most(max_output_bytes: u64) -> Limits {
    Limits { max_output_bytes: Some(max_output_bytes), ..Limits::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn program_that_writes_too_much_is_killed() {
    for (text, stream) in [
        ("sleep 1000 & echo $! > $1/id; yes", "stdout"),
        ("sleep 1000 & echo $! > $1/id; yes >&2", "stderr"),
        ("sleep 1000 & echo $! > $1/id; head -c 65537 /dev/zero; sleep 1000", "stdout"),
    ] {
        let (folder, handler) = limited(text, at_most(65_536));
        let why = format!("wrote more than 64 KiB to {stream}");
        assert_eq!(failure_of(&handler).await, why, "{text}");
        assert!(is_gone(&fs::read_to_string(folder.path().join("id")).unwrap()), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_stream_may_be_as_long_as_the_limit() {
    let (_folder, handler) = limited("echo 123; echo 456 >&2", at_most(4));
    assert_eq!(stdout_of(&handler, row(0, "a")).await, "123\n");
    let (_folder, handler) = limited("echo a", at_most(0));
    assert_eq!(failure_of(&handler).await, "wrote more than 0 bytes to stdout");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_answer_of_a_persistent_program_fails_its_item() {
    let folder = tempfile::tempdir().unwrap();
    let handler = persistent(folder.path(), 1, at_most(0));
    let failure = process(&handler, &[row(0, "a")]).await.remove(0).unwrap_err();
    assert_eq!(failure.detail, "wrote more than 0 bytes to stdout");
    handler.close().await;
}

/// Answers with its process id, except for items `stuck`. It cleans up when it is terminated.
const ANSWERS: &str = r#"trap ': > "$1/clean"; exit' TERM
    echo '{"type":"hello","version":1}' >&4
    while read -r line <&3; do
        id=${line#*\"id\":}; id=${id%%,*}
        case $line in
        *'"item":"stuck"'*) ;;
        *'"type":"item"'*) echo "{\"type\":\"done\",\"id\":$id,\"output\":\"$$\"}" >&4 ;;
        esac
    done"#;

fn persistent(folder: &Path, in_flight: usize, limits: Limits) -> PersistentProcess {
    let command = ["sh", "-c", ANSWERS, "sh", folder.to_str().unwrap()].map(OsString::from);
    let (spill, logs) = (Spill::new(folder.join("spill"), 100), folder.join("logs"));
    let template = Template::new(&command).unwrap();
    let grace = Duration::from_millis(LONG_MS);
    PersistentProcess::new(template, guard(), logs, spill, in_flight, grace).limits(limits)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn persistent_program_that_is_silent_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let handler = persistent(folder.path(), 1, within(300, LONG_MS));
    let before = stdout_of(&handler, row(0, "a")).await;
    let failure = process(&handler, &[row(1, "stuck")]).await.remove(0).unwrap_err();
    assert_eq!((failure.detail.as_str(), failure.is_retryable), ("timed out after 300 ms", true));
    // It had time to end, and has ended before another takes its place.
    assert!(folder.path().join("clean").exists() && is_gone(&before));
    assert_ne!(stdout_of(&handler, row(2, "b")).await, before);
    handler.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn item_that_silences_a_persistent_program_fails_alone() {
    let folder = tempfile::tempdir().unwrap();
    let handler = persistent(folder.path(), 16, within(300, 1));
    let items = [row(0, "a"), row(1, "stuck"), row(2, "b")];
    let processed = process(&handler, &items).await;
    let failed: Vec<bool> = processed.iter().map(Result::is_err).collect();
    assert_eq!(failed, [false, true, false]);
    handler.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_persistent_program_is_not_late() {
    let folder = tempfile::tempdir().unwrap();
    let handler = persistent(folder.path(), 1, within(100, 1));
    let before = stdout_of(&handler, row(0, "a")).await;
    let start = Instant::now();
    until(|| start.elapsed() > Duration::from_millis(400)).await;
    assert_eq!(stdout_of(&handler, row(1, "b")).await, before);
    handler.close().await;
}
