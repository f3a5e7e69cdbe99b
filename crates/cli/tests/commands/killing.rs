//! Runs resume after any kill, with complete results.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use shardwright_store::testing::EtcdSetup;

use crate::support::{Site, keys, text, wait_until};

/// Kills the child unless it exits within the timeout. Returns whether it was killed.
fn kill_after(child: &mut std::process::Child, timeout: Duration) -> bool {
    let start = Instant::now();
    while start.elapsed() < timeout {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    // The process group contains only the program. Its children have groups of their own.
    let group = rustix::process::Pid::from_child(child);
    rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
    child.wait().unwrap();
    true
}

#[test]
fn run_killed_once_commits_each_item_once() {
    // Each kill has its own run, so that the results are verified after each.
    kill_and_resume(50, 1, 120, &["-j", "3", "--in-flight", "2", "--", "cat", "{}"]);
}

#[test]
fn run_killed_12_times_commits_each_item_once() {
    kill_and_resume(12, 12, 400, &["-j", "3", "--in-flight", "2", "--", "cat", "{}"]);
}

#[test]
fn killed_run_with_persistent_workers_commits_each_item_once() {
    let worker = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/persistent_worker.sh");
    let flags = ["-j", "3", "--persistent", "--in-flight", "16", "--", "sh"];
    kill_and_resume(12, 12, 400, &[&flags[..], &[worker.to_str().unwrap()]].concat());
}

/// Kills the program at random moments until it was killed `wanted` times. A run is killed at most
/// `most_in_a_run` times. Then it is resumed and verified.
fn kill_and_resume(wanted: usize, most_in_a_run: usize, files: usize, flags: &[&str]) {
    // Frequent kills look like an item that crashes its worker, so the limit is high.
    let arguments = ["run", "data", "--run", "killed", "--max-crashes", "1000"];
    let command = [&arguments[..], flags].concat();
    let mut kills = 0;
    while kills < wanted {
        let site = Site::with_files(files);
        let most = most_in_a_run.min(wanted - kills);
        for left in (0..=most).rev() {
            let mut child = site.start(&command);
            let timeout = if left > 0 { fastrand::u64(5..250) } else { 120_000 };
            if !kill_after(&mut child, Duration::from_millis(timeout)) {
                break;
            }
            kills += 1;
        }
        site.expect(0, &command);
        let printed = site.expect(0, &["verify", "killed"]);
        assert!(printed.contains("the receipt holds"), "{printed}");
        let keys = site.keys("killed");
        assert_eq!(keys.len(), files);
        assert!(keys.is_sorted_by(|a, b| a < b));
    }
}

/// Starts a run with a long lease, kills it while it holds shards, and returns its arguments.
fn kill_with_a_long_lease(site: &Site, store: &[&str]) -> Vec<String> {
    // The first attempt of each item outlasts the test.
    let script = "if [ -e go ]; then cat \"$1\"; else sleep 1000; fi";
    let run = ["run", "data", "--run", "killed", "--out", "out", "--lease", "600", "-j", "2"];
    let run = [&run[..], store, &["--", "sh", "-c", script, "sh", "{}"]].concat();
    let mut child = site.start(&run);
    wait_until(|| held_shards(site, store) == Some(2));
    assert_eq!(state_of_run(site, store), "running");
    let group = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
    child.wait().unwrap();
    fs::write(site.path("go"), "").unwrap();
    run.into_iter().map(str::to_owned).collect()
}

/// The number of shards that `shards` shows as held; none if there is no run yet.
fn held_shards(site: &Site, store: &[&str]) -> Option<usize> {
    let output = site.run(&[&["shards", "killed", "--json"], store].concat());
    let lines = text(&output.stdout);
    let shards = lines.lines().map(|line| serde_json::from_str(line).unwrap());
    let is_held = |shard: &serde_json::Value| shard["held"] == true;
    output.status.success().then(|| shards.filter(is_held).count())
}

/// The state that `runs` shows for the only run.
fn state_of_run(site: &Site, store: &[&str]) -> String {
    let printed = site.expect(0, &[&["runs", "--json"], store].concat());
    let run: serde_json::Value = serde_json::from_str(&printed).unwrap();
    run["state"].as_str().unwrap().to_owned()
}

/// Repeats the killed run, and requires the results of all its items.
fn resume(site: &Site, command: &[String], files: usize) {
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    site.expect(0, &command);
    assert_eq!(keys(&site.path("out/results.jsonl")).len(), files);
}

#[test]
fn killed_run_with_a_long_lease_is_shown_and_resumed_at_once() {
    let site = Site::with_files(20);
    let command = kill_with_a_long_lease(&site, &[]);
    assert_eq!(held_shards(&site, &[]), Some(0));
    assert_eq!(state_of_run(&site, &[]), "interrupted");
    let start = Instant::now();
    resume(&site, &command, 20);
    assert!(start.elapsed() < Duration::from_secs(60), "the lease was waited for");
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_run_on_etcd_is_shown_as_held_until_its_session_ends() {
    let cluster = EtcdSetup::members(1).start().await.unwrap();
    let address = format!("etcd://{}", cluster.address(0).unwrap());
    let store = ["--store", address.as_str()];
    let site = Site::with_files(20);
    let command = kill_with_a_long_lease(&site, &store);
    // The session outlives its process by at most its TTL, which is far shorter than the lease.
    wait_until(|| held_shards(&site, &store) == Some(0));
    assert_eq!(state_of_run(&site, &store), "interrupted");
    resume(&site, &command, 20);
}

#[test]
fn kill_of_the_program_ends_its_children() {
    let site = Site::with_files(4);
    let marks = site.path("marks");
    fs::create_dir(&marks).unwrap();
    // Each child writes its process id, and then outlasts the test unless it is killed.
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
fn item_that_kills_its_worker_is_parked_alone_of_4_in_flight() {
    expect_only_the_killer_is_parked("4");
}

#[test]
fn item_that_kills_its_worker_is_parked_alone_of_16_in_flight() {
    expect_only_the_killer_is_parked("16");
}

fn expect_only_the_killer_is_parked(in_flight: &str) {
    let site = Site::with_files(40);
    fs::write(site.path("data/05/killer"), "bad").unwrap();
    // The parent of the command is a guard, whose parent is the program itself.
    let kill = "kill -9 $(cut -d ' ' -f 4 /proc/$PPID/stat)";
    let script = format!("if grep -q bad \"$1\"; then {kill}; sleep 1000; fi; cat \"$1\"");
    let flags =
        ["--run", "deadly", "--max-crashes", "5", "-j", "2", "--in-flight", in_flight, "--"];
    let command = [&["run", "data"], &flags[..], &["sh", "-c", &script, "sh", "{}"]].concat();
    let mut crashes = 0;
    let code = loop {
        match site.run(&command).status.code() {
            Some(code) => break code,
            None => crashes += 1,
        }
        assert!(crashes < 20, "the item is never parked");
    };
    assert_eq!(code, 3);
    assert!(crashes >= 5, "the item was parked too early");
    assert_eq!(site.keys("deadly").len(), 40);
    let parked = site.expect(0, &["parked", "deadly"]);
    assert!(parked.contains("Poisoned") && parked.contains("05/killer"), "{parked}");
    assert!(site.expect(0, &["verify", "deadly"]).contains("the receipt holds"));
    fs::write(site.path("data/05/killer"), "good").unwrap();
    site.expect(0, &["retry", "--parked", "deadly"]);
    assert_eq!(site.keys("deadly").len(), 41);
    assert!(site.expect(0, &["verify", "deadly"]).contains("the receipt holds"));
}
