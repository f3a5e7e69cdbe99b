//! `shardwright run`: sources, results, failures and errors.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use crate::support::{Site, keys, outputs, text};

#[test]
fn finished_run_is_not_repeated_without_fresh() {
    let site = Site::with_files(40);
    let command = ["run", "data", "--run", "first", "--", "cat", "{}"];
    let printed = site.expect(0, &command);
    assert!(printed.contains("40 items"), "{printed}");
    assert_eq!(site.keys("first").len(), 40);
    let before = fs::read(site.results("first").join("results.jsonl")).unwrap();
    assert!(site.expect(0, &command).contains("is already done"));
    assert_eq!(fs::read(site.results("first").join("results.jsonl")).unwrap(), before);
    assert!(site.expect(0, &["runs"]).contains("first"));
    assert!(site.expect(0, &["show", "first"]).contains("done"));
    assert!(site.expect(0, &["shards", "first"]).contains("done"));
    assert!(site.expect(0, &["parked", "first"]).contains("no items are parked"));
    let fresh = ["run", "data", "--run", "first", "--fresh", "--", "cat", "{}"];
    assert!(site.expect(0, &fresh).contains("is done"));
    assert!(site.expect(0, &["verify", "first"]).contains("the receipt holds"));
}

#[test]
fn rows_are_processed_one_by_one_or_in_batches() {
    let site = Site::new();
    let rows: String = (0..1_000).map(|row| format!("row {row}\n")).collect();
    fs::write(site.path("rows"), &rows).unwrap();
    site.expect(0, &["run", "--lines", "rows", "--run", "batches", "--batch", "64", "--", "cat"]);
    site.expect(0, &["run", "--lines", "rows", "--run", "single", "-j", "2", "--", "echo", "{}"]);
    let stdout = |name: &str| -> String {
        let lines = fs::read_to_string(site.results(name).join("results.jsonl")).unwrap();
        assert_eq!(lines.lines().count(), 1_000);
        let values = lines.lines().map(|line| serde_json::from_str(line).unwrap());
        values
            .map(|value: serde_json::Value| value["stdout"].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    assert_eq!(stdout("batches"), rows);
    assert_eq!(stdout("single"), rows);
    for name in ["batches", "single"] {
        assert!(site.expect(0, &["verify", name]).contains("the receipt holds"));
    }
}

#[test]
fn failed_item_is_parked_with_its_stderr_and_can_be_retried() {
    let site = Site::with_files(30);
    fs::write(site.path("data/bad"), "bad").unwrap();
    let script = "if grep -q bad \"$1\"; then echo no such table >&2; exit 9; fi; cat \"$1\"";
    let command =
        ["run", "data", "--run", "mixed", "--retries", "0", "--", "sh", "-c", script, "sh", "{}"];
    let printed = site.expect(3, &command);
    assert!(printed.contains("no such table"), "{printed}");
    assert_eq!(site.keys("mixed").len(), 30);
    let parked = site.expect(0, &["parked", "mixed"]);
    assert!(parked.contains("bad") && parked.contains("exit code 9: no such table"), "{parked}");
    assert!(site.expect(0, &["verify", "mixed"]).contains("the receipt holds"));
    fs::write(site.path("data/bad"), "good").unwrap();
    site.expect(0, &["unpark", "mixed"]);
    site.expect(0, &command);
    assert_eq!(site.keys("mixed").len(), 31);
    assert!(site.expect(0, &["verify", "mixed"]).contains("the receipt holds"));
}

#[test]
fn missing_program_stops_the_run_and_parks_nothing() {
    let site = Site::with_files(40);
    for (name, flags) in [("one", &[][..]), ("many", &["--batch", "7"])] {
        let tool = site.path(&format!("{name}-tool"));
        let tool_text = tool.to_str().unwrap();
        let command = [&["run", "data", "--run", name], flags, &["--", tool_text]].concat();
        let printed = site.expect(2, &command);
        assert!(printed.contains(&format!("{tool_text} cannot be started")), "{printed}");
        assert!(site.expect(0, &["parked", name]).contains("no items are parked"));
        fs::write(&tool, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
        site.expect(0, &command);
        assert_eq!(site.keys(name).len(), 40);
        assert!(site.expect(0, &["verify", name]).contains("the receipt holds"));
    }
}

#[test]
fn too_many_failures_pause_the_run() {
    let site = Site::with_files(200);
    let printed = site.expect(
        4,
        &["run", "data", "--run", "bad", "--retries", "0", "--max-failures", "3", "--", "false"],
    );
    assert!(printed.contains("too many items failed"), "{printed}");
    assert!(site.expect(0, &["show", "bad"]).contains("paused"));
}

#[test]
fn changed_source_is_rejected_without_fresh() {
    let site = Site::new();
    fs::write(site.path("rows"), "a\nb\n").unwrap();
    let command = ["run", "--lines", "rows", "--run", "rows", "--", "echo", "{}"];
    site.expect(0, &command);
    fs::write(site.path("rows"), "a\nc\n").unwrap();
    let printed = site.expect(2, &command);
    assert!(printed.contains("--fresh"), "{printed}");
    let fresh = ["run", "--lines", "rows", "--run", "rows", "--fresh", "--", "echo", "{}"];
    site.expect(0, &fresh);
}

#[test]
fn run_over_stdin_can_be_resumed() {
    let site = Site::new();
    let run = || {
        let mut child = site
            .command(&["run", "--lines", "-", "--", "echo", "{}"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(b"one\ntwo\nthree").unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success() && output.stdout.is_empty());
        text(&output.stderr)
    };
    assert!(run().contains("3 items"));
    assert!(run().contains("is already done"));
}

#[test]
fn altered_results_and_receipts_are_found() {
    let site = Site::with_files(20);
    site.expect(0, &["run", "data", "--run", "proof", "--", "cat", "{}"]);
    let results = site.results("proof").join("results.jsonl");
    let receipt = site.results("proof").join("receipt.json");
    let lines = fs::read_to_string(&results).unwrap();
    let receipt_text = fs::read_to_string(&receipt).unwrap();
    let all: Vec<&str> = lines.lines().collect();
    let joined = |lines: &[&str]| lines.join("\n") + "\n";
    let mut doubled = all.clone();
    doubled.insert(3, all[3]);
    let altered = lines.replacen("\"stdout\":\"", "\"stdout\":\"x", 1);
    for bad in [joined(&all[1..]), joined(&doubled), altered] {
        fs::write(&results, bad).unwrap();
        site.expect(1, &["verify", "proof"]);
    }
    fs::write(&results, &lines).unwrap();
    let value: serde_json::Value = serde_json::from_str(&receipt_text).unwrap();
    for field in value.as_object().unwrap().keys() {
        let mut bad = value.clone();
        bad[field] = serde_json::json!("altered");
        fs::write(&receipt, bad.to_string()).unwrap();
        let found = site.expect(1, &["verify", "proof"]);
        assert!(found.contains(field.as_str()), "{field}: {found}");
    }
    fs::write(&receipt, &receipt_text).unwrap();
    site.expect(0, &["verify", "proof"]);
    // A file that was deleted after the run is noted, and is no finding.
    fs::remove_file(site.path("data/00/00000")).unwrap();
    let printed = site.expect(0, &["verify", "proof"]);
    assert!(printed.contains("1 items were deleted"), "{printed}");
}

#[test]
fn invalid_arguments_are_errors_and_not_panics() {
    let site = Site::with_files(1);
    for arguments in [
        &["run"] as &[&str],
        &["run", "data"],
        &["run", "nowhere", "--", "true"],
        &["run", "data", "--", ""],
        &["run", "data", "--", "{}"],
        &["run", "--lines", "nowhere", "--", "true"],
        &["run", "data", "--run", "a/b", "--", "true"],
        &["run", "data", "--max-failures", "x", "--", "true"],
        &["run", "data", "--store", "etcd://127.0.0.1:1", "--out-local", "--", "true"],
        &["run", "data", "--store", "nonsense", "--", "true"],
        &["show", "nothing"],
        &["verify", "nothing"],
        &["unpark", "nothing", "zz"],
        &["frobnicate"],
    ] {
        let output = site.run(arguments);
        let printed = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {printed}");
        assert!(printed.contains("error:"), "{arguments:?}: {printed}");
        assert!(!printed.contains("panicked"), "{arguments:?}: {printed}");
    }
}

#[test]
fn out_sets_the_location_of_results() {
    let site = Site::with_files(5);
    site.expect(0, &["run", "data", "--run", "there", "--out", "out", "--", "cat", "{}"]);
    assert_eq!(keys(&site.path("out/results.jsonl")).len(), 5);
    assert!(site.expect(0, &["verify", "there"]).contains("the receipt holds"));
    let printed =
        site.expect(2, &["run", "data", "--run", "other", "--out", "out", "--", "wc", "{}"]);
    assert!(printed.contains("belongs to run there"), "{printed}");
}

#[test]
fn closed_stdout_is_no_error() {
    let site = Site::with_files(40);
    site.expect(0, &["run", "data", "--run", "many", "--shards", "200", "--", "cat", "{}"]);
    for arguments in [&["shards", "many", "--json"][..], &["completions", "zsh"]] {
        let mut child =
            site.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(!text(&output.stderr).contains("panicked"), "{}", text(&output.stderr));
        assert_eq!(output.status.code(), Some(0));
    }
}

#[test]
fn command_gets_paths_that_begin_with_the_source_as_given() {
    let site = Site::with_files(3);
    for (name, source) in [("plain", "data"), ("dotted", "./data/")] {
        site.expect(0, &["run", source, "--run", name, "--", "echo", "{}"]);
        for (key, output) in outputs(&site.results(name).join("results.jsonl")) {
            let given = source.trim_end_matches('/');
            assert_eq!(output, format!("{given}/{key}\n"));
        }
        assert!(site.expect(0, &["verify", name]).contains("the receipt holds"));
    }
}

#[test]
fn rows_are_reported_by_their_numbers() {
    let site = Site::new();
    fs::write(site.path("rows"), "a\nb\nc\nd\n").unwrap();
    let script = "test $1 != c";
    let flags = ["--run", "rows", "--shards", "1", "--retries", "0", "-j", "1", "--"];
    let command =
        [&["run", "--lines", "rows"], &flags[..], &["sh", "-c", script, "sh", "{}"]].concat();
    assert!(site.expect(3, &command).contains("row 3: exit code 1"));
    assert!(site.expect(0, &["parked", "rows"]).contains("row 3: exit code 1"));
    let shards = site.expect(0, &["shards", "rows"]);
    assert!(shards.contains("row 1 .. row 2 .. row 4"), "{shards}");
    assert!(shards.contains("row 4 .. row 4 .. row 5"), "{shards}");
    let results = fs::read_to_string(site.results("rows").join("results.jsonl")).unwrap();
    let rows: Vec<u64> = results
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|line| line["row"].as_u64().unwrap())
        .collect();
    assert_eq!(rows, [1, 2, 4]);
}

#[test]
fn retry_needs_no_command() {
    let site = Site::with_files(20);
    fs::write(site.path("data/bad"), "bad").unwrap();
    assert!(site.expect(2, &["retry", "--parked"]).contains("no run"));
    let script = "! grep -q bad \"$1\" && echo $1";
    let flags = ["--run", "mixed", "--retries", "0", "--"];
    let command = [&["run", "data"], &flags[..], &["sh", "-c", script, "sh", "{}"]].concat();
    site.expect(3, &command);
    site.expect(3, &["retry", "--parked", "--retries", "0"]);
    fs::write(site.path("data/bad"), "good").unwrap();
    let printed = site.expect(0, &["retry", "--parked", "mixed"]);
    assert!(printed.contains("unparked 1 shard\n") && printed.contains("is done"), "{printed}");
    assert_eq!(site.keys("mixed").len(), 21);
    assert!(site.expect(0, &["verify", "mixed"]).contains("the receipt holds"));
    site.expect(2, &["retry", "mixed"]);
}

#[test]
fn late_item_fails_and_can_be_retried_with_more_time() {
    let site = Site::with_files(3);
    let script = "[ \"$(cat \"$1\")\" = 1 ] && until [ -e go ]; do sleep 0.01; done; echo done";
    let flags = ["--run", "late", "--retries", "0", "--timeout", "300ms", "--kill-after", "0"];
    let command = [&["run", "data"], &flags[..], &["--", "sh", "-c", script, "sh"]].concat();
    let printed = site.expect(3, &command);
    assert!(printed.contains("timed out after 300 ms"), "{printed}");
    assert_eq!(site.keys("late").len(), 2);
    // The run has the limit, also where it is retried without one.
    let retry = ["retry", "--parked", "late", "--retries", "0"];
    assert!(site.expect(3, &retry).contains("timed out after 300 ms"));
    fs::write(site.path("go"), "").unwrap();
    site.expect(0, &[&retry[..], &["--timeout", "1h"]].concat());
    assert_eq!(site.keys("late").len(), 3);
    for wrong in ["0", "5x", "-1s"] {
        let printed = site.expect(2, &["run", "data", &format!("--timeout={wrong}"), "--", "true"]);
        assert!(printed.contains("--timeout"), "{printed}");
    }
}
