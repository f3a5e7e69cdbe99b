//! Which run a command means, and what becomes of the one before.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use crate::support::{Site, keys, text, wait_until};

fn piped(site: &Site, code: i32, rows: &str, flags: &[&str]) -> String {
    let command = [&["run", "--lines", "-", "--run", "piped"], flags, &["--", "echo", "{}"]];
    site.expect_with_input(code, &command.concat(), rows)
}

#[test]
fn a_pipe_with_other_rows_is_not_taken_for_the_run_of_that_name() {
    let site = Site::new();
    assert!(piped(&site, 0, "a\nb\n", &[]).contains("2 keys"));
    assert!(piped(&site, 0, "a\nb\n", &[]).contains("was done before"));
    let told = piped(&site, 2, "c\nd\ne\n", &[]);
    assert!(told.contains("another source") && told.contains("--fresh"), "{told}");
    assert_eq!(site.keys_shown("piped", "row").len(), 2);
    assert!(piped(&site, 0, "c\nd\ne\n", &["--fresh"]).contains("3 keys"));
    assert!(site.expect(0, &["verify", "piped"]).contains("the receipt holds"));
}

#[test]
fn whatever_differs_from_the_run_of_that_name_is_named() {
    let site = Site::with_files(3);
    fs::create_dir(site.path("other")).unwrap();
    fs::write(site.path("rows"), "a\nb\n").unwrap();
    site.expect(0, &["run", "data", "--run", "tree", "--", "cat", "{}"]);
    site.expect(0, &["run", "--lines", "rows", "--run", "rows", "--at-dispatch", "--", "echo"]);
    let tree = |flags: &[&str], command: &[&str]| {
        let said = [&["run", "--run", "tree"], flags, &["--"], command].concat();
        site.expect(2, &said)
    };
    for (told, expected) in [
        (tree(&["other"], &["cat", "{}"]), "another source"),
        (tree(&["--lines", "rows"], &["cat", "{}"]), "another source"),
        (tree(&["data"], &["wc", "{}"]), "another command"),
        (tree(&["data", "--batch", "5"], &["cat", "{}"]), "--batch"),
        (tree(&["data", "--gitignore"], &["cat", "{}"]), "without --gitignore"),
        (tree(&["data", "--at-dispatch"], &["cat", "{}"]), "without --at-dispatch"),
        (tree(&["data", "--out", "elsewhere"], &["cat", "{}"]), "results on"),
        (tree(&["data", "--out-local"], &["cat", "{}"]), "results on"),
        (tree(&["other", "--gitignore"], &["wc", "{}"]), "another command, with another source"),
    ] {
        assert!(told.contains(expected), "{expected}: {told}");
        assert!(told.contains("--fresh") && told.contains("--run NAME"), "{told}");
    }
    let rows = |code: i32, flags: &[&str]| {
        let said = [&["run", "--run", "rows"], flags, &["--", "echo"]].concat();
        site.expect(code, &said)
    };
    assert!(rows(2, &["--lines", "rows"]).contains("with --at-dispatch"));
    assert!(rows(2, &["--lines", "rows", "--at-dispatch", "--null"]).contains("without --null"));
    // The same rows are the same source, wherever they are.
    fs::copy(site.path("rows"), site.path("copy")).unwrap();
    assert!(rows(0, &["--lines", "copy", "--at-dispatch"]).contains("was done before"));
}

#[test]
fn a_place_that_is_taken_leaves_the_name_free() {
    let site = Site::with_files(3);
    site.expect(0, &["run", "data", "--run", "first", "--out", "out", "--", "cat", "{}"]);
    let second = |out: &str, code: i32| {
        site.expect(code, &["run", "data", "--run", "second", "--out", out, "--", "cat", "{}"])
    };
    assert!(second("out", 2).contains("is of the run first"));
    assert!(!site.expect(0, &["runs"]).contains("second"));
    second("elsewhere", 0);
    assert_eq!(keys(&site.path("elsewhere/results.jsonl")).len(), 3);
    assert_eq!(fs::read_dir(site.path("out/segments")).unwrap().count(), 1);
}

#[test]
fn what_is_begun_anew_ends_what_it_replaces() {
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
    // The old one can be taken away now.
    let gone = site.expect(0, &["gc", "--keep-days", "0"]);
    assert_eq!(gone.matches("again is gone").count(), 2, "{gone}");
}

#[test]
fn results_that_were_built_from_older_cursors_replace_no_newer_ones() {
    let site = Site::with_files(30);
    fs::write(site.path("data/bad"), "bad").unwrap();
    let script = "! grep -q bad \"$1\" && cat \"$1\"";
    let flags = ["run", "data", "--run", "mixed", "--retries", "0", "--", "sh", "-c"];
    let command = [&flags[..], &[script, "sh", "{}"]].concat();
    site.expect(3, &command);
    // Nobody can write results now, but they can be built.
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
fn paths_that_are_no_text_are_kept_byte_for_byte() {
    let site = Site::new();
    let odd = site.path("").join(OsStr::from_bytes(b"odd\xff"));
    fs::create_dir(&odd).unwrap();
    fs::write(odd.join("long"), [b'x'; 100_000]).unwrap();
    fs::write(odd.join("short"), b"x").unwrap();
    let expect = |code: i32, arguments: &[&str]| {
        let output = site.command(arguments).current_dir(&odd).output().unwrap();
        let told = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {told}");
        told
    };
    let command = ["run", ".", "--run", "odd", "--", "cat", "{}"];
    assert!(expect(0, &command).contains("2 keys"));
    assert!(expect(0, &command).contains("was done before"));
    assert!(expect(0, &["verify", "odd"]).contains("the receipt holds"));
    let results = fs::read_to_string(odd.join(".shardwright/runs/odd/results.jsonl")).unwrap();
    let first: serde_json::Value = serde_json::from_str(results.lines().next().unwrap()).unwrap();
    assert!(first["stdout_path"]["base64"].is_string(), "{first}");
}

#[test]
fn results_are_no_items_however_their_place_is_said() {
    let site = Site::with_files(5);
    let inside = format!("file://{}", site.path("data/out").display());
    let command = ["run", "data", "--run", "inside", "--out", &inside, "--", "cat", "{}"];
    assert!(site.expect(0, &command).contains("5 keys"));
    assert_eq!(keys(&site.path("data/out/results.jsonl")).len(), 5);
    assert!(site.expect(0, &["verify", "inside"]).contains("the receipt holds"));
    // Objects are not looked at so closely, so nothing of ours may be among them.
    let (data, here) = (site.path("data"), site.path(""));
    let objects = format!("file://{}", data.display());
    let told = site.expect(2, &["run", &objects, "--out", "data/more", "--", "cat", "{}"]);
    assert!(told.contains("is a part of the source"), "{told}");
    let objects = format!("file://{}", here.display());
    let told = site.expect(2, &["run", &objects, "--out", "/tmp", "--", "cat", "{}"]);
    assert!(told.contains("is a part of the source"), "{told}");
}
