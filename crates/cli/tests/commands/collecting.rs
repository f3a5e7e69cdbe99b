//! `shardwright gc`: deletes ended runs and the files that only they used.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

use crate::support;
use crate::support::{Site, wait_until};

fn count(folder: &Path) -> usize {
    fs::read_dir(folder).map_or(0, Iterator::count)
}

/// Writes an index of a file of rows. Runs write one only for files that are old enough.
fn write_index(site: &Site, rows: &Path) {
    let path = fs::canonicalize(rows).unwrap();
    let digest = blake3::hash(path.as_os_str().as_encoded_bytes()).to_hex();
    fs::write(site.path(".shardwright/index").join(&digest[..16]), "damaged").unwrap();
}

#[test]
fn gc_deletes_segments_spool_and_index_and_keeps_results() {
    let site = Site::with_files(5);
    let long = "head -c 100000 /dev/zero | tr '\\0' x";
    site.expect(0, &["run", "data", "--run", "tree", "--out", "out", "--", "sh", "-c", long]);
    let piped = ["run", "--lines", "-", "--run", "piped", "--", "echo", "{}"];
    site.expect_with_input(0, &piped, "a\nb\n");
    let state = site.path(".shardwright");
    for spooled in fs::read_dir(state.join("spool")).unwrap() {
        write_index(&site, &spooled.unwrap().path());
    }
    assert_eq!((count(&state.join("spool")), count(&state.join("index"))), (1, 1));
    assert!(site.expect(0, &["gc"]).contains("no run ended"));
    let printed = site.expect(0, &["gc", "--keep-days", "0"]);
    for place in ["out/segments/", "runs/piped/segments/", "spool/", "index/"] {
        assert!(printed.contains("  removed /") && printed.contains(place), "{place}: {printed}");
    }
    assert_eq!((count(&state.join("spool")), count(&state.join("index"))), (0, 0));
    assert_eq!(count(&site.path("out/segments")), 0);
    assert_eq!(count(&site.results("piped").join("segments")), 0);
    // The long outputs that the result file names are kept.
    let results = fs::read_to_string(site.path("out/results.jsonl")).unwrap();
    for line in results.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(fs::metadata(line["stdout_path"].as_str().unwrap()).unwrap().len(), 100_000);
    }
    assert_eq!(site.field_values("piped", "row").len(), 2);
    assert!(site.expect(0, &["runs"]).contains("no runs"));
}

#[test]
fn gc_keeps_other_files_in_the_results_folder() {
    let site = Site::with_files(2);
    for kept in ["logs/mine", "segments/mine", "stdout/mine"] {
        fs::create_dir_all(site.path("out").join(kept).parent().unwrap()).unwrap();
        fs::write(site.path("out").join(kept), "mine").unwrap();
    }
    site.expect(0, &["run", "data", "--run", "tree", "--out", "out", "--", "cat", "{}"]);
    let printed = site.expect(0, &["gc", "--keep-days", "0"]);
    assert!(printed.contains("out/segments/"), "{printed}");
    for kept in ["logs/mine", "segments/mine", "stdout/mine"] {
        assert_eq!(fs::read(site.path("out").join(kept)).unwrap(), b"mine", "{kept}");
    }
}

#[test]
fn deleted_run_is_started_again_by_the_same_command() {
    let site = Site::with_files(3);
    let long = "head -c 100000 /dev/zero | tr '\\0' x";
    let run = |name: &str, code: i32| {
        let arguments = ["run", "data", "--run", name, "--out", "out", "--", "sh", "-c", long];
        site.expect(code, &arguments)
    };
    run("tree", 0);
    site.expect(0, &["gc", "--keep-days", "0"]);
    // The results still exist, and another run cannot replace them.
    assert!(run("other", 2).contains("belongs to run tree"));
    assert_eq!(count(&site.path("out/stdout")), 1);
    fs::write(site.path("data/new"), "new").unwrap();
    run("tree", 0);
    assert_eq!(support::keys(&site.path("out/results.jsonl")).len(), 4);
    assert!(site.expect(0, &["verify", "tree"]).contains("the receipt holds"));
    // The long outputs of the first run were deleted with its results.
    assert_eq!(count(&site.path("out/stdout")), 1);
    for _ in 0..2 {
        site.expect(0, &["scan", "data"]);
        site.expect(0, &["gc", "--keep-days", "0"]);
    }
}

