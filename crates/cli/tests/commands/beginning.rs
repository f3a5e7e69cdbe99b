//! When a run begins, and what `--dry-run` shows.

use std::fs;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Site, text, wait_until};

fn stdout(site: &Site, arguments: &[&str]) -> Vec<String> {
    let output = site.run(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn dry_run_prints_the_first_commands_and_changes_nothing() {
    let site = Site::new();
    for name in ["a b", "it's", "n\nl", "p1", "p2", "p3", "p4"] {
        fs::write(site.path("data").join(name), "x").unwrap();
    }
    let command = ["run", "data", "--run", "it", "--shards", "3", "--dry-run", "--", "wc", "-c"];
    let lines = stdout(&site, &command);
    let expected = ["wc -c 'data/a b'", r"wc -c 'data/it'\''s'", r"wc -c $'data/n\nl'"];
    assert_eq!(lines[..3], expected);
    assert_eq!(lines[3..5], ["wc -c data/p1", "wc -c data/p2"]);
    let source = site.path("data").canonicalize().unwrap();
    let source = source.display();
    assert_eq!(
        lines[5..],
        [format!("run it would process 7 items of {source} in 3 shards; nothing was run")]
    );
    assert!(!site.path(".shardwright").exists());
    let json = site.run(&[&["--json"], &command[..]].concat());
    let event: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&event["items"], &event["shards"]), (&7.into(), &3.into()));
    assert_eq!(event["commands"][2]["command"][2], "data/n\nl");
    assert!(!site.path(".shardwright").exists());
}

