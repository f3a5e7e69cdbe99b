//! Everything that a program has started ends with its attempt, or with its work.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use shardwright_process::{ProcessGuard, ProcessGuardError, ProcessPerItem};
use shardwright_worker::handler::FailureCause;

use crate::programs::{
    drop_when, is_gone, per_item, process, row, script, stdout_of, template, until,
};

/// Ids that a script has written, one file each.
fn ids(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder.join("ids")).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).collect()
}

/// A folder for ids, and a handler that runs a script in it. `$1` is the folder.
fn handler(text: &str) -> (tempfile::TempDir, ProcessPerItem) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("ids")).unwrap();
    let handler = per_item(script(text, folder.path()), folder.path());
    (folder, handler)
}

/// Children in sessions of their own: one that ignores signals, one that was orphaned, one that is
/// stopped. None has a pipe of the program.
const CHILDREN: &str = r#"exec 3>&1 4>&2 > /dev/null 2>&1
    setsid sh -c 'trap "" TERM INT HUP; echo > $0/ids/$$; while :; do sleep 1000; done' "$1" &
    setsid -f sh -c 'echo > $0/ids/$$; exec sleep 1000' "$1"
    setsid sh -c 'echo > $0/ids/$$; kill -STOP $$' "$1" &
    until [ $(ls "$1/ids" | wc -l) = 3 ]; do sleep 0.01; done
    exec 1>&3 2>&4 3>&- 4>&-;"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_of_a_failed_try_have_ended_before_the_next() {
    let (folder, handler) = handler(&format!("{CHILDREN} exit 3"));
    let failure = process(&handler, &[row(0, "a")]).await.remove(0).unwrap_err();
    assert_eq!(failure.detail, "exit code 3");
    let ids = ids(folder.path());
    assert_eq!(ids.len(), 3);
    assert!(ids.iter().all(|id| is_gone(id)), "{ids:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_of_dropped_work_are_killed() {
    let (folder, handler) = handler(&format!("{CHILDREN} : > \"$1/ready\"; sleep 1000"));
    drop_when(&handler, &folder.path().join("ready")).await;
    let ids = ids(folder.path());
    assert_eq!(ids.len(), 3);
    until(|| ids.iter().all(|id| is_gone(id))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_that_keeps_the_pipes_open_is_killed() {
    let (folder, handler) =
        handler("setsid -f sh -c 'echo > $0/ids/$$; sleep 1000' \"$1\"; echo a");
    assert_eq!(stdout_of(&handler, row(0, "a")).await, "a\n");
    let ids = ids(folder.path());
    assert!(ids.len() == 1 && is_gone(&ids[0]), "{ids:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_multiply_are_killed() {
    // Seven generations, each in a session of its own, each process with two children.
    let tree = r#"[ $2 = 0 ] || for _ in 1 2; do setsid sh "$0" "$1" $(($2 - 1)) & done
        : > "$1/ids/$$"; sleep 1000"#;
    let (folder, handler) = handler(r#"setsid sh "$1/tree" "$1" 6 & wait"#);
    fs::write(folder.path().join("tree"), tree).unwrap();
    let (path, last) = (folder.path().to_owned(), folder.path().join("last"));
    let grown = tokio::spawn(async move {
        until(|| ids(&path).len() >= 100).await;
        fs::write(path.join("last"), "").unwrap();
    });
    drop_when(&handler, &last).await;
    grown.await.unwrap();
    // Those that are not in the list yet are gone as well: their parents started them.
    until(|| processes_in(folder.path()).is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process_that_replaces_itself_all_the_time_is_killed() {
    // It never lives long: it starts its successor in another session, and exits.
    let hop = r#": > "$1/hopped"; setsid sh "$0" "$1" & exit"#;
    let (folder, handler) = handler(r#"setsid sh "$1/hop" "$1" & sleep 1000"#);
    fs::write(folder.path().join("hop"), hop).unwrap();
    drop_when(&handler, &folder.path().join("hopped")).await;
    // A list of processes can miss one that ends meanwhile. Its successor writes the file again.
    let is_over = || {
        let _absent = fs::remove_file(folder.path().join("hopped"));
        (0..3).all(|_| processes_in(folder.path()).is_empty())
            && !folder.path().join("hopped").exists()
    };
    until(is_over).await;
    assert!(is_over());
}

/// Processes whose command line names a folder.
fn processes_in(folder: &Path) -> Vec<String> {
    let names = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name());
    let is_in = |id: &String| {
        let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(folder.to_str().unwrap()) && !is_gone(id)
    };
    let ids = names.filter_map(|name| name.into_string().ok());
    ids.filter(|id| id.parse::<u32>().is_ok()).filter(is_in).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orphans_do_not_stay_zombies() {
    let zombies = "cat /proc/[0-9]*/stat 2> /dev/null | grep -c \") Z $PPID \"";
    let (_folder, handler) = handler(&format!(
        "for _ in 1 2 3 4 5 6 7 8 9; do setsid -f true; done
         until [ $({zombies}) = 0 ]; do sleep 0.01; done; echo none"
    ));
    assert_eq!(stdout_of(&handler, row(0, "a")).await, "none\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn program_that_kills_its_guard_fails_alone() {
    let (folder, handler) = handler("echo > $1/ids/$$; kill -9 $PPID; exec sleep 1000");
    let failure = process(&handler, &[row(0, "a")]).await.remove(0).unwrap_err();
    assert_eq!((failure.cause, failure.is_retryable), (FailureCause::Item, true));
    assert!(failure.detail.contains("guards the program"), "{}", failure.detail);
    // This worker does not adopt orphans.
    let id = ids(folder.path()).remove(0);
    kill_process(Pid::from_raw(id.parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    until(|| is_gone(&id)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn program_that_stops_its_guard_ends_normally() {
    let (_folder, handler) = handler("echo a; kill -STOP $PPID");
    assert_eq!(stdout_of(&handler, row(0, "a")).await, "a\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guard_stopped_between_items_receives_a_long_launch() {
    let text = r#"[ -e "$1/go" ] || setsid -f sh -c 'until [ -e $0/go ]; do sleep 0.01; done
        kill -STOP $1; : > $0/stopped' "$1" $PPID > /dev/null 2>&1; echo a"#;
    let folder = tempfile::tempdir().unwrap();
    // More than a socket holds.
    let long = "x".repeat(120_000);
    let path = folder.path().to_str().unwrap();
    let command = ["sh", "-c", text, "sh", path, &long, &long, &long, &long, &long];
    let handler = per_item(template(&command), folder.path());
    assert_eq!(stdout_of(&handler, row(0, "a")).await, "a\n");
    fs::write(folder.path().join("go"), "").unwrap();
    until(|| folder.path().join("stopped").exists()).await;
    assert_eq!(stdout_of(&handler, row(1, "b")).await, "a\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guard_survives_the_signals_of_its_program() {
    let text = "for name in HUP INT QUIT TERM USR1 USR2 ALRM; do kill -$name $PPID; done; echo a";
    let (_folder, handler) = handler(text);
    assert_eq!(stdout_of(&handler, row(0, "a")).await, "a\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn program_gets_no_descriptor_of_its_guard() {
    const SHOWN: &str = "ls /proc/self/fd | tr '\\n' ' '";
    let mut direct = std::process::Command::new("sh");
    let direct = direct.args(["-c", SHOWN]).stdin(std::process::Stdio::null()).output().unwrap();
    let (_folder, handler) = handler(SHOWN);
    for number in 0..3 {
        assert_eq!(stdout_of(&handler, row(number, "a")).await.as_bytes(), direct.stdout);
    }
}

#[tokio::test]
async fn program_that_cannot_be_a_guard_is_not_started_as_one() {
    // The main function of a test does not call `run_as_guard`.
    let started = ProcessGuard::start();
    assert!(matches!(started.err(), Some(ProcessGuardError::NotServing)));
}
