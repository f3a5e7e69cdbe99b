//! State of other users, and the commands and paths that records name.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::Path;

use crate::support::{Site, text};

/// A user other than the one that runs the tests.
const OTHER: u32 = 54_321;

/// Gives a folder to another user. False if the tests may not do that. Then the rest of the test
/// does not run, and stderr names it.
fn give_away(folder: &Path) -> bool {
    match chown(folder, Some(OTHER), None) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let thread = std::thread::current();
            let name = thread.name().unwrap_or_default();
            // Not by a macro: the harness would hide it.
            let line = format!("NOT RUN: {name} needs root, to give files to another user\n");
            io::stderr().write_all(line.as_bytes()).unwrap();
            false
        }
        given => {
            given.unwrap();
            true
        }
    }
}

/// A run named `one` with a parked item.
fn with_parked() -> Site {
    let site = Site::with_files(2);
    let failing = ["run", "data", "--run", "one", "--retries", "0", "--"];
    site.expect(3, &[&failing[..], &["sh", "-c", "test -e fixed", "sh", "{}"]].concat());
    site
}

/// Every command that uses state, in a site with a run `one`.
const COMMANDS: &[&[&str]] = &[
    &["runs"],
    &["show", "one"],
    &["shards", "one"],
    &["parked", "one"],
    &["unpark", "one"],
    &["retry", "--parked", "one"],
    &["pause", "one"],
    &["resume", "one"],
    &["cancel", "one"],
    &["verify", "one"],
    &["gc"],
    &["restored"],
    &["run", "data", "--", "cat", "{}"],
    &["scan", "data"],
    &["node"],
    &["gate"],
    &["cluster", "status"],
    &["cluster", "create"],
    &["cluster", "delete"],
    &["cluster", "plan"],
    &["cluster", "drain", "10.0.0.1:7000"],
    &["cluster", "freeze"],
    &["route", "visits"],
];

/// The root folder belongs to another user, unless the tests run as root. So this needs no root.
#[test]
fn every_command_refuses_a_folder_of_root() {
    if rustix::process::geteuid().is_root() {
        // Root does the same with a folder that it gives away.
        return every_command_refuses_state_of_another_user();
    }
    let site = Site::with_files(1);
    for command in COMMANDS {
        let shown = site.expect(2, &[&["--store", "file:/"], *command].concat());
        assert!(shown.contains("/ belongs to user 0, not to user"), "{command:?}: {shown}");
    }
}

#[test]
fn every_command_refuses_state_of_another_user() {
    let site = with_parked();
    let state = site.path(".shardwright");
    if !give_away(&state) {
        return;
    }
    let in_memory: &[&str] = &["--store", "memory:", "run", "data", "--", "cat", "{}"];
    for command in COMMANDS.iter().chain([&in_memory]) {
        let shown = site.expect(2, command);
        let remedy = "--trust-folder .shardwright";
        assert!(shown.contains("belongs to user 54321") && shown.contains(remedy), "{shown}");
    }
    // The option and the setting allow it.
    assert!(site.expect(0, &["runs", "--trust-folder", ".shardwright"]).contains("one"));
    let variable = "SHARDWRIGHT_TRUSTED_FOLDERS";
    for (trusted, code) in [(state.to_str().unwrap(), 0), ("/a:*", 0), ("/a:/b", 2)] {
        let output = site.command(&["runs"]).env(variable, trusted).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{trusted}: {}", text(&output.stderr));
    }
}

#[test]
fn state_file_of_another_user_is_refused() {
    let site = with_parked();
    if give_away(&site.path(".shardwright/state.db")) {
        assert!(site.expect(2, &["runs"]).contains("state.db belongs to user 54321"));
    }
}

/// The keys and the end of a run over `data` that respects `.gitignore` files.
fn run_by_rules(site: &Site) -> (Vec<String>, String) {
    let shown = site.expect(0, &["run", "data", "--gitignore", "--run", "one", "--", "true"]);
    let results = fs::read_to_string(site.results("one").join("results.jsonl")).unwrap();
    let key = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["key"].as_str().unwrap().to_owned()
    };
    (results.lines().map(key).collect(), shown)
}

/// A site with `data/b.log` and rules in `file` that exclude it.
fn with_rules(file: &str) -> Site {
    let site = Site::new();
    fs::write(site.path("data/b.log"), "").unwrap();
    fs::write(site.path(file), "*.log").unwrap();
    site
}