#[test]
fn gc_keeps_an_index_that_another_run_uses() {
    let site = Site::new();
    fs::write(site.path("rows"), "a\nb\n").unwrap();
    let run = |name: &str, code: i32, command: &str| {
        let flags = ["run", "--lines", "rows", "--run", name, "--retries", "0", "--"];
        site.expect(code, &[&flags[..], &[command, "{}"]].concat())
    };
    run("ended", 0, "echo");
    run("unfinished", 3, "false");
    write_index(&site, &site.path("rows"));
    let printed = site.expect(0, &["gc", "--keep-days", "0", "--json"]);
    let deleted: serde_json::Value = serde_json::from_str(printed.lines().next().unwrap()).unwrap();
    assert_eq!(deleted["name"], "ended");
    assert_eq!(deleted["removed"].as_array().unwrap().len(), 1);
    assert_eq!(count(&site.path(".shardwright/index")), 1);
    run("unfinished", 3, "false");
}

#[test]
fn long_outputs_of_a_replaced_run_are_deleted() {
    let site = Site::with_files(3);
    let long = "head -c 100000 /dev/zero | tr '\\0' x";
    let run = |flags: &[&str]| {
        let arguments = ["run", "data", "--run", "twice"];
        site.expect(0, &[&arguments, flags, &["--", "sh", "-c", long]].concat())
    };
    run(&[]);
    let replaced = site.receipt("twice")["run"].as_str().unwrap().to_owned();
    run(&["--fresh"]);
    let stdout = site.results("twice").join("stdout");
    assert_eq!(count(&stdout), 1);
    // A delayed worker of the replaced run may write another output later.
    fs::create_dir(stdout.join(replaced)).unwrap();
    site.expect(0, &["gc", "--keep-days", "0"]);
    assert_eq!(count(&stdout), 1);
    assert!(long_outputs_exist(&site, "twice"));
}

/// Whether every long output exists that the results of a run name.
fn long_outputs_exist(site: &Site, name: &str) -> bool {
    let outputs = site.field_values(name, "stdout_path");
    outputs.iter().all(|path| Path::new(path.trim_matches('"')).exists())
}

#[test]
fn long_outputs_stay_until_the_replacing_run_has_results() {
    let site = Site::with_files(3);
    let script = "if [ -e hold ]; then echo > mark; sleep 1000; fi; \
                  head -c 100000 /dev/zero | tr '\\0' x";
    let fresh = ["run", "data", "--run", "replaced", "--fresh", "--", "sh", "-c", script];
    site.expect(0, &fresh);
    let receipt = site.receipt("replaced");
    fs::write(site.path("hold"), "").unwrap();
    let mut killed = site.start(&fresh);
    wait_until(|| site.path("mark").exists());
    kill_process(Pid::from_child(&killed), Signal::KILL).unwrap();
    killed.wait().unwrap();
    let printed = site.expect(0, &["gc", "--keep-days", "0"]);
    assert!(printed.contains("deleted run replaced"), "{printed}");
    assert_eq!(site.receipt("replaced"), receipt);
    assert!(long_outputs_exist(&site, "replaced"));
    // New results replace them. Outputs of the killed run are deleted, too.
    fs::remove_file(site.path("hold")).unwrap();
    site.expect(0, &fresh);
    assert!(long_outputs_exist(&site, "replaced"));
    assert_eq!(count(&site.results("replaced").join("stdout")), 1);
}
