//! What a receipt says, and what is found where it is not so.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::support::{Site, text, wait_until};

/// Waits until a file is so old that nobody takes it for newer than a run that begins now.
fn age(file: &Path) {
    let metadata = fs::symlink_metadata(file).unwrap();
    let seconds = u64::try_from(metadata.ctime()).unwrap();
    let nanos = u32::try_from(metadata.ctime_nsec()).unwrap();
    let changed = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos);
    let old = Duration::from_millis(1_100);
    wait_until(|| changed.elapsed().is_ok_and(|elapsed| elapsed > old));
}

#[test]
fn ranges_and_what_is_inside_of_fields_cannot_be_altered_unnoticed() {
    let site = Site::with_files(60);
    site.expect(0, &["run", "data", "--run", "proof", "--shards", "6", "--", "cat", "{}"]);
    let path = site.results("proof").join("receipt.json");
    let receipt = site.receipt("proof");
    let ranges = receipt["coverage"]["ranges"].as_array().unwrap();
    assert!(ranges.len() >= 6, "{receipt}");
    assert_eq!(ranges[0]["start"], receipt["coverage"]["start"]);
    assert_eq!(ranges.last().unwrap()["end"], receipt["coverage"]["end"]);
    for pair in ranges.windows(2) {
        assert_eq!(pair[0]["end"], pair[1]["start"]);
    }
    let keys: u64 = ranges.iter().map(|range| range["keys"].as_u64().unwrap()).sum();
    assert_eq!(keys, 60);
    let found = |altered: &Value, field: &str| {
        fs::write(&path, altered.to_string()).unwrap();
        let told = site.expect(1, &["verify", "proof"]);
        assert!(told.contains(field), "{field}: {told}");
    };
    let with = |change: &dyn Fn(&mut Vec<Value>)| {
        let mut altered = receipt.clone();
        change(altered["coverage"]["ranges"].as_array_mut().unwrap());
        altered
    };
    found(&with(&|ranges| drop(ranges.remove(2))), "coverage.ranges has");
    found(&with(&|ranges| ranges.insert(3, ranges[3].clone())), "coverage.ranges has");
    for field in ["start", "end", "keys", "done"] {
        found(&with(&|ranges| ranges[1][field] = json!("altered")), "coverage.ranges[1]");
    }
    for field in receipt["coverage"].as_object().unwrap().keys() {
        let mut altered = receipt.clone();
        altered["coverage"][field] = json!("altered");
        found(&altered, &format!("coverage.{field}"));
    }
    fs::write(&path, receipt.to_string()).unwrap();
    site.expect(0, &["verify", "proof"]);
}

#[test]
fn an_item_without_a_result_is_found_in_a_tree_and_among_rows() {
    let site = Site::with_files(20);
    fs::write(site.path("rows"), "a\nb\nc\n").unwrap();
    age(&site.path("data/02/00019"));
    site.expect(0, &["run", "data", "--run", "tree", "--", "cat", "{}"]);
    site.expect(0, &["run", "--lines", "rows", "--run", "rows", "--", "echo", "{}"]);
    for (run, item) in [("tree", "00/00000 has no result"), ("rows", "has no result")] {
        let results = site.results(run).join("results.jsonl");
        let lines = fs::read_to_string(&results).unwrap();
        fs::write(&results, lines.split_once('\n').unwrap().1).unwrap();
        let told = site.expect(1, &["verify", run]);
        assert!(told.contains(item), "{told}");
        assert!(!site.expect(1, &["verify", run, "--without-source"]).contains("has no result"));
        fs::write(&results, lines).unwrap();
        site.expect(0, &["verify", run]);
    }
    // What came later is no fault of the run.
    fs::write(site.path("data/new"), "new").unwrap();
    let told = site.expect(0, &["verify", "tree"]);
    assert!(told.contains("1 are new"), "{told}");
}

/// The program as somebody who may not read everything.
struct Stranger<'a> {
    site: &'a Site,
    is_superuser: bool,
}