#[test]
fn rules_of_other_users_exclude_no_files() {
    // With a sticky bit, users cannot delete each other's files.
    for (mode, is_excluded) in [(0o1777, false), (0o777, true)] {
        let site = with_rules("data/.gitignore");
        fs::set_permissions(site.path("data"), fs::Permissions::from_mode(mode)).unwrap();
        if !give_away(&site.path("data/.gitignore")) {
            return;
        }
        let (keys, shown) = run_by_rules(&site);
        assert_eq!(keys.contains(&"b.log".to_owned()), !is_excluded, "{mode:o}: {keys:?}");
        assert_eq!(shown.contains("1 rules of another user"), !is_excluded, "{mode:o}: {shown}");
    }
}

#[test]
fn a_repository_of_another_user_excludes_no_files() {
    for (foreign, is_excluded) in [(".git", false), (".gitignore", false), ("data", true)] {
        let site = with_rules(".gitignore");
        fs::create_dir(site.path(".git")).unwrap();
        if !give_away(&site.path(foreign)) {
            return;
        }
        let (keys, shown) = run_by_rules(&site);
        assert_eq!(keys.is_empty(), is_excluded, "{foreign}: {keys:?}");
        assert_eq!(shown.contains("1 rules of another user"), !is_excluded, "{foreign}: {shown}");
    }
}

#[test]
fn retry_shows_the_stored_command_before_it_runs() {
    let site = with_parked();
    fs::write(site.path("fixed"), "").unwrap();
    let shown = site.expect(0, &["retry", "--parked", "one"]);
    assert!(shown.contains("`sh -c 'test -e fixed' sh {}`"), "{shown}");
}

#[test]
fn retry_of_foreign_state_needs_a_confirmation() {
    let site = with_parked();
    if !give_away(&site.path(".shardwright")) {
        return;
    }
    fs::write(site.path("fixed"), "").unwrap();
    let trusting = ["--trust-folder", ".shardwright", "retry", "--parked", "one"];
    let retry = |code, more: &[&str]| site.expect(code, &[&trusting[..], more].concat());
    let shown = retry(2, &[]);
    assert!(shown.contains("--yes") && shown.contains("'test -e fixed'"), "{shown}");
    let other = retry(2, &["--", "sh", "-c", "test -e other", "sh", "{}"]);
    assert!(other.contains("another command"), "{other}");
    // Nothing was unparked by the refused calls.
    let parked = site.expect(0, &["--trust-folder", ".shardwright", "parked", "one"]);
    assert!(parked.contains("exit code 1"), "{parked}");
    retry(0, &["--", "sh", "-c", "test -e fixed", "sh", "{}"]);
}

#[test]
fn retry_of_state_that_others_can_write_needs_a_confirmation() {
    for (entry, mode, code) in [("", 0o770, 2), ("state.db", 0o660, 2), ("", 0o755, 0)] {
        let site = with_parked();
        let path = site.path(".shardwright").join(entry);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        fs::write(site.path("fixed"), "").unwrap();
        let shown = site.expect(code, &["retry", "--parked", "one"]);
        assert_eq!(shown.contains("other users can write this store"), code == 2, "{shown}");
    }
}

#[test]
fn retry_of_foreign_state_accepts_yes() {
    let site = with_parked();
    if !give_away(&site.path(".shardwright")) {
        return;
    }
    fs::write(site.path("fixed"), "").unwrap();
    site.expect(0, &["--trust-folder", ".shardwright", "retry", "--parked", "one", "--yes"]);
}

#[test]
fn gc_leaves_files_of_users_in_folders_of_runs() {
    let site = Site::with_files(2);
    site.expect(0, &["run", "data", "--run", "one", "--out", "out", "--", "cat", "{}"]);
    let run = fs::read_dir(site.path("out/segments")).unwrap().next().unwrap().unwrap().path();
    fs::create_dir(run.join("folder")).unwrap();
    fs::write(run.join("folder/mine"), "mine").unwrap();
    fs::write(run.join("mine"), "mine").unwrap();
    site.expect(0, &["gc", "--keep-days", "0"]);
    let left = fs::read_dir(&run).unwrap().count();
    assert!(left == 2 && run.join("folder/mine").exists() && run.join("mine").exists());
}

