//! What a person does with the program, and gets to see.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use crate::support::{Site, keys, outputs, text};

#[test]
fn a_run_is_done_once_and_says_so_when_asked_again() {
    let site = Site::with_files(40);
    let command = ["run", "data", "--run", "first", "--", "cat", "{}"];
    let told = site.expect(0, &command);
    assert!(told.contains("40 keys"), "{told}");
    assert_eq!(site.keys("first").len(), 40);
    let before = fs::read(site.results("first").join("results.jsonl")).unwrap();
    assert!(site.expect(0, &command).contains("was done before"));
    assert_eq!(fs::read(site.results("first").join("results.jsonl")).unwrap(), before);
    assert!(site.expect(0, &["runs"]).contains("first"));
    assert!(site.expect(0, &["show", "first"]).contains("done"));
    assert!(site.expect(0, &["shards", "first"]).contains("done"));
    assert!(site.expect(0, &["parked", "first"]).contains("nothing is parked"));
    let fresh = ["run", "data", "--run", "first", "--fresh", "--", "cat", "{}"];
    assert!(site.expect(0, &fresh).contains("is done"));
    assert!(site.expect(0, &["verify", "first"]).contains("the receipt holds"));
}

#[test]
fn rows_come_from_a_file_or_a_pipe_one_by_one_or_in_batches() {
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
            .map(|value: serde_json::Value| value["stdout"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(stdout("batches"), rows);
    assert_eq!(stdout("single"), rows);
    for name in ["batches", "single"] {
        assert!(site.expect(0, &["verify", name]).contains("the receipt holds"));
    }
}

#[test]
fn a_failing_item_is_parked_with_what_it_said_and_can_be_tried_again() {
    let site = Site::with_files(30);
    fs::write(site.path("data/bad"), "bad").unwrap();
    let script = "if grep -q bad \"$1\"; then echo no such luck >&2; exit 9; fi; cat \"$1\"";
    let command =
        ["run", "data", "--run", "mixed", "--retries", "0", "--", "sh", "-c", script, "sh", "{}"];
    let told = site.expect(3, &command);
    assert!(told.contains("no such luck"), "{told}");
    assert_eq!(site.keys("mixed").len(), 30);
    let parked = site.expect(0, &["parked", "mixed"]);
    assert!(parked.contains("bad") && parked.contains("exit code 9: no such luck"), "{parked}");
    assert!(site.expect(0, &["verify", "mixed"]).contains("the receipt holds"));
    fs::write(site.path("data/bad"), "good").unwrap();
    site.expect(0, &["unpark", "mixed"]);
    site.expect(0, &command);
    assert_eq!(site.keys("mixed").len(), 31);
    assert!(site.expect(0, &["verify", "mixed"]).contains("the receipt holds"));
}

#[test]
fn a_program_that_is_not_there_stops_the_run_and_is_waited_for() {
    let site = Site::with_files(40);
    for (name, flags) in [("one", &[][..]), ("many", &["--batch", "7"])] {
        let tool = site.path(&format!("{name}-tool"));
        let tool_text = tool.to_str().unwrap();
        let command = [&["run", "data", "--run", name], flags, &["--", tool_text]].concat();
        let told = site.expect(2, &command);
        assert!(told.contains(&format!("{tool_text} cannot be started")), "{told}");
        assert!(site.expect(0, &["parked", name]).contains("nothing is parked"));
        fs::write(&tool, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
        site.expect(0, &command);
        assert_eq!(site.keys(name).len(), 40);
        assert!(site.expect(0, &["verify", name]).contains("the receipt holds"));
    }
}

#[test]
fn too_many_failures_stop_the_run() {
    let site = Site::with_files(200);
    let told = site.expect(
        4,
        &["run", "data", "--run", "bad", "--retries", "0", "--max-failures", "3", "--", "false"],
    );
    assert!(told.contains("too many items failed"), "{told}");
    assert!(site.expect(0, &["show", "bad"]).contains("paused"));
}

#[test]
fn a_source_that_has_changed_is_not_gone_on_with() {
    let site = Site::new();
    fs::write(site.path("rows"), "a\nb\n").unwrap();
    let command = ["run", "--lines", "rows", "--run", "rows", "--", "echo", "{}"];
    site.expect(0, &command);
    fs::write(site.path("rows"), "a\nc\n").unwrap();
    let told = site.expect(2, &command);
    assert!(told.contains("--fresh"), "{told}");
    let fresh = ["run", "--lines", "rows", "--run", "rows", "--fresh", "--", "echo", "{}"];
    site.expect(0, &fresh);
}

#[test]
fn a_pipe_is_kept_so_that_it_can_be_gone_on_with() {
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
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    assert!(run().contains("3 keys"));
    assert!(run().contains("was done before"));
}

#[test]
fn what_was_tampered_with_is_found() {
    let site = Site::with_files(20);
    site.expect(0, &["run", "data", "--run", "proof", "--", "cat", "{}"]);
    let results = site.results("proof").join("results.jsonl");
    let receipt = site.results("proof").join("receipt.json");
    let (lines, told) =
        (fs::read_to_string(&results).unwrap(), fs::read_to_string(&receipt).unwrap());
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
    let value: serde_json::Value = serde_json::from_str(&told).unwrap();
    for field in value.as_object().unwrap().keys() {
        let mut bad = value.clone();
        bad[field] = serde_json::json!("something else");
        fs::write(&receipt, bad.to_string()).unwrap();
        let found = site.expect(1, &["verify", "proof"]);
        assert!(found.contains(field.as_str()), "{field}: {found}");
    }
    fs::write(&receipt, &told).unwrap();
    site.expect(0, &["verify", "proof"]);
    // A tree may change afterwards: what has gone since is told, and is no fault of the run.
    fs::remove_file(site.path("data/00/00000")).unwrap();
    let told = site.expect(0, &["verify", "proof"]);
    assert!(told.contains("1 items have gone"), "{told}");
}

#[test]
fn nothing_that_can_be_typed_ends_in_a_panic() {
    let site = Site::with_files(1);
    for arguments in [
        &["run"] as &[&str],
        &["run", "data"],
        &["run", "nowhere", "--", "true"],
        &["run", "data", "--", ""],
        &["run", "data", "--", "{}"],
        &["run", "--lines", "nowhere", "--", "true"],
        &["run", "data/00/00000", "--", "true"],
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
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {told}");
        assert!(told.contains("error:"), "{arguments:?}: {told}");
        assert!(!told.contains("panicked"), "{arguments:?}: {told}");
    }
}

#[test]
fn output_goes_where_it_was_told_to() {
    let site = Site::with_files(5);
    site.expect(0, &["run", "data", "--run", "there", "--out", "out", "--", "cat", "{}"]);
    assert_eq!(keys(&site.path("out/results.jsonl")).len(), 5);
    assert!(site.expect(0, &["verify", "there"]).contains("the receipt holds"));
    let told = site.expect(2, &["run", "data", "--run", "other", "--out", "out", "--", "wc", "{}"]);
    assert!(told.contains("is of the run there"), "{told}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_trouble() {
    let site = Site::with_files(40);
    site.expect(0, &["run", "data", "--run", "many", "--shards", "200", "--", "cat", "{}"]);
    for arguments in [&["shards", "many", "--json"][..], &["completions", "zsh"]] {
        let mut child =
            site.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Nobody reads what it writes.
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(!text(&output.stderr).contains("panicked"), "{}", text(&output.stderr));
        assert_eq!(output.status.code(), Some(0));
    }
}

#[test]
fn commands_get_paths_as_the_source_was_given() {
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
fn rows_are_called_by_their_numbers() {
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
fn what_is_parked_is_tried_again_without_a_command_line() {
    let site = Site::with_files(20);
    fs::write(site.path("data/bad"), "bad").unwrap();
    assert!(site.expect(2, &["retry", "--parked"]).contains("no run"));
    let script = "! grep -q bad \"$1\" && echo $1";
    let flags = ["--run", "mixed", "--retries", "0", "--"];
    let command = [&["run", "data"], &flags[..], &["sh", "-c", script, "sh", "{}"]].concat();
    site.expect(3, &command);
    site.expect(3, &["retry", "--parked", "--retries", "0"]);
    fs::write(site.path("data/bad"), "good").unwrap();
    let told = site.expect(0, &["retry", "--parked", "mixed"]);
    assert!(told.contains("1 unparked") && told.contains("is done"), "{told}");
    assert_eq!(site.keys("mixed").len(), 21);
    assert!(site.expect(0, &["verify", "mixed"]).contains("the receipt holds"));
    site.expect(2, &["retry", "mixed"]);
}

#[test]
fn a_source_that_has_no_items_of_that_kind_is_told_with_what_helps() {
    let site = Site::with_files(1);
    let told = |arguments: &[&str]| site.expect(2, arguments);
    let help = told(&["run", "--lines", "data", "--", "true"]);
    assert!(help.contains("is a folder; say it without `--lines`"), "{help}");
    let help = told(&["run", "--lines", "/dev/null", "--", "true"]);
    assert!(help.contains("say `--lines -`"), "{help}");
    let help = told(&["run", "data/00/00000", "--", "true"]);
    assert!(help.contains("say `--lines "), "{help}");
    let help = told(&["scan", "data/00/00000"]);
    assert!(help.contains("name the folder that it is in"), "{help}");
    assert!(!help.contains("--lines"), "{help}");
    told(&["run", "nonsense://bucket", "--", "true"]);
    // Nothing of it is left.
    let left = fs::read_dir(site.path(".shardwright/runs")).map_or(0, Iterator::count);
    assert_eq!(left, 0);
}