#[test]
fn dry_run_shows_batches_of_any_source() {
    let site = Site::new();
    let rows: String = (1..=10).map(|row| format!("{row}\n")).collect();
    fs::write(site.path("rows"), &rows).unwrap();
    let flags = ["--shards", "1", "--batch", "4", "--dry-run", "--"];
    let printed = stdout(&site, &[&["run", "rows"], &flags[..], &["rm", "{}"]].concat());
    let expected = ["rm 1 2 3 …  # 4 items", "rm 5 6 7 …  # 4 items", "rm 9 10  # 2 items"];
    assert_eq!(printed[..3], expected);
    let mut child = site
        .command(&[&["run", "-"], &flags[..], &["wc", "-l"]].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(rows.as_bytes()).unwrap();
    let printed = text(&child.wait_with_output().unwrap().stdout);
    assert!(printed.starts_with("wc -l  # 4 items on stdin: 1 2 3 …\n"), "{printed}");
    assert!(printed.contains("10 items of the rows of a pipe in 1 shards"), "{printed}");
    assert!(!site.path(".shardwright").exists());
}

#[test]
fn dry_run_fills_placeholders_and_quotes_shell_lines() {
    let site = Site::new();
    fs::write(site.path("data/it's.txt"), "x").unwrap();
    fs::write(site.path("rows"), "a\nb\n").unwrap();
    let flags = ["run", "data", "--dry-run"];
    let command = ["--", "cp", "{}", "{//}/{/.}.{%}"];
    let printed = stdout(&site, &[&flags[..], &command[..]].concat());
    assert_eq!(printed[0], r"cp 'data/it'\''s.txt' 'data/it'\''s.1'");
    let printed =
        stdout(&site, &["run", "rows", "--shards", "1", "--dry-run", "--", "echo", "{#}"]);
    assert_eq!(printed[..2], ["echo 1", "echo 2"]);
    let printed = stdout(&site, &[&flags[..], &["-I", "X", "--", "cat", "X", "{}"]].concat());
    assert_eq!(printed[0], r"cat 'data/it'\''s.txt' {}");
    let line = ["--shell", "cat {} | wc -c"];
    let shown = stdout(&site, &[&flags[..], &line[..]].concat()).remove(0);
    assert!(shown.starts_with("/bin/sh -c ") && shown.ends_with(r" 'data/it'\''s.txt'"), "{shown}");
    // What is shown does what the run would do.
    let ran = Command::new("sh").args(["-c", &shown]).current_dir(site.path("")).output().unwrap();
    assert_eq!(text(&ran.stdout).trim(), "1", "{shown}");
    site.expect(2, &[&flags[..], &["--", "echo", "{#}"]].concat());
    assert!(!site.path(".shardwright").exists());
}

#[test]
fn dry_run_of_an_existing_run_reports_what_would_happen() {
    let site = Site::with_files(3);
    let run = |flags: &[&'static str], command: &[&'static str]| {
        [&["run", "data", "--run", "it"], flags, &["--"], command].concat()
    };
    site.expect(0, &run(&[], &["cat", "{}"]));
    let before = site.keys("it");
    let printed = site.expect(0, &run(&["--dry-run"], &["cat", "{}"]));
    assert!(printed.contains("run it exists and would be resumed"), "{printed}");
    let printed = site.expect(2, &run(&["--dry-run"], &["wc", "{}"]));
    assert!(printed.contains("was started with another command"), "{printed}");
    let printed = site.expect(0, &run(&["--dry-run", "--fresh"], &["wc", "{}"]));
    assert!(printed.contains("run it would process 3 items"), "{printed}");
    assert_eq!(site.keys("it"), before);
}

/// A run that waits until the file `go` exists.
fn waiting_run(site: &Site) -> Child {
    let script = "while ! test -e go; do sleep 0.01; done; cat \"$1\"";
    let command = ["run", "data", "--run", "first", "--", "sh", "-c", script, "_", "{}"];
    let mut command = site.command(&command);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until(|| site.run(&["show", "first"]).status.success());
    child
}

#[test]
fn run_begins_after_another_is_complete() {
    let site = Site::with_files(5);
    let mut first = waiting_run(&site);
    let results = site.results("first").join("results.jsonl");
    // The source is what the first run writes.
    let source = results.to_str().unwrap();
    let command = ["run", source, "--run", "second", "--after", "first", "--", "echo", "{}"];
    let mut second =
        site.command(&command).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = std::io::BufReader::new(second.stderr.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut stderr, &mut line).unwrap();
    assert!(line.starts_with("waiting for run first, which is "), "{line}");
    assert!(site.expect(2, &["show", "second"]).contains("no run second"));
    fs::write(site.path("go"), "").unwrap();
    assert!(first.wait().unwrap().success() && second.wait().unwrap().success());
    assert_eq!(site.field_values("second", "row").len(), 5);
    // It is complete already.
    let third = ["run", "data", "--after", "first", "--after", "second", "--", "true"];
    assert!(!site.expect(0, &third).contains("waiting"));
}

#[test]
fn run_that_cannot_be_completed_is_not_waited_for() {
    let site = Site::with_files(3);
    let after = |name: &str| site.expect(2, &["run", "data", "--after", name, "--", "true"]);
    assert!(after("nothing").contains("no runs in"));
    assert!(!site.path(".shardwright").exists());
    site.expect(3, &["run", "data", "--run", "parked", "--retries", "0", "--", "false"]);
    assert!(after("nothing").contains("no run nothing; `shardwright runs` lists"));
    assert!(after("parked").contains("run parked is not complete: 3 of its items are parked"));
    site.expect(0, &["cancel", "parked"]);
    assert!(after("parked").contains("run parked was cancelled"));
    let itself = ["run", "data", "--run", "it", "--after", "it", "--", "true"];
    assert!(site.expect(2, &itself).contains("a run cannot begin after itself"));
    assert!(!site.results("it").exists());
}

#[test]
fn waiting_for_another_run_can_be_interrupted() {
    let site = Site::with_files(3);
    let mut first = waiting_run(&site);
    let command = ["run", "data", "--run", "second", "--after", "first", "--", "true"];
    let mut second =
        site.command(&command).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = std::io::BufReader::new(second.stderr.take().unwrap());
    std::io::BufRead::read_line(&mut stderr, &mut String::new()).unwrap();
    kill_process(Pid::from_child(&second), Signal::INT).unwrap();
    assert_eq!(second.wait().unwrap().signal(), Some(Signal::INT.as_raw()));
    fs::write(site.path("go"), "").unwrap();
    assert!(first.wait().unwrap().success());
    assert!(site.expect(2, &["show", "second"]).contains("no run second"));
}
