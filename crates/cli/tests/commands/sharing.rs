//! Processes that share a run, and failure limits over all of them.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use shardwright_store::testing::EtcdCluster;

use crate::support::{Site, keys, wait_until};

#[tokio::test]
async fn run_on_etcd_survives_the_kill_of_one_of_two_processes() {
    let cluster = EtcdCluster::single().await.unwrap();
    let store = format!("etcd://{}", cluster.address(0).unwrap());
    let site = Site::with_files(200);
    let marks = site.path("marks");
    fs::create_dir(&marks).unwrap();
    // Each command creates a file that is named by its worker's process, and takes 30 ms.
    let script = "echo > marks/$(cut -d ' ' -f 4 /proc/$PPID/stat); sleep 0.03; cat \"$1\"";
    let flags = ["--store", &store, "--run", "shared", "--out", "out", "-j", "2", "--lease", "2"];
    let command = [&["run", "data"], &flags[..], &["--", "sh", "-c", script, "sh", "{}"]].concat();
    let (mut one, mut other) = (site.start(&command), site.start(&command));
    wait_until(|| fs::read_dir(&marks).unwrap().count() == 2);
    kill_process(Pid::from_child(&one), Signal::KILL).unwrap();
    one.wait().unwrap();
    assert_eq!(other.wait().unwrap().code(), Some(0));
    assert!(site.expect(0, &["verify", "shared", "--store", &store]).contains("receipt holds"));
    let keys = keys(&site.path("out/results.jsonl"));
    assert!(keys.len() == 200 && keys.is_sorted_by(|a, b| a < b), "{}", keys.len());
    // A results folder without the marker of the run is rejected.
    fs::remove_file(site.path("out/run.json")).unwrap();
    assert!(site.expect(2, &command).contains("every worker must reach"));
}

#[test]
fn failures_are_counted_over_the_whole_run() {
    let site = Site::with_files(60);
    let script = "case $1 in *3) exit 1;; esac";
    let run = |limit: &str, code: i32| {
        let flags = ["--run", "bad", "--retries", "0", "--max-failures", limit, "--"];
        let command = [&["run", "data"], &flags[..], &["sh", "-c", script, "sh", "{}"]].concat();
        site.expect(code, &command)
    };
    // The six items whose names end with 3 fail.
    run("6", 3);
    // No item fails in this process, but the failures of the first one count.
    assert!(run("5", 4).contains("too many items failed"));
    run("20%", 3);
    // A percentage of fewer than 100 items applies after all of them were tried.
    assert!(run("5%", 4).contains("too many items failed"));
}

#[test]
fn failures_are_counted_with_at_dispatch() {
    let site = Site::with_files(60);
    let script = "case $1 in *3) exit 1;; esac";
    let flags = ["--at-dispatch", "--run", "bad", "--retries", "0", "--max-failures"];
    let command = ["--", "sh", "-c", script, "sh", "{}"];
    let run = |limit: &str, code: i32| {
        site.expect(code, &[&["run", "data"], &flags[..], &[limit], &command].concat())
    };
    assert!(run("6", 3).contains("except for 6 failed items"));
    assert!(site.expect(0, &["verify", "bad"]).contains("the receipt holds"));
    let again = ["run", "data", "--fresh"];
    let printed = site.expect(4, &[&again[..], &flags, &["1"], &command].concat());
    assert!(printed.contains("too many items failed"), "{printed}");
}
