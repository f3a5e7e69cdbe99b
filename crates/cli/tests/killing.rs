//! Whatever is killed whenever, a run goes on and its results are whole.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that panics is a test that fails"
)]

#[allow(dead_code, reason = "each test uses its own part")]
mod support;

use std::fs;
use std::time::{Duration, Instant};

use support::{Site, wait_until};

const KILLS: usize = 50;

/// Waits for the child; true if it had to be killed.
fn kill_after(child: &mut std::process::Child, patience: Duration) -> bool {
    let start = Instant::now();
    while start.elapsed() < patience {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    // The group is the program's own; its children have another.
    let group = rustix::process::Pid::from_child(child);
    rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
    child.wait().unwrap();
    true
}

#[test]
fn fifty_kills_lose_nothing_and_do_nothing_twice() {
    let command =
        ["run", "data", "--run", "killed", "-j", "3", "--in-flight", "2", "--", "cat", "{}"];
    let (mut kills, mut rounds) = (0, 0);
    while kills < KILLS {
        let site = Site::with_files(400);
        loop {
            let mut child = site.start(&command);
            let patience = if kills < KILLS { fastrand::u64(5..250) } else { 120_000 };
            if kill_after(&mut child, Duration::from_millis(patience)) {
                kills += 1;
            } else {
                break;
            }
        }
        site.expect(0, &command);
        let told = site.expect(0, &["verify", "killed"]);
        assert!(told.contains("the receipt holds"), "{told}");
        let keys = site.keys("killed");
        assert_eq!(keys.len(), 400);
        assert!(keys.is_sorted_by(|a, b| a < b));
        rounds += 1;
    }
    assert!(rounds > 0);
}

#[test]
fn no_child_survives_a_kill() {
    let site = Site::with_files(4);
    let marks = site.path("marks");
    fs::create_dir(&marks).unwrap();
    // Each child says who it is, and then waits for longer than anybody.
    let script = format!("echo $$ > {}/$$; sleep 1000", marks.display());
    let mut child = site.start(&["run", "data", "-j", "2", "--", "sh", "-c", &script, "sh", "{}"]);
    let started = || {
        let names = fs::read_dir(&marks).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter_map(|name| name.to_str().and_then(|name| name.parse::<i32>().ok())).collect()
    };
    let mut ids: Vec<i32> = Vec::new();
    wait_until(|| {
        ids = started();
        ids.len() == 2
    });
    let group = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(group, rustix::process::Signal::KILL).unwrap();
    child.wait().unwrap();
    wait_until(|| ids.iter().all(|id| !fs::exists(format!("/proc/{id}")).unwrap()));
}
