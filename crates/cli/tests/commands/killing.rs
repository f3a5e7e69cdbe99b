//! Whatever is killed whenever, a run goes on and its results are whole.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::{Site, wait_until};

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
    // Each in a run of its own, so that it is verified after each.
    kill_and_go_on(50, 1, 120, &["-j", "3", "--in-flight", "2", "--", "cat", "{}"]);
}

#[test]
fn nor_do_many_kills_of_one_run() {
    kill_and_go_on(12, 12, 400, &["-j", "3", "--in-flight", "2", "--", "cat", "{}"]);
}

#[test]
fn nor_do_kills_of_those_that_feed_persistent_programs() {
    let worker = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/persistent_worker.sh");
    let flags = ["-j", "3", "--persistent", "--in-flight", "16", "--", "sh"];
    kill_and_go_on(12, 12, 400, &[&flags[..], &[worker.to_str().unwrap()]].concat());
}

/// Kills the program at that many random moments, in as many runs as that takes.
fn kill_and_go_on(wanted: usize, most_in_a_run: usize, files: usize, flags: &[&str]) {
    // So many kills in so short a time look like an item that kills.
    let patient = ["run", "data", "--run", "killed", "--max-crashes", "1000"];
    let command = [&patient[..], flags].concat();
    let mut kills = 0;
    while kills < wanted {
        let site = Site::with_files(files);
        let most = most_in_a_run.min(wanted - kills);
        for left in (0..=most).rev() {
            let mut child = site.start(&command);
            let patience = if left > 0 { fastrand::u64(5..250) } else { 120_000 };
            if !kill_after(&mut child, Duration::from_millis(patience)) {
                break;
            }
            kills += 1;
        }
        site.expect(0, &command);
        let told = site.expect(0, &["verify", "killed"]);
        assert!(told.contains("the receipt holds"), "{told}");
        let keys = site.keys("killed");
        assert_eq!(keys.len(), files);
        assert!(keys.is_sorted_by(|a, b| a < b));
    }
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

#[test]
fn an_item_that_kills_whoever_works_on_it_is_set_aside_alone() {
    set_a_killer_aside("4");
}

#[test]
fn so_is_one_that_many_were_in_hand_with() {
    set_a_killer_aside("16");
}

fn set_a_killer_aside(in_flight: &str) {
    let site = Site::with_files(40);
    fs::write(site.path("data/05/killer"), "bad").unwrap();
    // The parent of the command is the program itself.
    let script = "if grep -q bad \"$1\"; then kill -9 $PPID; sleep 1000; fi; cat \"$1\"";
    let flags =
        ["--run", "deadly", "--max-crashes", "5", "-j", "2", "--in-flight", in_flight, "--"];
    let command = [&["run", "data"], &flags[..], &["sh", "-c", script, "sh", "{}"]].concat();
    let mut deaths = 0;
    let code = loop {
        match site.run(&command).status.code() {
            Some(code) => break code,
            None => deaths += 1,
        }
        assert!(deaths < 20, "it goes on and on");
    };
    assert_eq!(code, 3);
    assert!(deaths >= 5, "it was set aside too soon");
    assert_eq!(site.keys("deadly").len(), 40);
    let parked = site.expect(0, &["parked", "deadly"]);
    assert!(parked.contains("Poisoned") && parked.contains("05/killer"), "{parked}");
    assert!(site.expect(0, &["verify", "deadly"]).contains("the receipt holds"));
    fs::write(site.path("data/05/killer"), "good").unwrap();
    site.expect(0, &["retry", "--parked", "deadly"]);
    assert_eq!(site.keys("deadly").len(), 41);
    assert!(site.expect(0, &["verify", "deadly"]).contains("the receipt holds"));
}
