//! A process that adopts the orphans of killed guards. All tests of this file may share it.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustix::process::{Pid, Signal, kill_process};
use shardwright_contracts::{FenceEpoch, RunId, ShardId, WorkerId};
use shardwright_process::{ProcessGuard, ProcessPerItem, Spill, Template};
use shardwright_worker::connector::{Item, Payload};
use shardwright_worker::handler::{Assignment, Batch, Handler as _, Outcome};

/// A handler with guards of its own, as an independent part of the program would have. `$1` of the
/// script is the folder.
fn adopting_handler(script: &str, folder: &Path) -> ProcessPerItem {
    ProcessGuard::adopt_orphans().unwrap();
    let guard = ProcessGuard::start_with(env!("CARGO_BIN_EXE_shardwright-guard")).unwrap();
    let command = ["sh", "-c", script, "sh", folder.to_str().unwrap()].map(Into::into);
    let spill = Spill::new(folder.join("spill"), 1_000);
    ProcessPerItem::new(Template::new(&command).unwrap(), Arc::new(guard), spill)
}

async fn process(handler: &ProcessPerItem) -> Outcome {
    let assignment = Assignment {
        run: RunId::from_raw(1),
        shard: ShardId::from_raw(2),
        fence: FenceEpoch::from_raw(3).unwrap(),
        worker: WorkerId::from_raw(4),
    };
    let payload = Payload::Row { number: 0, bytes: Bytes::from_static(b"a") };
    let item = Item { key: Bytes::from_static(&[0; 8]), size: None, payload };
    let batch = Batch { assignment: &assignment, sequence: 0, items: &[item], attempt: 1 };
    handler.process(batch).await.remove(0)
}

/// The id of a process that a script has written to a file.
fn id_in(folder: &Path, name: &str) -> Pid {
    let id = fs::read_to_string(folder.join(name)).unwrap();
    Pid::from_raw(id.trim().parse().unwrap()).unwrap()
}

/// Whether a process has exited. It may be a zombie.
fn is_gone(id: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", id.as_raw_nonzero()));
    stat.map_or(true, |stat| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')))
}

async fn until(holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn lost_guard_of_one_part_spares_the_programs_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let waiting = ": > \"$1/begun\"; until [ -e \"$1/go\" ]; do sleep 0.01; done; echo a";
    let first = adopting_handler(waiting, folder.path());
    let second = adopting_handler("echo $$ > $1/id; kill -9 $PPID; exec sleep 1000", folder.path());
    let lost = async {
        until(|| folder.path().join("begun").exists()).await;
        let failure = process(&second).await.unwrap_err();
        assert!(failure.detail.contains("guards the program"), "{}", failure.detail);
        assert!(is_gone(id_in(folder.path(), "id")), "it would run beside the next attempt");
        // A later part finds the same guards.
        let third = adopting_handler("kill -9 $PPID; exec sleep 1000", folder.path());
        assert!(process(&third).await.is_err());
        fs::write(folder.path().join("go"), "").unwrap();
    };
    let (line, ()) = tokio::join!(process(&first), lost);
    assert!(String::from_utf8(line.unwrap()).unwrap().contains(r#""stdout":"a\n""#));
}

#[tokio::test]
async fn guard_lost_with_its_work_leaves_nothing_after_close() {
    let folder = tempfile::tempdir().unwrap();
    let script = "echo $PPID > $1/guard; echo $$ > $1/half; mv $1/half $1/id; exec sleep 1000";
    let handler = adopting_handler(script, folder.path());
    let mut work = Box::pin(process(&handler));
    tokio::select! {
        biased;
        _ = &mut work => panic!("it ended"),
        () = until(|| folder.path().join("id").exists()) => {}
    }
    let (guard, program) = (id_in(folder.path(), "guard"), id_in(folder.path(), "id"));
    kill_process(guard, Signal::KILL).unwrap();
    until(|| is_gone(guard)).await;
    assert!(!is_gone(program));
    drop(work);
    handler.close().await;
    assert!(is_gone(program));
}
