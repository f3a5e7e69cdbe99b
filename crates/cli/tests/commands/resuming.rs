//! Commands that name an existing run: they resume it, replace it, or are rejected.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use crate::support::{Site, keys, text, wait_until};

fn piped(site: &Site, code: i32, rows: &str, flags: &[&str]) -> String {
    let command = [&["run", "--lines", "-", "--run", "piped"], flags, &["--", "echo", "{}"]];
    site.expect_with_input(code, &command.concat(), rows)
}

#[test]
fn stdin_with_other_rows_is_another_source() {
    let site = Site::new();
    assert!(piped(&site, 0, "a\nb\n", &[]).contains("2 items"));
    assert!(piped(&site, 0, "a\nb\n", &[]).contains("is already done"));
    let printed = piped(&site, 2, "c\nd\ne\n", &[]);
    assert!(printed.contains("another source") && printed.contains("--fresh"), "{printed}");
    assert_eq!(site.field_values("piped", "row").len(), 2);
    assert!(piped(&site, 0, "c\nd\ne\n", &["--fresh"]).contains("3 items"));
    assert!(site.expect(0, &["verify", "piped"]).contains("the receipt holds"));
}

#[test]
fn each_difference_to_the_existing_run_is_named() {
    let site = Site::with_files(3);
    fs::create_dir(site.path("other")).unwrap();
    fs::write(site.path("rows"), "a\nb\n").unwrap();
    site.expect(0, &["run", "data", "--run", "tree", "--", "cat", "{}"]);
    site.expect(0, &["run", "--lines", "rows", "--run", "rows", "--at-dispatch", "--", "echo"]);
    let tree = |flags: &[&str], command: &[&str]| {
        let arguments = [&["run", "--run", "tree"], flags, &["--"], command].concat();
        site.expect(2, &arguments)
    };
    for (printed, expected) in [
        (tree(&["other"], &["cat", "{}"]), "another source"),
        (tree(&["--lines", "rows"], &["cat", "{}"]), "another source"),
        (tree(&["data"], &["wc", "{}"]), "with another command (`cat {}`)"),
        (tree(&["data", "--batch", "5"], &["cat", "{}"]), "with a process per item"),
        (tree(&["data", "--gitignore"], &["cat", "{}"]), "without --gitignore"),
        (tree(&["data", "--at-dispatch"], &["cat", "{}"]), "without --at-dispatch"),
        (tree(&["data", "--out", "elsewhere"], &["cat", "{}"]), "results in"),
        (tree(&["data", "--out-local"], &["cat", "{}"]), "results in"),
        (tree(&["other", "--gitignore"], &["wc", "{}"]), "(`cat {}`), with another source"),
    ] {
        assert!(printed.contains(expected), "{expected}: {printed}");
        assert!(printed.contains("--fresh") && printed.contains("--run NAME"), "{printed}");
    }
    let rows = |code: i32, flags: &[&str]| {
        let arguments = [&["run", "--run", "rows"], flags, &["--", "echo"]].concat();
        site.expect(code, &arguments)
    };
    assert!(rows(2, &["--lines", "rows"]).contains("with --at-dispatch"));
    assert!(rows(2, &["--lines", "rows", "--at-dispatch", "--null"]).contains("without --null"));
    // A copy of the rows is the same source.
    fs::copy(site.path("rows"), site.path("copy")).unwrap();
    assert!(rows(0, &["--lines", "copy", "--at-dispatch"]).contains("is already done"));
}

#[test]
fn rejected_location_of_results_creates_no_run() {
    let site = Site::with_files(3);
    site.expect(0, &["run", "data", "--run", "first", "--out", "out", "--", "cat", "{}"]);
    let second = |out: &str, code: i32| {
        site.expect(code, &["run", "data", "--run", "second", "--out", out, "--", "cat", "{}"])
    };
    assert!(second("out", 2).contains("belongs to run first"));
    assert!(!site.expect(0, &["runs"]).contains("second"));
    second("elsewhere", 0);
    assert_eq!(keys(&site.path("elsewhere/results.jsonl")).len(), 3);
    assert_eq!(fs::read_dir(site.path("out/segments")).unwrap().count(), 1);
}

