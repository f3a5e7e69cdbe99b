//! An output that nobody reads, or that cannot be written.

use std::fs;
use std::process::Stdio;

use crate::support::{Site, text};

/// What the program ends with, and tells, if its output is closed from the beginning.
fn unread(site: &Site, arguments: &[&str]) -> (Option<i32>, String) {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    ended(site, arguments, writer.into())
}

/// The same, if nothing can be written to its output.
fn full(site: &Site, arguments: &[&str]) -> (Option<i32>, String) {
    ended(site, arguments, fs::File::options().write(true).open("/dev/full").unwrap().into())
}

fn ended(site: &Site, arguments: &[&str], output: Stdio) -> (Option<i32>, String) {
    let mut command = site.command(arguments);
    let ended = command.stdout(output).stderr(Stdio::piped()).output().unwrap();
    (ended.status.code(), text(&ended.stderr))
}

const DONE: [&str; 8] = ["run", "data", "--run", "done", "--json", "--", "cat", "{}"];
const FAILS: [&str; 8] = ["run", "data", "--run", "fails", "--retries", "0", "--", "false"];

#[test]
fn a_run_goes_on_when_nobody_reads_and_ends_with_its_own_code() {
    let site = Site::with_files(40);
    assert_eq!(unread(&site, &DONE).0, Some(0));
    assert_eq!(site.keys("done").len(), 40);
    assert_eq!(unread(&site, &FAILS).0, Some(3));
    assert_eq!(site.receipt("fails")["parked"].as_array().unwrap().len(), 40);
    fs::write(site.results("done").join("results.jsonl"), "").unwrap();
    assert_eq!(unread(&site, &["verify", "done"]).0, Some(1));
    for list in [&["runs"] as &[&str], &["shards", "fails"], &["completions", "bash"], &["--help"]]
    {
        assert_eq!(unread(&site, list), (Some(0), String::new()), "{list:?}");
    }
}

#[test]
fn a_run_goes_on_when_its_output_is_full_and_says_so_at_the_end() {
    let site = Site::with_files(40);
    let is_told = |arguments: &[&str]| {
        let (code, told) = full(&site, arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {told}");
        assert!(told.contains("the output cannot be written: "), "{arguments:?}: {told}");
    };
    is_told(&DONE);
    assert_eq!(site.keys("done").len(), 40);
    is_told(&FAILS);
    assert_eq!(site.receipt("fails")["parked"].as_array().unwrap().len(), 40);
    for list in [&["verify", "done"] as &[&str], &["runs"], &["completions", "bash"], &["--help"]] {
        is_told(list);
    }
}

#[test]
fn what_a_scan_finds_is_in_its_code_and_its_report_whoever_reads() {
    let site = Site::with_files(3);
    fs::write(site.path("data/secret"), "key = AKIAIOSFODNN7EXAMPLF\n").unwrap();
    let rules = "[[rules]]\nid = 'key'\nregex = 'AKIA[A-Z0-9]{16}'\n";
    fs::write(site.path("rules.toml"), rules).unwrap();
    let scan = ["scan", "data", "--rules", "rules.toml"];
    assert_eq!(unread(&site, &[&scan[..], &["--json"]].concat()).0, Some(1));
    assert_eq!(unread(&site, &scan).0, Some(1));
    assert_eq!(full(&site, &scan).0, Some(2));
    let report = ["--json", "--report", "found.sarif", "--format", "sarif"];
    assert_eq!(full(&site, &[&scan[..], &report].concat()).0, Some(2));
    assert!(fs::read_to_string(site.path("found.sarif")).unwrap().contains("\"ruleId\""));
}
