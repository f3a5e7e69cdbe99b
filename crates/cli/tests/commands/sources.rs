//! What a source may be, and which of its files are items.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::process::Stdio;

use crate::support::{Site, text};

/// Files in two folders and beside them.
fn site() -> Site {
    let site = Site::new();
    for name in ["a/1.txt", "a/sub/2.log", "b.txt", "c/3.log", "c/4.txt"] {
        let path = site.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
    site
}

/// The items of a run, as `echo` printed them.
fn echoed(site: &Site, name: &str) -> Vec<String> {
    let printed = site.field_values(name, "stdout").into_iter();
    let printed = printed.map(|json| serde_json::from_str::<String>(&json).unwrap());
    printed.map(|output| output.trim_end().to_owned()).collect()
}

/// Runs `echo` for each item, and verifies the run.
fn echo(site: &Site, name: &str, source: &[&str]) -> String {
    let command = [&["run"], source, &["--run", name, "--", "echo", "{}"]].concat();
    let printed = site.expect(0, &command);
    assert!(site.expect(0, &["verify", name]).contains("the receipt holds"));
    printed
}

#[test]
fn several_files_and_folders_are_one_source() {
    let site = site();
    echo(&site, "several", &["a", "b.txt", "./c/"]);
    let expected = ["a/1.txt", "a/sub/2.log", "b.txt", "./c/3.log", "./c/4.txt"];
    assert_eq!(echoed(&site, "several"), expected);
    assert_eq!(site.keys("several"), ["a/1.txt", "a/sub/2.log", "b.txt", "c/3.log", "c/4.txt"]);
    // The order does not matter, and what is inside of a given folder is no second item.
    let again = ["run", "c", "a/1.txt", "b.txt", "a", "--run", "several", "--", "echo", "{}"];
    assert!(site.expect(0, &again).contains("is already done"));
    let other = ["run", "c", "b.txt", "--run", "several", "--", "echo", "{}"];
    assert!(site.expect(2, &other).contains("another source (3 files and folders in "));
}

#[test]
fn single_file_is_read_line_by_line_with_a_hint() {
    let site = Site::new();
    fs::write(site.path("numbers.txt"), "1\n2\n").unwrap();
    let printed = echo(&site, "rows", &["numbers.txt"]);
    let hint = "reading the lines of numbers.txt (--files processes the file itself)";
    assert!(printed.contains(hint), "{printed}");
    assert_eq!(echoed(&site, "rows"), ["1", "2"]);
    // It is the same source as with the flag, and the hint comes once.
    let again = site.expect(0, &["run", "numbers.txt", "--run", "rows", "--", "echo", "{}"]);
    assert!(again.contains("is already done") && !again.contains(hint), "{again}");
    let explicit = ["run", "--lines", "numbers.txt", "--run", "rows", "--", "echo", "{}"];
    assert!(site.expect(0, &explicit).contains("is already done"));
    let printed = echo(&site, "whole", &["numbers.txt", "--files"]);
    assert_eq!(echoed(&site, "whole"), ["numbers.txt"]);
    assert!(!printed.contains("reading the lines"), "{printed}");
}

#[test]
fn dash_reads_stdin_and_zero_separates_by_nul() {
    let site = Site::new();
    for (name, flags, input, expected) in [
        ("lines", &["-"][..], "one\ntwo\n", vec!["one", "two"]),
        ("nul", &["-", "-0"], "one\ntwo\0three\0", vec!["one\ntwo", "three"]),
    ] {
        let command = [&["run"], flags, &["--run", name, "--", "echo", "{}"]].concat();
        let mut child = site
            .command(&command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(!text(&output.stderr).contains("reading the lines"));
        assert_eq!(echoed(&site, name), expected);
    }
}

#[test]
fn globs_choose_the_files_of_folders() {
    let site = site();
    echo(&site, "logs", &["a", "c", "b.txt", "--include", "*.log", "--exclude", "sub"]);
    assert_eq!(echoed(&site, "logs"), ["b.txt", "c/3.log"]);
    let other = ["run", "a", "c", "b.txt", "--include", "*.log", "--run", "logs", "--", "echo"];
    let printed = site.expect(2, &[&other[..], &["{}"]].concat());
    assert!(printed.contains("was started with `--exclude sub`; add --fresh"), "{printed}");
    // Without a filter, a derived name is the one that earlier versions derive.
    let plain = site.expect(0, &["run", "data", "--", "true"]);
    assert!(plain.contains("run data-"), "{plain}");
    let filtered = site.expect(0, &["run", "data", "--exclude", "x", "--", "true"]);
    assert!(filtered.contains("is done") && !filtered.contains("already"), "{filtered}");
}

#[test]
fn followed_links_are_items_and_a_loop_is_reported() {
    let site = site();
    symlink("../c", site.path("a/linked")).unwrap();
    symlink("..", site.path("a/sub/up")).unwrap();
    let printed = echo(&site, "followed", &["a", "--follow"]);
    let expected = ["a/1.txt", "a/linked/3.log", "a/linked/4.txt", "a/sub/2.log"];
    assert_eq!(echoed(&site, "followed"), expected);
    assert!(printed.contains("skipped: 1 link to a folder around it"), "{printed}");
}

#[test]
fn scan_of_a_file_scans_the_file_itself() {
    let site = site();
    let printed = site.expect(0, &["scan", "a/1.txt", "c"]);
    assert!(printed.contains("is done: 3 items,"), "{printed}");
    assert!(site.expect(0, &["scan", "a/1.txt"]).contains("is done: 1 item"));
}

#[test]
fn flag_without_meaning_for_the_source_is_an_error() {
    let site = site();
    let objects = format!("file://{}", site.path("c").display());
    for (source, flags, flag, kind) in [
        (&["b.txt"][..], &["--include", "*"][..], "--include", "a file whose lines are the items"),
        (&["b.txt"], &["--exclude", "*"], "--exclude", "a file whose lines are the items"),
        (&["b.txt"], &["--follow"], "--follow", "a file whose lines are the items"),
        (&["--lines", "b.txt"], &["--gitignore"], "--gitignore", "whose lines are the items"),
        (&["-"], &["--follow"], "--follow", "stdin, whose lines are the items"),
        (&["-"], &["--files"], "--files", "stdin, whose lines are the items"),
        (&[&objects], &["--follow"], "--follow", "an object store"),
        (&[&objects], &["--gitignore"], "--gitignore", "an object store"),
        (&[&objects], &["-0"], "--null", "an object store"),
        (&[&objects], &["--files"], "--files", "an object store"),
        (&["a"], &["--null"], "--null", "a folder"),
        (&["a"], &["--files"], "--files", "a folder"),
        (&["b.txt"], &["--files", "--include", "*"], "--include", "a file"),
        (&["b.txt", "c/4.txt"], &["--follow"], "--follow", "which are items themselves"),
    ] {
        let command = [&["run"], source, flags, &["--", "true"]].concat();
        let printed = site.expect(2, &command);
        let start = format!("error: {flag} does not apply to ");
        assert!(printed.contains(&start) && printed.contains(kind), "{command:?}: {printed}");
    }
    // It applies to the stdin of a batch.
    site.expect(0, &["run", "a", "-0", "--batch", "2", "--run", "batch", "--", "cat"]);
    assert!(!site.path(".shardwright/runs").join("a").exists());
}

#[test]
fn source_of_the_wrong_kind_is_rejected_with_the_remedy() {
    let site = site();
    for (arguments, part) in [
        (&["run", "--lines", "data", "--", "true"][..], "is a folder; omit `--lines`"),
        (&["run", "--lines", "/dev/null", "--", "true"], "use `-` as the source"),
        (&["run", "/dev/null", "--", "true"], "use `-` as the source"),
        (&["run", "a", "/dev/null", "--", "true"], "is neither a file nor a folder"),
        (&["run", "a", "nowhere", "--", "true"], "nowhere does not exist or cannot be read"),
        (&["run", "a", "-", "--", "true"], "`-` reads stdin, and cannot be combined"),
        (&["run", "a", "s3://me:word@b/c", "--", "true"], "s3://b/c is an object store, which"),
        (&["run", "a", "--include", "[x", "--", "true"], "`[x` is not a valid glob"),
        (&["run", "a", "--exclude", "!x", "--", "true"], "a glob has no `!`"),
        (&["run", "a", "--exclude", "", "--", "true"], "it is empty"),
        (&["run", "nonsense://bucket", "--", "true"], "is not the URL of an object store"),
        (&["scan", "-"], "a scan reads files, not stdin"),
        (&["scan", "nowhere"], "nowhere does not exist"),
    ] {
        let printed = site.expect(2, arguments);
        assert!(printed.contains(part), "{arguments:?}: {printed}");
        assert!(!printed.contains("word"), "{printed}");
    }
    // A rejected command leaves no files.
    assert!(!site.path(".shardwright").exists());
}
