//! Programs per item and per batch: arguments, output, children and failures.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use shardwright_contracts::CursorSemantics::Completed;
use shardwright_contracts::{FenceEpoch, RunId, ShardId, WorkerId};
use shardwright_process::{
    BatchInput, ItemRecord, ProcessGuard, ProcessPerBatch, ProcessPerItem, Spill, Template,
};
use shardwright_worker::connector::{Item, Payload};
use shardwright_worker::handler::{Assignment, Batch, FailureCause, Handler, ItemFailure};
use shardwright_worker::{Worker, WorkerOptions};
use tokio::time::timeout;

use crate::support::{LONG, Numbers, RUN, TENANT, env, join, start_with_lease};

pub(crate) fn template(command: &[&str]) -> Template {
    Template::new(&command.iter().map(OsString::from).collect::<Vec<_>>()).unwrap()
}

/// A shell script that gets a folder as its first argument.
pub(crate) fn script(text: &str, folder: &Path) -> Template {
    template(&["sh", "-c", text, "sh", folder.to_str().unwrap()])
}

pub(crate) fn guard() -> Arc<ProcessGuard> {
    Arc::new(ProcessGuard::start_with(env!("CARGO_BIN_EXE_shardwright-guard")).unwrap())
}

fn spill(folder: &Path) -> Spill {
    Spill::new(folder.join("spill"), 1_000)
}

pub(crate) fn per_item(template: Template, folder: &Path) -> ProcessPerItem {
    ProcessPerItem::new(template, guard(), spill(folder))
}

pub(crate) fn per_batch(template: Template, folder: &Path, input: BatchInput) -> ProcessPerBatch {
    ProcessPerBatch::new(template, guard(), spill(folder), 100, input)
}

pub(crate) fn row(number: u64, text: impl Into<Vec<u8>>) -> Item {
    let text: Vec<u8> = text.into();
    let payload = Payload::Row { number, bytes: text.into() };
    Item { key: Bytes::copy_from_slice(&number.to_be_bytes()), size: None, payload }
}

pub(crate) fn assignment() -> Assignment {
    Assignment {
        run: RunId::from_raw(1),
        shard: ShardId::from_raw(2),
        fence: FenceEpoch::from_raw(3).unwrap(),
        worker: WorkerId::from_raw(4),
    }
}

/// The batch of an item and the program's stdout, or its failure.
type Processed = Result<(Option<u64>, String), ItemFailure>;

pub(crate) async fn process(handler: &impl Handler, items: &[Item]) -> Vec<Processed> {
    let assignment = assignment();
    let batch = Batch { assignment: &assignment, sequence: 0, items, attempt: 1 };
    let outcomes = timeout(LONG, handler.process(batch)).await.unwrap();
    let read = |line: Vec<u8>| {
        let record: ItemRecord<'_> = serde_json::from_slice(&line).unwrap();
        // An empty output is left out.
        let stdout = record.stdout.map(|stdout| stdout.to_bytes().unwrap()).unwrap_or_default();
        (record.batch, String::from_utf8(stdout).unwrap())
    };
    outcomes.into_iter().map(|outcome| outcome.map(read)).collect()
}

pub(crate) async fn stdout_of(handler: &impl Handler, item: Item) -> String {
    process(handler, &[item]).await.remove(0).unwrap().1
}

/// Whether a process has exited. It may be a zombie.
pub(crate) fn is_gone(id: &str) -> bool {
    match fs::read_to_string(Path::new("/proc").join(id.trim()).join("stat")) {
        Ok(stat) => stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['Z', 'X'])),
        Err(_) => true,
    }
}