impl<'a> Stranger<'a> {
    fn new(site: &'a Site, closed: &Path) -> Self {
        fs::set_permissions(closed, fs::Permissions::from_mode(0o0)).unwrap();
        let is_superuser = fs::read_dir(closed).is_ok();
        if is_superuser {
            let open = fs::Permissions::from_mode(0o777);
            fs::set_permissions(site.path(""), open).unwrap();
            fs::copy(env!("CARGO_BIN_EXE_shardwright"), site.path("program")).unwrap();
        }
        Self { site, is_superuser }
    }

    fn expect(&self, code: i32, arguments: &[&str]) -> String {
        let mut command = self.site.command(arguments);
        if self.is_superuser {
            // Somebody who is nobody else.
            let mut other = std::process::Command::new(self.site.path("program"));
            other.args(arguments).current_dir(self.site.path("")).uid(65_534).gid(65_534);
            command = other;
        }
        let output = command.stdin(std::process::Stdio::null()).output().unwrap();
        let told = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {told}");
        told
    }
}

#[test]
fn what_could_not_be_read_is_told_counted_and_not_called_done() {
    let site = Site::with_files(10);
    let closed = site.path("data/closed");
    fs::create_dir(&closed).unwrap();
    fs::write(closed.join("unseen"), "x").unwrap();
    std::os::unix::fs::symlink("00", site.path("data/link")).unwrap();
    let stranger = Stranger::new(&site, &closed);
    let run = |name: &'static str| ["run", "data", "--run", name, "--", "cat", "{}"];
    let told = stranger.expect(3, &run("partly"));
    assert!(told.contains("passed over: closed/: "), "{told}");
    assert!(told.contains("1 places could not be read"), "{told}");
    let receipt = site.receipt("partly");
    assert_eq!(receipt["passed_over"], json!({ "unreadable": 1, "symlink": 1 }));
    assert_eq!(receipt["uncovered"][0]["key"], "closed/");
    assert_eq!(site.keys("partly").len(), 10);
    // It is not forgotten by whoever looks later, and nobody can alter it.
    stranger.expect(3, &run("partly"));
    assert!(stranger.expect(0, &["verify", "partly"]).contains("the receipt holds"));
    let path = site.results("partly").join("receipt.json");
    let mut altered = receipt.clone();
    altered["passed_over"]["unreadable"] = json!(0);
    fs::write(&path, altered.to_string()).unwrap();
    assert!(stranger.expect(1, &["verify", "partly"]).contains("passed_over.unreadable"));
    let told = stranger.expect(3, &[&["--json"], &run("events")[..]].concat());
    let events = told.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let places: Vec<Value> = events
        .filter(|event| event["event"] == "passed_over")
        .flat_map(|event| event["places"].as_array().unwrap().clone())
        .collect();
    let is_told = |place: &Value| place["key"] == "closed/" && place["why"] == "unreadable";
    assert!(places.iter().any(is_told), "{told}");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn a_place_that_cannot_be_read_is_not_lost_among_many_links() {
    let site = Site::with_files(3);
    let closed = site.path("data/closed");
    fs::create_dir(&closed).unwrap();
    for number in 0..300 {
        std::os::unix::fs::symlink("00", site.path("data").join(format!("a{number}"))).unwrap();
    }
    let stranger = Stranger::new(&site, &closed);
    age(&closed);
    stranger.expect(3, &["run", "data", "--run", "partly", "--shards", "1", "--", "cat", "{}"]);
    let receipt = site.receipt("partly");
    assert_eq!(receipt["passed_over"], json!({ "unreadable": 1, "symlink": 300 }));
    assert_eq!(receipt["uncovered"][0]["key"], "closed/");
    assert!(stranger.expect(0, &["verify", "partly"]).contains("the receipt holds"));

    // Even where nobody has written it down, it is found by whoever looks for himself.
    let segments = site.results("partly").join("segments").join(receipt["run"].as_str().unwrap());
    let books = fs::read_dir(&segments).unwrap().map(|entry| entry.unwrap().path());
    let is_book = |path: &std::path::PathBuf| path.display().to_string().contains("books-");
    for book in books.filter(is_book) {
        let lines = fs::read_to_string(&book).unwrap();
        let kept: Vec<&str> = lines.lines().filter(|line| !line.contains("unreadable")).collect();
        fs::write(&book, kept.join("\n") + "\n").unwrap();
    }
    let mut altered = receipt;
    altered["passed_over"].as_object_mut().unwrap().remove("unreadable");
    altered["uncovered"] = json!([]);
    fs::write(site.results("partly").join("receipt.json"), altered.to_string()).unwrap();
    let told = stranger.expect(1, &["verify", "partly"]);
    assert!(told.contains("closed/ cannot be read, and the receipt does not say so"), "{told}");
    // What was closed later is no fault of the run.
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o0)).unwrap();
    stranger.expect(0, &["verify", "partly"]);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn long_outputs_cannot_be_altered_or_taken_away_unnoticed() {
    let site = Site::with_files(3);
    let long = "head -c 100000 /dev/zero | tr '\\0' x";
    site.expect(0, &["run", "data", "--run", "long", "--", "sh", "-c", long]);
    site.expect(0, &["verify", "long"]);
    let path = site.keys_shown("long", "stdout_path")[1].trim_matches('"').to_owned();
    let written = fs::read(&path).unwrap();
    let mut altered = written.clone();
    altered[50_000] = b'y';
    for (content, finding) in [
        (Some(altered), "is not what was written"),
        (Some(written[1..].to_vec()), "is not what was written"),
        (None, "cannot be read"),
    ] {
        match content {
            Some(content) => fs::write(&path, content).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        let told = site.expect(1, &["verify", "long"]);
        assert!(told.contains(&path) && told.contains(finding), "{told}");
    }
    fs::write(&path, written).unwrap();
    site.expect(0, &["verify", "long"]);
}

#[test]
fn a_byte_that_is_no_text_is_found_like_any_other_alteration() {
    let site = Site::with_files(3);
    age(&site.path("data/02/00002"));
    site.expect(0, &["run", "data", "--run", "bytes", "--", "cat", "{}"]);
    let results = site.results("bytes").join("results.jsonl");
    let written = fs::read(&results).unwrap();
    let mut altered = written.clone();
    altered[10] = 0xff;
    fs::write(&results, altered).unwrap();
    let told = site.expect(1, &["verify", "bytes"]);
    for finding in ["line 1 is no result", "00/00000 has no result", "does not hold"] {
        assert!(told.contains(finding), "{finding}: {told}");
    }
    fs::write(&results, written).unwrap();
    site.expect(0, &["verify", "bytes"]);
}

#[test]
fn results_may_be_read_by_whoever_may_read_files_here() {
    let site = Site::with_files(3);
    site.expect(0, &["run", "data", "--run", "open", "--out", "out", "--", "cat", "{}"]);
    fs::write(site.path("out/plain"), "x").unwrap();
    let mode = |file: &str| fs::metadata(site.path("out").join(file)).unwrap().mode();
    for file in ["results.jsonl", "receipt.json", "run.json"] {
        assert_eq!(mode(file), mode("plain"), "{file}");
    }
}

#[test]
fn retries_of_what_is_parked_are_counted() {
    let site = Site::with_files(10);
    fs::write(site.path("data/bad"), "bad").unwrap();
    let script = "! grep -q bad \"$1\"";
    let flags = ["run", "data", "--run", "bad", "--retries", "2", "--", "sh", "-c", script];
    let told = site.expect(3, &[&flags[..], &["sh", "{}"]].concat());
    assert!(told.contains("2 retries, 0 replays absorbed, 0 stale writes refused"), "{told}");
    assert_eq!(site.receipt("bad")["retries"], 2);
    assert!(site.expect(0, &["verify", "bad"]).contains("the receipt holds"));
}