#[test]
fn fresh_run_cancels_the_run_that_it_replaces() {
    let site = Site::with_files(3);
    let slow = ["run", "data", "--run", "again", "--lease", "1", "--", "sh", "-c"];
    let mut old = site.start(&[&slow[..], &["echo > mark; sleep 1000", "sh", "{}"]].concat());
    wait_until(|| site.path("mark").exists());
    site.expect(0, &["run", "data", "--run", "again", "--fresh", "--", "cat", "{}"]);
    assert_eq!(old.wait().unwrap().code(), Some(2));
    assert_eq!(site.keys("again").len(), 3);
    assert!(site.expect(0, &["verify", "again"]).contains("the receipt holds"));
    let runs = site.expect(0, &["runs"]);
    assert!(runs.contains("cancelled") && runs.contains("(replaced)"), "{runs}");
    // `gc` deletes both.
    let deleted = site.expect(0, &["gc", "--keep-days", "0"]);
    assert_eq!(deleted.matches("deleted run again").count(), 2, "{deleted}");
}

#[test]
fn results_from_older_cursors_do_not_replace_newer_ones() {
    let site = Site::with_files(30);
    fs::write(site.path("data/bad"), "bad").unwrap();
    let script = "! grep -q bad \"$1\" && cat \"$1\"";
    let flags = ["run", "data", "--run", "mixed", "--retries", "0", "--", "sh", "-c"];
    let command = [&flags[..], &[script, "sh", "{}"]].concat();
    site.expect(3, &command);
    // While the folder is locked, processes build results but cannot publish them.
    let folder = fs::File::open(site.results("mixed")).unwrap();
    folder.lock().unwrap();
    let mut older = site.start(&command);
    let is_built = || {
        let mut entries = fs::read_dir(site.results("mixed")).unwrap();
        entries.any(|entry| entry.unwrap().file_name().as_bytes().starts_with(b".results-"))
    };
    wait_until(is_built);
    fs::write(site.path("data/bad"), "good").unwrap();
    let mut newer = site.start(&["retry", "--parked", "mixed"]);
    wait_until(|| site.expect(0, &["show", "mixed"]).contains(", done\n"));
    newer.kill().unwrap();
    newer.wait().unwrap();
    folder.unlock().unwrap();
    assert_eq!(older.wait().unwrap().code(), Some(0));
    assert_eq!(site.keys("mixed").len(), 31);
    assert!(site.expect(0, &["verify", "mixed"]).contains("the receipt holds"));
}

#[test]
fn paths_that_are_not_utf8_are_stored_unchanged() {
    let site = Site::new();
    let odd = site.path("").join(OsStr::from_bytes(b"odd\xff"));
    fs::create_dir(&odd).unwrap();
    fs::write(odd.join("long"), [b'x'; 100_000]).unwrap();
    fs::write(odd.join("short"), b"x").unwrap();
    let expect = |code: i32, arguments: &[&str]| {
        let output = site.command(arguments).current_dir(&odd).output().unwrap();
        let printed = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {printed}");
        printed
    };
    let command = ["run", ".", "--run", "odd", "--", "cat", "{}"];
    assert!(expect(0, &command).contains("2 items"));
    assert!(expect(0, &command).contains("is already done"));
    assert!(expect(0, &["verify", "odd"]).contains("the receipt holds"));
    let results = fs::read_to_string(odd.join(".shardwright/runs/odd/results.jsonl")).unwrap();
    let first: serde_json::Value = serde_json::from_str(results.lines().next().unwrap()).unwrap();
    assert!(first["stdout_path"]["base64"].is_string(), "{first}");
}

#[test]
fn results_inside_of_the_source_are_not_items() {
    let site = Site::with_files(5);
    let inside = format!("file://{}", site.path("data/out").display());
    let command = ["run", "data", "--run", "inside", "--out", &inside, "--", "cat", "{}"];
    assert!(site.expect(0, &command).contains("5 items"));
    assert_eq!(keys(&site.path("data/out/results.jsonl")).len(), 5);
    assert!(site.expect(0, &["verify", "inside"]).contains("the receipt holds"));
    // An object source cannot skip a folder, so results inside of it are rejected.
    let (data, here) = (site.path("data"), site.path(""));
    let objects = format!("file://{}", data.display());
    let printed = site.expect(2, &["run", &objects, "--out", "data/more", "--", "cat", "{}"]);
    assert!(printed.contains("is part of the source"), "{printed}");
    let objects = format!("file://{}", here.display());
    let printed = site.expect(2, &["run", &objects, "--out", "/tmp", "--", "cat", "{}"]);
    assert!(printed.contains("is part of the source"), "{printed}");
}
