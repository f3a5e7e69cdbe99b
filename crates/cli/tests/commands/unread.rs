//! Stdout that is closed, or that cannot be written.

use std::fs;
use std::process::Stdio;

use crate::support::{Site, text};

/// The exit code and stderr of the program if its stdout is closed from the start.
fn with_closed_stdout(site: &Site, arguments: &[&str]) -> (Option<i32>, String) {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    with_stdout(site, arguments, writer.into())
}

/// The exit code and stderr of the program if every write to stdout fails.
fn with_full_stdout(site: &Site, arguments: &[&str]) -> (Option<i32>, String) {
    with_stdout(site, arguments, fs::File::options().write(true).open("/dev/full").unwrap().into())
}

fn with_stdout(site: &Site, arguments: &[&str], stdout: Stdio) -> (Option<i32>, String) {
    let mut command = site.command(arguments);
    let output = command.stdout(stdout).stderr(Stdio::piped()).output().unwrap();
    (output.status.code(), text(&output.stderr))
}

const DONE: [&str; 8] = ["run", "data", "--run", "done", "--json", "--", "cat", "{}"];
const FAILS: [&str; 9] =
    ["run", "data", "--run", "fails", "--retries", "0", "--json", "--", "false"];

#[test]
fn closed_stdout_does_not_stop_the_run_or_change_its_exit_code() {
    let site = Site::with_files(40);
    assert_eq!(with_closed_stdout(&site, &DONE).0, Some(0));
    assert_eq!(site.keys("done").len(), 40);
    assert_eq!(with_closed_stdout(&site, &FAILS).0, Some(3));
    assert_eq!(site.receipt("fails")["parked"].as_array().unwrap().len(), 40);
    fs::write(site.results("done").join("results.jsonl"), "").unwrap();
    assert_eq!(with_closed_stdout(&site, &["verify", "done"]).0, Some(1));
    for list in [&["runs"] as &[&str], &["shards", "fails"], &["completions", "bash"], &["--help"]]
    {
        assert_eq!(with_closed_stdout(&site, list), (Some(0), String::new()), "{list:?}");
    }
}

#[test]
fn full_stdout_does_not_stop_the_run_and_is_an_error_at_the_end() {
    let site = Site::with_files(40);
    let expect_error = |arguments: &[&str]| {
        let (code, printed) = with_full_stdout(&site, arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {printed}");
        assert!(printed.contains("cannot write to stdout: "), "{arguments:?}: {printed}");
    };
    expect_error(&DONE);
    assert_eq!(site.keys("done").len(), 40);
    expect_error(&FAILS);
    assert_eq!(site.receipt("fails")["parked"].as_array().unwrap().len(), 40);
    for list in [&["verify", "done"] as &[&str], &["runs"], &["completions", "bash"], &["--help"]] {
        expect_error(list);
    }
}

#[test]
fn scan_writes_its_report_if_stdout_is_closed_or_full() {
    let site = Site::with_files(3);
    fs::write(site.path("data/secret"), "key = AKIAIOSFODNN7EXAMPLF\n").unwrap();
    let rules = "[[rules]]\nid = 'key'\nregex = 'AKIA[A-Z0-9]{16}'\n";
    fs::write(site.path("rules.toml"), rules).unwrap();
    let scan = ["scan", "data", "--rules", "rules.toml"];
    assert_eq!(with_closed_stdout(&site, &[&scan[..], &["--json"]].concat()).0, Some(1));
    assert_eq!(with_closed_stdout(&site, &scan).0, Some(1));
    assert_eq!(with_full_stdout(&site, &scan).0, Some(2));
    let report = ["--json", "--report", "found.sarif", "--format", "sarif"];
    assert_eq!(with_full_stdout(&site, &[&scan[..], &report].concat()).0, Some(2));
    assert!(fs::read_to_string(site.path("found.sarif")).unwrap().contains("\"ruleId\""));
}
