//! Persistent programs: messages, revocation, and programs that do not respond.

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use shardwright_contracts::CursorSemantics::Completed;
use shardwright_contracts::{FenceEpoch, RunId, ShardId, WorkerId};
use shardwright_process::{PersistentProcess, Spill, Template};
use shardwright_worker::connector::{Item, Payload};
use shardwright_worker::handler::{Assignment, Batch, FailureCause, Outcome};
use shardwright_worker::{Handler as _, Worker};

use crate::programs::guard;
use crate::support::{Numbers, RUN, TENANT, env, join, start_with_lease};

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(600);

/// Whether a process has exited. It may be a zombie.
fn is_gone(id: &str) -> bool {
    match std::fs::read_to_string(Path::new("/proc").join(id).join("stat")) {
        Ok(stat) => stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['Z', 'X'])),
        Err(_) => true,
    }
}

/// Answers with its own process id. An item `stuck` is marked and never answered. The shell code
/// `on_revoke` runs for each revoke.
fn script(on_revoke: &str) -> String {
    format!(
        r#"echo '{{"type":"hello","version":1}}' >&4
        while read -r line <&3; do
            echo "$line"
            id=${{line#*\"id\":}}; id=${{id%%,*}}
            case $line in
            *'"item":"stuck"'*) : > "$1/stuck" ;;
            *'"type":"item"'*) echo "{{\"type\":\"done\",\"id\":$id,\"output\":\"$$\"}}" >&4 ;;
            *'"type":"revoke"'*) {on_revoke} ;;
            esac
        done"#
    )
}

fn handler(folder: &Path, on_revoke: &str, grace: Duration) -> PersistentProcess {
    let script = script(on_revoke);
    let command = ["sh", "-c", &script, "sh", folder.to_str().unwrap()].map(OsString::from);
    let template = Template::new(&command).unwrap();
    let spill = Spill::new(folder.join("spill"), 100);
    PersistentProcess::new(template, guard(), folder.join("logs"), spill, 4, grace)
}

fn item(text: &str) -> Item {
    let bytes = Bytes::copy_from_slice(text.as_bytes());
    let payload = Payload::Row { number: 0, bytes: bytes.clone() };
    Item { key: bytes, size: None, payload }
}

fn assignment() -> Assignment {
    Assignment {
        run: RunId::from_raw(1),
        shard: ShardId::from_raw(2),
        fence: FenceEpoch::from_raw(3).unwrap(),
        worker: WorkerId::from_raw(4),
    }
}

/// The process id of the program.
async fn program(handler: &PersistentProcess) -> String {
    let (assignment, items) = (assignment(), [item("plain")]);
    let batch = Batch { assignment: &assignment, sequence: 0, items: &items, attempt: 1 };
    let line = handler.process(batch).await.remove(0).unwrap();
    let record: serde_json::Value = serde_json::from_slice(&line).unwrap();
    record["stdout"].as_str().unwrap().to_owned()
}

/// Passes an item that the program does not answer, and revokes it.
async fn pass_and_revoke(handler: &PersistentProcess, folder: &Path) {
    revoke_when_stuck(handler, folder, item("stuck")).await;
}

