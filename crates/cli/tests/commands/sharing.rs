//! Several processes, one run.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use shardwright_store::testing::EtcdCluster;

use crate::support::{Site, keys, wait_until};

#[tokio::test]
async fn two_processes_share_a_run_on_etcd_and_one_goes_on_when_the_other_is_killed() {
    let cluster = EtcdCluster::single().await.unwrap();
    let store = format!("etcd://{}", cluster.address(0).unwrap());
    let site = Site::with_files(200);
    let marks = site.path("marks");
    fs::create_dir(&marks).unwrap();
    // Each command says whose child it is, and takes its time.
    let script = "echo > marks/$PPID; sleep 0.03; cat \"$1\"";
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
    // A place that is not the one of the run is refused.
    fs::remove_file(site.path("out/run.json")).unwrap();
    assert!(site.expect(2, &command).contains("every worker has to reach"));
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
    // Six end with a three, and all of them fail.
    run("6", 3);
    // Nothing fails in this process: what failed before counts.
    assert!(run("5", 4).contains("too many items failed"));
    run("20%", 3);
    // There are too few for a percentage to mean something, until there are no more.
    assert!(run("5%", 4).contains("too many items failed"));
}

#[test]
fn where_nothing_can_be_set_aside_failures_are_counted_all_the_same() {
    let site = Site::with_files(60);
    let script = "case $1 in *3) exit 1;; esac";
    let flags = ["--at-dispatch", "--run", "bad", "--retries", "0", "--max-failures"];
    let command = ["--", "sh", "-c", script, "sh", "{}"];
    let run = |limit: &str, code: i32| {
        site.expect(code, &[&["run", "data"], &flags[..], &[limit], &command].concat())
    };
    assert!(run("6", 3).contains("6 failed"));
    assert!(site.expect(0, &["verify", "bad"]).contains("the receipt holds"));
    let again = ["run", "data", "--fresh"];
    let told = site.expect(4, &[&again[..], &flags, &["1"], &command].concat());
    assert!(told.contains("too many items failed"), "{told}");
}
