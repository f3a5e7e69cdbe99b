//! Taking away what nobody needs any more.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

use crate::support;
use crate::support::{Site, wait_until};

fn count(folder: &Path) -> usize {
    fs::read_dir(folder).map_or(0, Iterator::count)
}

/// Leaves an index of a file of rows, as there is one of every file that has lain for a while.
fn leave_index(site: &Site, rows: &Path) {
    let path = fs::canonicalize(rows).unwrap();
    let digest = blake3::hash(path.as_os_str().as_encoded_bytes()).to_hex();
    fs::write(site.path(".shardwright/index").join(&digest[..16]), "damaged").unwrap();
}

#[test]
fn what_served_to_build_results_goes_and_the_results_stay() {
    let site = Site::with_files(5);
    let long = "head -c 100000 /dev/zero | tr '\\0' x";
    site.expect(0, &["run", "data", "--run", "tree", "--out", "out", "--", "sh", "-c", long]);
    let piped = ["run", "--lines", "-", "--run", "piped", "--", "echo", "{}"];
    site.expect_with_input(0, &piped, "a\nb\n");
    let state = site.path(".shardwright");
    for spooled in fs::read_dir(state.join("spool")).unwrap() {
        leave_index(&site, &spooled.unwrap().path());
    }
    assert_eq!((count(&state.join("spool")), count(&state.join("index"))), (1, 1));
    assert!(site.expect(0, &["gc"]).contains("nothing ended"));
    let told = site.expect(0, &["gc", "--keep-days", "0"]);
    for place in ["out/segments/", "runs/piped/segments/", "spool/", "index/"] {
        assert!(told.contains("  removed /") && told.contains(place), "{place}: {told}");
    }
    assert_eq!((count(&state.join("spool")), count(&state.join("index"))), (0, 0));
    assert_eq!(count(&site.path("out/segments")), 0);
    assert_eq!(count(&site.results("piped").join("segments")), 0);
    // What the result file names is a part of the results.
    let results = fs::read_to_string(site.path("out/results.jsonl")).unwrap();
    for line in results.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(fs::metadata(line["stdout_path"].as_str().unwrap()).unwrap().len(), 100_000);
    }
    assert_eq!(site.keys_shown("piped", "row").len(), 2);
    assert!(site.expect(0, &["runs"]).contains("there are no runs"));
}

#[test]
fn what_a_person_keeps_where_results_go_stays() {
    let site = Site::with_files(2);
    for kept in ["logs/mine", "segments/mine", "stdout/mine"] {
        fs::create_dir_all(site.path("out").join(kept).parent().unwrap()).unwrap();
        fs::write(site.path("out").join(kept), "mine").unwrap();
    }
    site.expect(0, &["run", "data", "--run", "tree", "--out", "out", "--", "cat", "{}"]);
    let told = site.expect(0, &["gc", "--keep-days", "0"]);
    assert!(told.contains("out/segments/"), "{told}");
    for kept in ["logs/mine", "segments/mine", "stdout/mine"] {
        assert_eq!(fs::read(site.path("out").join(kept)).unwrap(), b"mine", "{kept}");
    }
}

#[test]
fn a_run_that_was_taken_away_is_begun_again_by_the_same_command() {
    let site = Site::with_files(3);
    let long = "head -c 100000 /dev/zero | tr '\\0' x";
    let run = |name: &str, code: i32| {
        let said = ["run", "data", "--run", name, "--out", "out", "--", "sh", "-c", long];
        site.expect(code, &said)
    };
    run("tree", 0);
    site.expect(0, &["gc", "--keep-days", "0"]);
    // The results are still there, and nobody else may replace them.
    assert!(run("other", 2).contains("is of the run tree"));
    assert_eq!(count(&site.path("out/stdout")), 1);
    fs::write(site.path("data/new"), "new").unwrap();
    run("tree", 0);
    assert_eq!(support::keys(&site.path("out/results.jsonl")).len(), 4);
    assert!(site.expect(0, &["verify", "tree"]).contains("the receipt holds"));
    // What only the former results named is gone with them.
    assert_eq!(count(&site.path("out/stdout")), 1);
    for _ in 0..2 {
        site.expect(0, &["scan", "data"]);
        site.expect(0, &["gc", "--keep-days", "0"]);
    }
}

#[test]
fn what_others_need_stays() {
    let site = Site::new();
    fs::write(site.path("rows"), "a\nb\n").unwrap();
    let run = |name: &str, code: i32, command: &str| {
        let flags = ["run", "--lines", "rows", "--run", name, "--retries", "0", "--"];
        site.expect(code, &[&flags[..], &[command, "{}"]].concat())
    };
    run("ended", 0, "echo");
    run("unfinished", 3, "false");
    leave_index(&site, &site.path("rows"));
    let told = site.expect(0, &["gc", "--keep-days", "0", "--json"]);
    let gone: serde_json::Value = serde_json::from_str(told.lines().next().unwrap()).unwrap();
    assert_eq!(gone["name"], "ended");
    assert_eq!(gone["removed"].as_array().unwrap().len(), 1);
    assert_eq!(count(&site.path(".shardwright/index")), 1);
    run("unfinished", 3, "false");
}

#[test]
fn outputs_of_a_run_that_was_replaced_go_with_its_results() {
    let site = Site::with_files(3);
    let long = "head -c 100000 /dev/zero | tr '\\0' x";
    let run = |flags: &[&str]| {
        let said = ["run", "data", "--run", "twice"];
        site.expect(0, &[&said, flags, &["--", "sh", "-c", long]].concat())
    };
    run(&[]);
    let replaced = site.receipt("twice")["run"].as_str().unwrap().to_owned();
    run(&["--fresh"]);
    let stdout = site.results("twice").join("stdout");
    assert_eq!(count(&stdout), 1);
    // Somebody who was held up may have left some more of them.
    fs::create_dir(stdout.join(replaced)).unwrap();
    site.expect(0, &["gc", "--keep-days", "0"]);
    assert_eq!(count(&stdout), 1);
    assert!(are_there(&site, "twice"));
}

/// Whether every long output is there that the results of a run name.
fn are_there(site: &Site, name: &str) -> bool {
    let outputs = site.keys_shown(name, "stdout_path");
    outputs.iter().all(|path| Path::new(path.trim_matches('"')).exists())
}

#[test]
fn outputs_stay_while_the_run_that_replaces_theirs_has_no_results() {
    let site = Site::with_files(3);
    let script = "if [ -e hold ]; then echo > mark; sleep 1000; fi; \
                  head -c 100000 /dev/zero | tr '\\0' x";
    let begin = ["run", "data", "--run", "anew", "--fresh", "--", "sh", "-c", script];
    site.expect(0, &begin);
    let receipt = site.receipt("anew");
    fs::write(site.path("hold"), "").unwrap();
    let mut killed = site.start(&begin);
    wait_until(|| site.path("mark").exists());
    kill_process(Pid::from_child(&killed), Signal::KILL).unwrap();
    killed.wait().unwrap();
    let told = site.expect(0, &["gc", "--keep-days", "0"]);
    assert!(told.contains("anew is gone"), "{told}");
    assert_eq!(site.receipt("anew"), receipt);
    assert!(are_there(&site, "anew"));
    // They go when others have come in their place, and so does what the killed one has left.
    fs::remove_file(site.path("hold")).unwrap();
    site.expect(0, &begin);
    assert!(are_there(&site, "anew"));
    assert_eq!(count(&site.results("anew").join("stdout")), 1);
}