#[test]
fn gc_follows_no_link_at_the_location_of_results() {
    let site = Site::with_files(2);
    site.expect(0, &["run", "data", "--run", "one", "--out", "out", "--", "cat", "{}"]);
    fs::rename(site.path("out/segments"), site.path("elsewhere")).unwrap();
    symlink(site.path("elsewhere"), site.path("out/segments")).unwrap();
    let before = fs::read_dir(site.path("elsewhere")).unwrap().count();
    let shown = site.expect(0, &["gc", "--keep-days", "0"]);
    assert!(shown.contains("cannot delete the files of one"), "{shown}");
    assert_eq!(fs::read_dir(site.path("elsewhere")).unwrap().count(), before);
}

#[test]
fn verify_reads_no_file_outside_of_the_results() {
    let site = Site::with_files(1);
    let long = "head -c 100000 /dev/zero | tr '\\0' x";
    site.expect(0, &["run", "data", "--run", "one", "--", "sh", "-c", long]);
    let results = site.results("one").join("results.jsonl");
    let line = fs::read_to_string(&results).unwrap();
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    let output = line["stdout_path"].as_str().unwrap();
    // The same bytes at another place are not the output of the run.
    fs::copy(output, site.path("copy")).unwrap();
    let copy = site.path("copy").display().to_string();
    let copied = fs::read_to_string(&results).unwrap().replace(output, &copy);
    fs::write(&results, copied).unwrap();
    let shown = site.expect(1, &["verify", "one"]);
    assert!(shown.contains("not at the location of the results"), "{shown}");
}

#[test]
fn credentials_in_addresses_are_never_shown_or_stored() {
    let site = Site::with_files(1);
    let secret = "SECRET";
    let source = format!("https://me:{secret}@127.0.0.1:1/in?sig={secret}#{secret}");
    let out = format!("https://me:{secret}@127.0.0.1:1/out?sig={secret}");
    for (code, command) in [
        (2, &["run", &source, "--", "cat", "{}"][..]),
        (2, &["run", "data", "--out", &out, "--", "cat", "{}"]),
        (2, &["scan", &source, "--json"]),
        (2, &["runs", "--store", "etcds://me:SECRET@127.0.0.1:1"]),
        (2, &["runs", "--store", "http://me:SECRET@127.0.0.1:1"]),
        (2, &["runs", "--store", "etcd://127.0.0.1:1?password=SECRET"]),
        // The parser of the command line repeats what it does not expect.
        (2, &["run", "data", "https://me:SECRET@host/in"]),
    ] {
        let shown = site.expect(code, command);
        assert!(!shown.contains(secret), "{command:?}: {shown}");
    }
    for (folder, _) in [(".shardwright", 0), (".shardwright/runs", 0)] {
        for entry in fs::read_dir(site.path(folder)).into_iter().flatten() {
            let path = entry.unwrap().path();
            let found = fs::read(&path).unwrap_or_default();
            let found = found.windows(secret.len()).any(|bytes| bytes == secret.as_bytes());
            assert!(!found, "{}", path.display());
        }
    }
}

#[test]
fn password_over_plain_etcd_needs_a_flag() {
    let site = Site::new();
    fs::write(site.path("password"), "p\n").unwrap();
    let flags = ["--etcd-user", "u", "--etcd-password-file", "password"];
    let runs = ["runs", "--store", "etcd://127.0.0.1:1", "--etcd-timeout", "1"];
    let shown = site.expect(2, &[&runs[..], &flags].concat());
    assert!(shown.contains("--etcd-allow-plaintext-password"), "{shown}");
    let allowed = [&runs[..], &flags, &["--etcd-allow-plaintext-password"]].concat();
    let shown = site.expect(2, &allowed);
    assert!(!shown.contains("--etcd-allow-plaintext-password"), "{shown}");
}

#[test]
fn file_name_is_never_executed_by_a_shell() {
    let site = Site::new();
    fs::write(site.path("data/$(touch executed)"), "").unwrap();
    for script in [
        &["sh", "-c", "cat '{}'"][..],
        &["env", "-i", "nice", "timeout", "10", "/bin/bash", "-euo", "pipefail", "-c", "cat {}"],
        &["sh", "-c"],
    ] {
        let shown = site.expect(2, &[&["run", "data", "--"], script].concat());
        assert!(shown.contains("\"$1\"' _ {}"), "{script:?}: {shown}");
    }
    assert!(!site.path(".shardwright").exists());
    let safe = ["run", "data", "--", "sh", "-c", "cat \"$1\"", "_", "{}"];
    site.expect(0, &safe);
    assert!(!site.path("executed").exists());
}