pub(crate) async fn until(what: impl Fn() -> bool) {
    let start = Instant::now();
    while !what() {
        assert!(start.elapsed() < LONG);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Starts a child, writes its id to a file atomically, and waits for it.
const BACKGROUND: &str = r#"sleep 1000 & echo $! > "$1/half"; mv "$1/half" "$1/id"; wait"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_the_work_kills_children_of_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let named = folder.path().join("id");
    let per_item = per_item(script(BACKGROUND, folder.path()), folder.path());
    let handler = script(BACKGROUND, folder.path());
    let per_batch = per_batch(handler, folder.path(), BatchInput::Lines);
    drop_when(&per_item, &named).await;
    let id = fs::read_to_string(&named).unwrap();
    until(|| is_gone(&id)).await;
    fs::remove_file(&named).unwrap();
    drop_when(&per_batch, &named).await;
    let id = fs::read_to_string(&named).unwrap();
    until(|| is_gone(&id)).await;
}

/// Drops the work when a file exists.
pub(crate) async fn drop_when(handler: &impl Handler, file: &Path) {
    let (assignment, items) = (assignment(), [row(0, "a")]);
    let batch = Batch { assignment: &assignment, sequence: 0, items: &items, attempt: 1 };
    let mut working = Box::pin(handler.process(batch));
    tokio::select! {
        biased;
        _ = &mut working => panic!("it ended"),
        () = until(|| file.exists()) => {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_shard_kills_children_of_its_programs() {
    let coordinator = start_with_lease(5, 1, Completed, 300).await;
    let folder = tempfile::tempdir().unwrap();
    let named = folder.path().join("id");
    let first = join(&coordinator).await;
    let worker = Worker::builder(TENANT, RUN)
        .backend(first.clone())
        .connector(Numbers)
        .handler(per_item(script(BACKGROUND, folder.path()), folder.path()))
        .env(env())
        .options(WorkerOptions::default());
    let working = tokio::spawn(worker.run());
    until(|| named.exists()).await;
    let id = fs::read_to_string(&named).unwrap();
    assert!(!is_gone(&id));
    first.close().await.unwrap();
    until(|| is_gone(&id)).await;
    working.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn children_that_keep_the_pipes_open_are_killed() {
    let folder = tempfile::tempdir().unwrap();
    let handler = per_item(script("echo $$; sleep 1000 & echo $!", folder.path()), folder.path());
    let wrote = stdout_of(&handler, row(0, "a")).await;
    let ids: Vec<&str> = wrote.lines().collect();
    assert_eq!(ids.len(), 2);
    until(|| ids.iter().all(|id| is_gone(id))).await;
    // The next program is not affected.
    assert_eq!(stdout_of(&handler, row(1, "b")).await.lines().count(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn children_of_a_failed_try_are_killed() {
    let folder = tempfile::tempdir().unwrap();
    let failing = "sleep 1000 > /dev/null 2>&1 & echo $! >&2; exit 3";
    let handler = per_item(script(failing, folder.path()), folder.path());
    let failure = process(&handler, &[row(0, "a")]).await.remove(0).unwrap_err();
    let id = failure.detail.strip_prefix("exit code 3: ").unwrap().to_owned();
    until(|| is_gone(&id)).await;
}

/// The guard of a program, from the program's `/proc/self/stat`.
fn parent(stat: &str) -> String {
    stat.rsplit(") ").next().unwrap().split(' ').nth(1).unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_program_has_a_guard_which_is_reused() {
    let folder = tempfile::tempdir().unwrap();
    let handler = per_item(template(&["cat", "/proc/self/stat", "{}"]), folder.path());
    let alone = parent(&stdout_of(&handler, row(0, "/dev/null")).await);
    assert_eq!(parent(&stdout_of(&handler, row(1, "/dev/null")).await), alone);
    // One program blocks on the pipe until the other has run.
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let waits = row(2, pipe.to_str().unwrap());
    let together = async {
        let other = parent(&stdout_of(&handler, row(3, "/dev/null")).await);
        let opened = pipe.clone();
        tokio::task::spawn_blocking(move || fs::write(opened, "")).await.unwrap().unwrap();
        other
    };
    let (one, other) = tokio::join!(stdout_of(&handler, waits), together);
    assert_ne!(parent(&one), other);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_too_long_for_a_command_line_is_divided() {
    let folder = tempfile::tempdir().unwrap();
    let handler = template(&["sh", "-c", "echo $#", "sh", "{}"]);
    let handler = per_batch(handler, folder.path(), BatchInput::Lines);
    let mut items: Vec<Item> = (0..60).map(|number| row(number, "x".repeat(100_000))).collect();
    // Too long for a single argument.
    items[17] = row(17, "x".repeat(200_000));
    let processed = process(&handler, &items).await;
    let failed: Vec<usize> = (0..60).filter(|at| processed[*at].is_err()).collect();
    assert_eq!(failed, [17]);
    assert!(!processed[17].as_ref().unwrap_err().is_retryable);
    // Each part is a batch, and its program gets all items of it.
    let done: Vec<_> = processed.into_iter().flatten().collect();
    let mut parts: Vec<u64> = done.iter().filter_map(|(batch, _)| *batch).collect();
    parts.dedup();
    assert!((3..20).contains(&parts.len()), "{parts:?}");
    let counts = done.iter().filter_map(|(_, wrote)| wrote.trim().parse::<usize>().ok());
    let counted: usize = counts.sum();
    assert_eq!(counted, 59);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_that_is_an_invalid_argument_fails_alone() {
    let folder = tempfile::tempdir().unwrap();
    let handler = per_batch(template(&["echo", "{}"]), folder.path(), BatchInput::Lines);
    let items = [row(0, "a"), row(1, *b"b\0c"), row(2, "d")];
    let processed = process(&handler, &items).await;
    let wrote: Vec<Option<&str>> = processed
        .iter()
        .map(|processed| processed.as_ref().ok().map(|(_, wrote)| wrote.as_str()))
        .collect();
    assert_eq!(wrote, [Some("a\n"), None, Some("d\n")]);
    assert!(!processed[1].as_ref().unwrap_err().is_retryable);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_that_contains_the_separator_fails_alone() {
    let folder = tempfile::tempdir().unwrap();
    let items = ["a", "b", "c\nd", "e"].map(|name| {
        let payload = Payload::File(PathBuf::from(name));
        Item { key: Bytes::from(name), size: None, payload }
    });
    let lines = per_batch(template(&["cat"]), folder.path(), BatchInput::Lines);
    let processed = process(&lines, &items).await;
    let wrote: Vec<Option<&str>> = processed
        .iter()
        .map(|processed| processed.as_ref().ok().map(|(_, wrote)| wrote.as_str()))
        .collect();
    assert_eq!(wrote, [Some("a\nb\n"), Some(""), None, Some("e\n")]);
    let rejected = processed[2].as_ref().unwrap_err();
    assert_eq!((rejected.is_retryable, rejected.cause), (false, FailureCause::Item));
    assert!(rejected.detail.contains("newline"), "{}", rejected.detail);
    let nul = per_batch(template(&["tr", "\\0", ";"]), folder.path(), BatchInput::Nul);
    assert_eq!(process(&nul, &items).await.remove(0).unwrap().1, "a;b;c\nd;e;");
    // As arguments, items need no separator.
    let arguments = per_batch(template(&["printf", "%s;", "{}"]), folder.path(), BatchInput::Lines);
    assert_eq!(process(&arguments, &items).await.remove(0).unwrap().1, "a;b;c\nd;e;");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_gets_the_key_of_its_item() {
    let folder = tempfile::tempdir().unwrap();
    let shown = template(&["sh", "-c", r#"printf %s "$SHARDWRIGHT_RUN $SHARDWRIGHT_KEY""#]);
    let per_batch = per_batch(shown.clone(), folder.path(), BatchInput::Lines);
    let per_item = per_item(shown, folder.path());
    let run = format!("{:016x}", 1);
    assert_eq!(stdout_of(&per_item, row(6, "x")).await, format!("{run} 7"));
    let of_batch = process(&per_batch, &[row(8, "x"), row(9, "y")]).await.remove(0);
    assert_eq!(of_batch.unwrap().1, format!("{run} 9"));
    let payload = Payload::File(OsString::from_vec(b"./a b".to_vec()).into());
    let file = Item { key: Bytes::from_static(b"a b"), size: None, payload };
    assert_eq!(stdout_of(&per_item, file).await, format!("{run} a b"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_cannot_be_started_fails_the_worker() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("no-program"), "no program").unwrap();
    for name in ["missing", "no-program/either", "no-program"] {
        let program = folder.path().join(name);
        let program = program.to_str().unwrap();
        let items = [row(0, "a"), row(1, "b")];
        let one_by_one = per_item(template(&[program]), folder.path());
        let together = per_batch(template(&[program, "{}"]), folder.path(), BatchInput::Lines);
        let mut processed = process(&one_by_one, &items).await;
        processed.extend(process(&together, &items).await);
        assert_eq!(processed.len(), 4);
        for failure in processed.into_iter().map(Result::unwrap_err) {
            assert_eq!(
                (failure.cause, failure.is_retryable),
                (FailureCause::Worker, false),
                "{name}"
            );
            assert!(failure.detail.contains(program), "{}", failure.detail);
        }
    }
}

/// The file of the first item's long output.
fn spilled(folder: &Path) -> PathBuf {
    folder.join("spill").join(format!("{:016x}", 1)).join(format!("{:016x}-{:016x}-0", 2, 3))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_fails_the_worker_without_waiting_for_the_program() {
    const INSIDE: &str = "SHARDWRIGHT_PROCESS_TEST_INSIDE";
    if std::env::var_os(INSIDE).is_none() {
        // A process with a limited file size stands for one on a full disk.
        let limited = "trap '' XFSZ; ulimit -f 8; exec \"$0\" --exact \"$1\"";
        let test =
            "programs::a_full_disk_fails_the_worker_without_waiting_for_the_program".to_owned();
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", limited]).arg(std::env::current_exe().unwrap()).arg(test);
        assert!(shell.env(INSIDE, "1").status().unwrap().success());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = spilled(folder.path());
    for text in ["exec yes", "trap '' PIPE; yes 2> /dev/null; sleep 1000", "yes | head -c 9999"] {
        let handler = per_item(script(text, folder.path()), folder.path());
        let failure = process(&handler, &[row(0, "a")]).await.remove(0).unwrap_err();
        assert_eq!((failure.cause, failure.is_retryable), (FailureCause::Worker, false), "{text}");
        assert!(failure.detail.contains("File too large"), "{}", failure.detail);
        assert!(file.symlink_metadata().is_err(), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_is_not_written_through_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let (file, other) = (spilled(folder.path()), folder.path().join("other"));
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&other, "mine").unwrap();
    symlink(&other, &file).unwrap();
    let handler = per_item(script("yes | head -c 9999", folder.path()), folder.path());
    let failure = process(&handler, &[row(0, "a")]).await.remove(0).unwrap_err();
    assert_eq!(failure.cause, FailureCause::Worker);
    assert_eq!(fs::read(&other).unwrap(), b"mine");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_of_a_failed_try_is_kept_and_of_dropped_work_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let file = spilled(folder.path());
    let writes = "head -c 5000 /dev/zero; until [ -e \"$1/failing\" ]; do sleep 0.01; done; exit 1";
    let handler = per_item(script(writes, folder.path()), folder.path());
    drop_when(&handler, &file).await;
    assert!(!file.exists());
    fs::write(folder.path().join("failing"), "").unwrap();
    let failure = process(&handler, &[row(0, "a")]).await.remove(0).unwrap_err();
    assert_eq!((failure.cause, failure.is_retryable), (FailureCause::Item, true));
    assert_eq!(fs::metadata(&file).unwrap().len(), 5_000);
    // The next try replaces it.
    let short = per_item(template(&["echo"]), folder.path());
    let (assignment, items) = (assignment(), [row(0, "a")]);
    let batch = Batch { assignment: &assignment, sequence: 0, items: &items, attempt: 2 };
    assert!(short.process(batch).await.remove(0).is_ok());
    assert!(!file.exists());
}