async fn revoke_when_stuck(handler: &PersistentProcess, folder: &Path, item: Item) {
    let (assignment, items) = (assignment(), [item]);
    let batch = Batch { assignment: &assignment, sequence: 1, items: &items, attempt: 1 };
    let mut processing = Box::pin(handler.process(batch));
    let start = Instant::now();
    while !folder.join("stuck").exists() {
        assert!(start.elapsed() < LONG);
        let a_moment = tokio::time::sleep(Duration::from_millis(5));
        tokio::select! {
            biased;
            _ = &mut processing => panic!("it was answered"),
            () = a_moment => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_returns_revoked_items_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let revoked = r#"echo '{"type":"revoked","id":2}' >&4"#;
    let handler = handler(folder.path(), revoked, LONG);
    let before = program(&handler).await;
    pass_and_revoke(&handler, folder.path()).await;
    assert_eq!(program(&handler).await, before);
    handler.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_answer_to_a_revoked_item_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let late = r#"echo '{"type":"done","id":2,"output":"late"}' >&4"#;
    let handler = handler(folder.path(), late, LONG);
    let before = program(&handler).await;
    pass_and_revoke(&handler, folder.path()).await;
    assert_eq!(program(&handler).await, before);
    handler.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_keeps_revoked_items_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let handler = handler(folder.path(), ":", Duration::from_millis(20));
    let before = program(&handler).await;
    pass_and_revoke(&handler, folder.path()).await;
    let start = Instant::now();
    while program(&handler).await == before {
        assert!(start.elapsed() < LONG);
    }
    // A killed program is reaped soon.
    while Path::new("/proc").join(&before).exists() {
        assert!(start.elapsed() < LONG);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    handler.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_receives_checkpoints_and_splits_and_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let handler = handler(folder.path(), ":", LONG);
    let id = program(&handler).await;
    handler.committed(&assignment(), b"plain");
    handler.divided(&assignment(), b"q");
    handler.close().await;
    assert!(!Path::new("/proc").join(&id).exists());
    let log = folder.path().join("logs").join(format!("{:016x}.log", 4));
    let log = std::fs::read_to_string(log).unwrap();
    let lines: Vec<serde_json::Value> =
        log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["hello", "item", "checkpoint", "split"]);
    assert_eq!((&lines[2]["key"], &lines[3]["end"]), (&"plain".into(), &"q".into()));
}

/// A program that answers its first item with a long output.
fn long_winded(folder: &Path, spill: &Path) -> PersistentProcess {
    let long = r#"echo '{"type":"hello","version":1}' >&4; read -r _ <&3; read -r _ <&3
        echo "{\"type\":\"done\",\"id\":1,\"output\":\"$(printf %0200d 0)\"}" >&4; read -r _ <&3"#;
    let template = Template::new(&["sh", "-c", long].map(OsString::from)).unwrap();
    PersistentProcess::new(template, guard(), folder.join("logs"), Spill::new(spill, 100), 1, LONG)
}

async fn first_outcome(handler: &PersistentProcess) -> Outcome {
    let (assignment, items) = (assignment(), [item("plain")]);
    let batch = Batch { assignment: &assignment, sequence: 0, items: &items, attempt: 1 };
    handler.process(batch).await.remove(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_output_goes_to_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let handler = long_winded(folder.path(), &folder.path().join("spill"));
    let line = first_outcome(&handler).await.unwrap();
    let record: serde_json::Value = serde_json::from_slice(&line).unwrap();
    let kept = std::fs::read_to_string(record["stdout_path"].as_str().unwrap()).unwrap();
    assert_eq!(kept, "0".repeat(200));
    handler.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_output_that_cannot_be_stored_fails_the_worker() {
    let folder = tempfile::tempdir().unwrap();
    let no_folder = folder.path().join("file");
    std::fs::write(&no_folder, "").unwrap();
    let handler = long_winded(folder.path(), &no_folder);
    let failure = first_outcome(&handler).await.unwrap_err();
    assert_eq!((failure.cause, failure.is_retryable), (FailureCause::Worker, false));
    assert!(failure.detail.contains(no_folder.to_str().unwrap()), "{}", failure.detail);
    handler.close().await;
}

fn quiet(command: &[&str], folder: &Path) -> PersistentProcess {
    let command: Vec<OsString> = command.iter().map(OsString::from).collect();
    let template = Template::new(&command).unwrap();
    let spill = Spill::new(folder.join("spill"), 100);
    PersistentProcess::new(template, guard(), folder.join("logs"), spill, 1, LONG)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_without_hello_fails_the_worker() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    for (command, is_retryable) in
        [([missing.to_str().unwrap(), "x", "y"], false), (["sh", "-c", "exit 7"], true)]
    {
        let failure = first_outcome(&quiet(&command, folder.path())).await.unwrap_err();
        assert_eq!((failure.cause, failure.is_retryable), (FailureCause::Worker, is_retryable));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_starting_program_is_killed_when_its_work_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let loads_long = r#"echo $$ > "$1/half"; mv "$1/half" "$1/stuck"; sleep 1000"#;
    let command = ["sh", "-c", loads_long, "sh", folder.path().to_str().unwrap()];
    let handler = quiet(&command, folder.path());
    pass_and_revoke(&handler, folder.path()).await;
    let id = std::fs::read_to_string(folder.path().join("stuck")).unwrap();
    let start = Instant::now();
    while !is_gone(id.trim()) {
        assert!(start.elapsed() < LONG);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    handler.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_stops_reading_is_killed_with_its_children() {
    let folder = tempfile::tempdir().unwrap();
    // It reads the first bytes of an item before it marks it as stuck.
    let reads_no_more = r#"echo '{"type":"hello","version":1}' >&4; read -r _ <&3
        head -c 10 <&3 > /dev/null; sleep 1000 & echo "$! $$" > "$1/ids"; : > "$1/stuck"; wait"#;
    let command = ["sh", "-c", reads_no_more, "sh", folder.path().to_str().unwrap()];
    let template = Template::new(&command.map(OsString::from)).unwrap();
    let spill = Spill::new(folder.path().join("spill"), 100);
    let grace = Duration::from_millis(20);
    let handler =
        PersistentProcess::new(template, guard(), folder.path().join("logs"), spill, 1, grace);
    // More than the capacity of a pipe, so that the revoke cannot be written.
    revoke_when_stuck(&handler, folder.path(), item(&"x".repeat(300_000))).await;
    let ids = std::fs::read_to_string(folder.path().join("ids")).unwrap();
    let start = Instant::now();
    while !ids.split_whitespace().all(is_gone) {
        assert!(start.elapsed() < LONG);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    handler.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_shard_kills_a_program_that_ignores_revoke() {
    let coordinator = start_with_lease(5, 1, Completed, 300).await;
    let folder = tempfile::tempdir().unwrap();
    let deaf = r#"echo '{"type":"hello","version":1}' >&4; read -r _ <&3; read -r _ <&3
        echo $$ > "$1/half"; mv "$1/half" "$1/id"; while :; do read -r _ <&3; done"#;
    let command = ["sh", "-c", deaf, "sh", folder.path().to_str().unwrap()];
    let template = Template::new(&command.map(OsString::from)).unwrap();
    let spill = Spill::new(folder.path().join("spill"), 100);
    let grace = Duration::from_millis(30);
    let first = join(&coordinator).await;
    let worker = Worker::builder(TENANT, RUN)
        .backend(first.clone())
        .connector(Numbers)
        .handler(PersistentProcess::new(
            template,
            guard(),
            folder.path().join("logs"),
            spill,
            1,
            grace,
        ))
        .env(env());
    let working = tokio::spawn(worker.run());
    let (named, start) = (folder.path().join("id"), Instant::now());
    while !named.exists() {
        assert!(start.elapsed() < LONG);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let id = std::fs::read_to_string(&named).unwrap();
    assert!(!is_gone(id.trim()));
    first.close().await.unwrap();
    while !is_gone(id.trim()) {
        assert!(start.elapsed() < LONG);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    working.abort();
}
