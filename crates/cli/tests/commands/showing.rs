//! What is shown of runs, in words that tell them apart, and safely.

use std::fs;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::support;
use crate::support::{Site, wait_until};

/// A run whose items wait until a file is there.
const WAITING: [&str; 14] = [
    "run",
    "data",
    "--run",
    "waiting",
    "--lease",
    "1",
    "-j",
    "2",
    "--",
    "sh",
    "-c",
    "while [ ! -e go ]; do sleep 0.01; done",
    "sh",
    "{}",
];

#[test]
fn runs_that_are_worked_on_or_not_or_wait_for_a_person_are_told_apart() {
    let site = Site::with_files(8);
    let shown = |run: &str| site.expect(0, &["show", run]);
    site.expect(0, &["run", "data", "--run", "ended", "--", "cat", "{}"]);
    assert!(shown("ended").contains(", done\n"));
    site.expect(3, &["run", "data", "--run", "failing", "--retries", "0", "--", "false"]);
    assert!(shown("failing").contains(", done but for 8 parked\n"));
    let mut child = site.start(&WAITING);
    wait_until(|| site.run(&["show", "waiting"]).status.success());
    wait_until(|| shown("waiting").contains(", running (2 workers)\n"));
    kill_process_group(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    wait_until(|| shown("waiting").contains(", nobody works on it\n"));
    let told = site.expect(2, &["verify", "waiting"]);
    assert!(told.contains("the run waiting is not finished (nobody works on it)"), "{told}");
    // The newest first.
    let runs = site.expect(0, &["runs"]);
    let names: Vec<&str> = runs.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, ["waiting", "failing", "ended"], "{runs}");
    for state in ["nobody works on it", "done but for 8 parked", " s ago"] {
        assert!(runs.contains(state), "{state}: {runs}");
    }
    site.expect(0, &["cancel", "waiting"]);
    let told = shown("waiting");
    assert!(told.contains(", cancelled\n") && told.contains(" never finished"), "{told}");
    assert!(!told.contains("held"), "{told}");
    let told = site.expect(2, &["verify", "waiting"]);
    assert!(told.contains("the run waiting was cancelled"), "{told}");
}

#[test]
fn a_run_that_is_paused_is_not_waited_for() {
    let site = Site::with_files(200);
    let run = |limit: &str, flags: &[&str]| {
        let said = ["run", "data", "--run", "bad", "--retries", "0", "-j", "2", "--max-failures"];
        let script = ["--", "sh", "-c", "test -e fixed"];
        let output = site.run(&[&said, &[limit][..], flags, &script].concat());
        (output.status.code(), support::text(&output.stderr))
    };
    for flags in [&[] as &[&str], &["--fresh", "--at-dispatch"]] {
        let (code, told) = run("3", flags);
        assert_eq!(code, Some(4), "{told}");
        assert_eq!(told.contains("parked bad"), flags.is_empty(), "{told}");
        let again = flags.get(1..).unwrap_or_default();
        let (code, told) = run("1000", again);
        assert_eq!(code, Some(2), "{told}");
        assert!(told.contains("the run bad is paused; `shardwright resume bad`"), "{told}");
        site.expect(0, &["resume", "bad"]);
        let (code, told) = run("1000", again);
        assert_eq!(code, Some(3), "{told}");
    }
}

#[test]
fn results_and_receipts_that_are_gone_do_not_hold() {
    let site = Site::with_files(5);
    site.expect(0, &["run", "data", "--run", "proof", "--", "cat", "{}"]);
    for file in ["results.jsonl", "receipt.json"] {
        let path = site.results("proof").join(file);
        let kept = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let told = site.expect(1, &["verify", "proof"]);
        assert!(told.contains(&format!("{file} is gone")), "{told}");
        assert!(told.contains("proof: the receipt does not hold"), "{told}");
        fs::create_dir(&path).unwrap();
        let told = site.expect(1, &["verify", "proof"]);
        assert!(told.contains(&format!("{file} is not a file")), "{told}");
        fs::remove_dir(&path).unwrap();
        fs::write(&path, kept).unwrap();
    }
    site.expect(0, &["verify", "proof"]);
}

#[test]
fn a_row_without_a_result_is_called_by_its_number() {
    let site = Site::new();
    fs::write(site.path("rows"), "a\nb\nc\nd\n").unwrap();
    site.expect(0, &["run", "--lines", "rows", "--run", "rows", "--", "echo", "{}"]);
    let results = site.results("rows").join("results.jsonl");
    let lines = fs::read_to_string(&results).unwrap();
    let kept: Vec<&str> = lines.lines().filter(|line| !line.contains("c\\n")).collect();
    assert_eq!(kept.len(), 3, "{lines}");
    fs::write(&results, kept.join("\n") + "\n").unwrap();
    let told = site.expect(1, &["verify", "rows"]);
    assert!(told.contains("row 3 has no result"), "{told}");
}

#[test]
fn names_and_words_of_others_are_shown_and_not_obeyed() {
    let site = Site::new();
    let folder = "x\u{1b}[31mred\ny";
    fs::create_dir(site.path(folder)).unwrap();
    fs::write(site.path(folder).join("item"), "").unwrap();
    let script = "printf 'no\\033[2Jsuch\\rluck' >&2; exit 9";
    let run = ["run", folder, "--run", "odd", "--retries", "0", "--", "sh", "-c", script];
    let told = site.expect(3, &run);
    assert!(told.contains("/x\\x1b[31mred\\ny\n"), "{told}");
    let listed = ["runs", "show odd", "parked odd", "shards odd"];
    let listed = listed.map(|said| site.expect(0, &said.split(' ').collect::<Vec<_>>()));
    assert!(listed[1].contains("/x\\x1b[31mred\\ny\n"), "{}", listed[1]);
    assert!(listed[2].contains("no\\x1b[2Jsuch\\rluck"), "{}", listed[2]);
    for shown in listed.iter().chain([&told]) {
        assert!(!shown.contains('\u{1b}') && !shown.contains('\r'), "{shown:?}");
    }
}
