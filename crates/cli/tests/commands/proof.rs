//! `shardwright verify` finds every difference between a receipt and what it describes.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::support::{Site, text, wait_until};

/// Waits until `verify` treats a file as older than a run that starts now. It treats a file that
/// changed less than a second before the run as newer.
fn wait_until_old(file: &Path) {
    let metadata = fs::symlink_metadata(file).unwrap();
    let seconds = u64::try_from(metadata.ctime()).unwrap();
    let nanos = u32::try_from(metadata.ctime_nsec()).unwrap();
    let changed = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos);
    let margin = Duration::from_millis(1_100);
    wait_until(|| changed.elapsed().is_ok_and(|elapsed| elapsed > margin));
}

#[test]
fn altered_coverage_in_a_receipt_is_found() {
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
    let expect_finding = |altered: &Value, field: &str| {
        fs::write(&path, altered.to_string()).unwrap();
        let printed = site.expect(1, &["verify", "proof"]);
        assert!(printed.contains(field), "{field}: {printed}");
    };
    let with = |change: &dyn Fn(&mut Vec<Value>)| {
        let mut altered = receipt.clone();
        change(altered["coverage"]["ranges"].as_array_mut().unwrap());
        altered
    };
    expect_finding(&with(&|ranges| drop(ranges.remove(2))), "coverage.ranges has");
    expect_finding(&with(&|ranges| ranges.insert(3, ranges[3].clone())), "coverage.ranges has");
    for field in ["start", "end", "keys", "done"] {
        expect_finding(&with(&|ranges| ranges[1][field] = json!("altered")), "coverage.ranges[1]");
    }
    for field in receipt["coverage"].as_object().unwrap().keys() {
        let mut altered = receipt.clone();
        altered["coverage"][field] = json!("altered");
        expect_finding(&altered, &format!("coverage.{field}"));
    }
    fs::write(&path, receipt.to_string()).unwrap();
    site.expect(0, &["verify", "proof"]);
}

#[test]
fn missing_result_of_a_file_or_a_row_is_found() {
    let site = Site::with_files(20);
    fs::write(site.path("rows"), "a\nb\nc\n").unwrap();
    wait_until_old(&site.path("data/02/00019"));
    site.expect(0, &["run", "data", "--run", "tree", "--", "cat", "{}"]);
    site.expect(0, &["run", "--lines", "rows", "--run", "rows", "--", "echo", "{}"]);
    for (run, finding) in [("tree", "00/00000 has no result"), ("rows", "has no result")] {
        let results = site.results(run).join("results.jsonl");
        let lines = fs::read_to_string(&results).unwrap();
        fs::write(&results, lines.split_once('\n').unwrap().1).unwrap();
        let printed = site.expect(1, &["verify", run]);
        assert!(printed.contains(finding), "{printed}");
        assert!(!site.expect(1, &["verify", run, "--without-source"]).contains("has no result"));
        fs::write(&results, lines).unwrap();
        site.expect(0, &["verify", run]);
    }
    // A file that is newer than the run needs no result.
    fs::write(site.path("data/new"), "new").unwrap();
    let printed = site.expect(0, &["verify", "tree"]);
    assert!(printed.contains("1 are new"), "{printed}");
}

/// Runs the program as a user without access to a folder.
struct UnprivilegedUser<'a> {
    site: &'a Site,
    is_superuser: bool,
}

impl<'a> UnprivilegedUser<'a> {
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
            // The superuser can read everything, so the program runs as another user.
            let mut other = std::process::Command::new(self.site.path("program"));
            other.args(arguments).current_dir(self.site.path("")).uid(65_534).gid(65_534);
            command = other;
        }
        let output = command.stdin(std::process::Stdio::null()).output().unwrap();
        let printed = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {printed}");
        printed
    }
}

