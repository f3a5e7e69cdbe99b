//! The output of `show`, `runs`, `shards`, `parked` and `verify`.

use std::fs;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::support;
use crate::support::{Site, wait_until};

/// A run whose items wait until the file `go` exists.
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
fn show_reports_done_parked_running_interrupted_and_cancelled() {
    let site = Site::with_files(8);
    let shown = |run: &str| site.expect(0, &["show", run]);
    site.expect(0, &["run", "data", "--run", "ended", "--", "cat", "{}"]);
    assert!(shown("ended").contains(", done\n"));
    site.expect(3, &["run", "data", "--run", "failing", "--retries", "0", "--", "false"]);
    assert!(shown("failing").contains(", done, 8 parked\n"));
    let mut child = site.start(&WAITING);
    wait_until(|| site.run(&["show", "waiting"]).status.success());
    wait_until(|| shown("waiting").contains(", running (2 workers)\n"));
    kill_process_group(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    wait_until(|| shown("waiting").contains(", interrupted\n"));
    let printed = site.expect(2, &["verify", "waiting"]);
    assert!(printed.contains("run waiting is not finished (interrupted)"), "{printed}");
    // `runs` lists the newest first.
    let runs = site.expect(0, &["runs"]);
    let names: Vec<&str> = runs.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, ["waiting", "failing", "ended"], "{runs}");
    for state in ["interrupted", "done, 8 parked", " s ago"] {
        assert!(runs.contains(state), "{state}: {runs}");
    }
    site.expect(0, &["cancel", "waiting"]);
    let printed = shown("waiting");
    assert!(printed.contains(", cancelled\n") && printed.contains(" unfinished"), "{printed}");
    assert!(!printed.contains("held"), "{printed}");
    let printed = site.expect(2, &["verify", "waiting"]);
    assert!(printed.contains("run waiting was cancelled"), "{printed}");
}

#[test]
fn work_on_a_paused_run_is_rejected_at_once() {
    let site = Site::with_files(200);
    let run = |limit: &str, flags: &[&str]| {
        let arguments =
            ["run", "data", "--run", "bad", "--retries", "0", "-j", "2", "--max-failures"];
        let script = ["--", "sh", "-c", "test -e fixed"];
        let output = site.run(&[&arguments, &[limit][..], flags, &script].concat());
        (output.status.code(), support::text(&output.stderr))
    };
    for flags in [&[] as &[&str], &["--fresh", "--at-dispatch"]] {
        let (code, printed) = run("3", flags);
        assert_eq!(code, Some(4), "{printed}");
        assert_eq!(printed.contains("parked bad"), flags.is_empty(), "{printed}");
        let again = flags.get(1..).unwrap_or_default();
        let (code, printed) = run("1000", again);
        assert_eq!(code, Some(2), "{printed}");
        assert!(printed.contains("run bad is paused; `shardwright resume bad`"), "{printed}");
        site.expect(0, &["resume", "bad"]);
        let (code, printed) = run("1000", again);
        assert_eq!(code, Some(3), "{printed}");
    }
}

#[test]
fn missing_result_file_or_receipt_is_found() {
    let site = Site::with_files(5);
    site.expect(0, &["run", "data", "--run", "proof", "--", "cat", "{}"]);
    for file in ["results.jsonl", "receipt.json"] {
        let path = site.results("proof").join(file);
        let kept = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let printed = site.expect(1, &["verify", "proof"]);
        assert!(printed.contains(&format!("{file} is missing")), "{printed}");
        assert!(printed.contains("proof: the receipt does not hold"), "{printed}");
        fs::create_dir(&path).unwrap();
        let printed = site.expect(1, &["verify", "proof"]);
        assert!(printed.contains(&format!("{file} is not a file")), "{printed}");
        fs::remove_dir(&path).unwrap();
        fs::write(&path, kept).unwrap();
    }
    site.expect(0, &["verify", "proof"]);
}

#[test]
fn missing_result_is_reported_with_its_row_number() {
    let site = Site::new();
    fs::write(site.path("rows"), "a\nb\nc\nd\n").unwrap();
    site.expect(0, &["run", "--lines", "rows", "--run", "rows", "--", "echo", "{}"]);
    let results = site.results("rows").join("results.jsonl");
    let lines = fs::read_to_string(&results).unwrap();
    let kept: Vec<&str> = lines.lines().filter(|line| !line.contains("c\\n")).collect();
    assert_eq!(kept.len(), 3, "{lines}");
    fs::write(&results, kept.join("\n") + "\n").unwrap();
    let printed = site.expect(1, &["verify", "rows"]);
    assert!(printed.contains("row 3 has no result"), "{printed}");
}

#[test]
fn control_characters_in_names_and_messages_are_escaped() {
    let site = Site::new();
    let folder = "x\u{1b}[31mred\ny";
    fs::create_dir(site.path(folder)).unwrap();
    fs::write(site.path(folder).join("item"), "").unwrap();
    let script = "printf 'no\\033[2Jsuch\\rluck' >&2; exit 9";
    let run = ["run", folder, "--run", "odd", "--retries", "0", "--", "sh", "-c", script];
    let printed = site.expect(3, &run);
    assert!(printed.contains("/x\\x1b[31mred\\ny\n"), "{printed}");
    let listed = ["runs", "show odd", "parked odd", "shards odd"];
    let listed = listed.map(|command| site.expect(0, &command.split(' ').collect::<Vec<_>>()));
    assert!(listed[1].contains("/x\\x1b[31mred\\ny\n"), "{}", listed[1]);
    assert!(listed[2].contains("no\\x1b[2Jsuch\\rluck"), "{}", listed[2]);
    for shown in listed.iter().chain([&printed]) {
        assert!(!shown.contains('\u{1b}') && !shown.contains('\r'), "{shown:?}");
    }
}