#[test]
fn unreadable_folder_is_reported_counted_and_not_done() {
    let site = Site::with_files(10);
    let closed = site.path("data/closed");
    fs::create_dir(&closed).unwrap();
    fs::write(closed.join("unseen"), "x").unwrap();
    std::os::unix::fs::symlink("00", site.path("data/link")).unwrap();
    let user = UnprivilegedUser::new(&site, &closed);
    let run = |name: &'static str| ["run", "data", "--run", name, "--", "cat", "{}"];
    let printed = user.expect(3, &run("partly"));
    assert!(printed.contains("skipped: closed/: "), "{printed}");
    assert!(printed.contains("except for 1 unread entry"), "{printed}");
    let receipt = site.receipt("partly");
    assert_eq!(receipt["skipped"], json!({ "unreadable": 1, "symlink": 1 }));
    assert_eq!(receipt["uncovered"][0]["key"], "closed/");
    assert_eq!(site.keys("partly").len(), 10);
    // A later process reports it again, and `verify` finds an altered count.
    user.expect(3, &run("partly"));
    assert!(user.expect(0, &["verify", "partly"]).contains("the receipt holds"));
    let path = site.results("partly").join("receipt.json");
    let mut altered = receipt.clone();
    altered["skipped"]["unreadable"] = json!(0);
    fs::write(&path, altered.to_string()).unwrap();
    assert!(user.expect(1, &["verify", "partly"]).contains("skipped.unreadable"));
    let printed = user.expect(3, &[&["--json"], &run("events")[..]].concat());
    let events = printed.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let entries: Vec<Value> = events
        .filter(|event| event["event"] == "skipped")
        .flat_map(|event| event["entries"].as_array().unwrap().clone())
        .collect();
    let is_reported = |place: &Value| place["key"] == "closed/" && place["why"] == "unreadable";
    assert!(entries.iter().any(is_reported), "{printed}");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn unreadable_folder_is_reported_besides_300_symlinks() {
    let site = Site::with_files(3);
    let closed = site.path("data/closed");
    fs::create_dir(&closed).unwrap();
    for number in 0..300 {
        std::os::unix::fs::symlink("00", site.path("data").join(format!("a{number}"))).unwrap();
    }
    let user = UnprivilegedUser::new(&site, &closed);
    wait_until_old(&closed);
    user.expect(3, &["run", "data", "--run", "partly", "--shards", "1", "--", "cat", "{}"]);
    let receipt = site.receipt("partly");
    assert_eq!(receipt["skipped"], json!({ "unreadable": 1, "symlink": 300 }));
    assert_eq!(receipt["uncovered"][0]["key"], "closed/");
    assert!(user.expect(0, &["verify", "partly"]).contains("the receipt holds"));

    // `verify` reads the source, and finds the folder even if no journal has it.
    let segments = site.results("partly").join("segments").join(receipt["run"].as_str().unwrap());
    let journals = fs::read_dir(&segments).unwrap().map(|entry| entry.unwrap().path());
    let is_journal = |path: &std::path::PathBuf| path.display().to_string().contains("books-");
    for journal in journals.filter(is_journal) {
        let lines = fs::read_to_string(&journal).unwrap();
        let kept: Vec<&str> = lines.lines().filter(|line| !line.contains("unreadable")).collect();
        fs::write(&journal, kept.join("\n") + "\n").unwrap();
    }
    let mut altered = receipt;
    altered["skipped"].as_object_mut().unwrap().remove("unreadable");
    altered["uncovered"] = json!([]);
    fs::write(site.results("partly").join("receipt.json"), altered.to_string()).unwrap();
    let printed = user.expect(1, &["verify", "partly"]);
    assert!(
        printed.contains("closed/ cannot be read, but the receipt does not report it"),
        "{printed}"
    );
    // A folder that became unreadable after the run is no finding.
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o0)).unwrap();
    user.expect(0, &["verify", "partly"]);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn altered_or_missing_long_output_is_found() {
    let site = Site::with_files(3);
    let long = "head -c 100000 /dev/zero | tr '\\0' x";
    site.expect(0, &["run", "data", "--run", "long", "--", "sh", "-c", long]);
    site.expect(0, &["verify", "long"]);
    let path = site.field_values("long", "stdout_path")[1].trim_matches('"').to_owned();
    let written = fs::read(&path).unwrap();
    let mut altered = written.clone();
    altered[50_000] = b'y';
    for (content, finding) in [
        (Some(altered), "differs from what was written"),
        (Some(written[1..].to_vec()), "differs from what was written"),
        (None, "cannot be read"),
    ] {
        match content {
            Some(content) => fs::write(&path, content).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        let printed = site.expect(1, &["verify", "long"]);
        assert!(printed.contains(&path) && printed.contains(finding), "{printed}");
    }
    fs::write(&path, written).unwrap();
    site.expect(0, &["verify", "long"]);
}

#[test]
fn invalid_utf8_in_results_is_found() {
    let site = Site::with_files(3);
    wait_until_old(&site.path("data/02/00002"));
    site.expect(0, &["run", "data", "--run", "bytes", "--", "cat", "{}"]);
    let results = site.results("bytes").join("results.jsonl");
    let written = fs::read(&results).unwrap();
    let mut altered = written.clone();
    altered[10] = 0xff;
    fs::write(&results, altered).unwrap();
    let printed = site.expect(1, &["verify", "bytes"]);
    for finding in ["line 1 is not a result", "00/00000 has no result", "does not hold"] {
        assert!(printed.contains(finding), "{finding}: {printed}");
    }
    fs::write(&results, written).unwrap();
    site.expect(0, &["verify", "bytes"]);
}

#[test]
fn results_have_the_same_mode_as_other_files() {
    let site = Site::with_files(3);
    site.expect(0, &["run", "data", "--run", "open", "--out", "out", "--", "cat", "{}"]);
    fs::write(site.path("out/plain"), "x").unwrap();
    let mode = |file: &str| fs::metadata(site.path("out").join(file)).unwrap().mode();
    for file in ["results.jsonl", "receipt.json", "run.json"] {
        assert_eq!(mode(file), mode("plain"), "{file}");
    }
}

#[test]
fn retries_of_a_parked_item_are_counted() {
    let site = Site::with_files(10);
    fs::write(site.path("data/bad"), "bad").unwrap();
    let script = "! grep -q bad \"$1\"";
    let flags = ["run", "data", "--run", "bad", "--retries", "2", "-v", "--", "sh", "-c", script];
    let printed = site.expect(3, &[&flags[..], &["sh", "{}"]].concat());
    let writes = "2 retries, 0 duplicate writes ignored, 0 stale writes rejected";
    assert!(printed.contains(writes), "{printed}");
    assert_eq!(site.receipt("bad")["retries"], 2);
    assert!(site.expect(0, &["verify", "bad"]).contains("the receipt holds"));
}
