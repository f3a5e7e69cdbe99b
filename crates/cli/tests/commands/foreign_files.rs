//! Files that the program did not create, and permissions of those that it does.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Site, wait_until};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn report_is_written_into_a_pipe() {
    let site = Site::with_files(2);
    let pipe = site.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut scan = site.start(&["scan", "data", "--format", "sarif", "--report", "pipe"]);
    // Opening waits for the scan, which opens the pipe once, to write its report.
    let mut report = String::new();
    fs::File::open(&pipe).unwrap().read_to_string(&mut report).unwrap();
    assert_eq!(scan.wait().unwrap().code(), Some(0));
    assert!(report.contains("sarif"), "{report}");
    assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
}

#[test]
fn report_follows_a_link_and_keeps_it() {
    let site = Site::with_files(2);
    for target in ["there", "missing"] {
        let (link, target) = (site.path(&format!("to-{target}")), site.path(target));
        if target.ends_with("there") {
            fs::write(&target, "old").unwrap();
        }
        symlink(&target, &link).unwrap();
        let report = ["scan", "data", "--format", "sarif", "--report", link.to_str().unwrap()];
        site.expect(0, &report);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(fs::read_to_string(&target).unwrap().contains("sarif"));
    }
}

#[test]
fn secrets_behind_a_link_are_closed_to_other_users() {
    let site = Site::with_files(2);
    let (link, target) = (site.path("link"), site.path("target"));
    symlink(&target, &link).unwrap();
    let long = "old ".repeat(10_000);
    for (shows_secrets, given, kept) in
        [(false, 0o644, 0o644), (true, 0o644, 0o640), (true, 0o600, 0o600)]
    {
        fs::write(&target, &long).unwrap();
        fs::set_permissions(&target, fs::Permissions::from_mode(given)).unwrap();
        let scan = ["scan", "data", "--format", "sarif", "--report", "link", "--show-secrets"];
        site.expect(0, &scan[..scan.len() - usize::from(!shows_secrets)]);
        site.expect(0, &["gc", "--keep-days", "0"]);
        assert_eq!(mode(&target), kept, "{given:o}, {shows_secrets}");
        let report = fs::read_to_string(&target).unwrap();
        serde_json::from_str::<serde_json::Value>(&report).unwrap();
    }
}

#[test]
fn report_replaces_no_socket() {
    let site = Site::with_files(1);
    let path = site.path("socket");
    let _listener = UnixListener::bind(&path).unwrap();
    let shown = site.expect(2, &["scan", "data", "--report", "socket"]);
    assert!(shown.contains("is a socket"), "{shown}");
    assert!(fs::metadata(&path).unwrap().file_type().is_socket());
    assert!(!site.path(".shardwright").exists());
}

#[test]
fn refused_run_creates_nothing() {
    let site = Site::with_files(2);
    let before = fs::read_dir(site.path("data")).unwrap().count();
    let data = site.path("data").display().to_string();
    let url = format!("file://{data}");
    for command in [
        &["run", "data", "--store", "file:data", "--", "cat", "{}"][..],
        &["run", "data/00", "--store", "file:data", "--", "cat", "{}"],
        &["run", &url, "--store", "file:data/state", "--", "cat", "{}"],
        &["run", &url, "--out", "data/out", "--", "cat", "{}"],
        &["run", "missing", "--", "cat", "{}"],
        &["run", "--lines", "missing", "--", "cat", "{}"],
        &["run", "ftp://host/x", "--", "cat", "{}"],
        &["scan", "data", "--store", "file:data"],
        // A store that does not exist is not created to be read.
        &["runs", "--store", "file:data"],
        &["gc", "--store", "file:data"],
    ] {
        site.expect(2, command);
        assert_eq!(fs::read_dir(site.path("data")).unwrap().count(), before, "{command:?}");
        assert!(!site.path(".shardwright").exists(), "{command:?}");
    }
}

#[test]
fn empty_state_file_is_damage() {
    let site = Site::with_files(1);
    site.expect(0, &["run", "data", "--run", "one", "--", "cat", "{}"]);
    fs::write(site.path(".shardwright/state.db"), "").unwrap();
    for command in [&["runs"][..], &["run", "data", "--run", "one", "--", "cat", "{}"]] {
        let shown = site.expect(2, command);
        assert!(shown.contains("is damaged: it is empty"), "{shown}");
    }
}

#[test]
fn state_is_closed_to_other_users() {
    let site = Site::with_files(3);
    let run = ["--store", "file:above/state", "run", "data", "--run", "one", "--", "sleep", "60"];
    let mut child = site.start(&run);
    let state = site.path("above/state");
    wait_until(|| state.join("runs/one/segments").exists());
    assert_eq!((mode(&state), mode(&state.join("locks"))), (0o700, 0o700));
    assert_ne!(mode(&site.path("above")), 0o700);
    for folder in [state.clone(), state.join("locks")] {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_file() {
                assert_eq!(mode(&entry.path()), 0o600, "{:?}", entry.path());
            }
        }
    }
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
}

#[test]
fn replaced_files_keep_their_permissions() {
    let site = Site::with_files(3);
    fs::create_dir(site.path("out")).unwrap();
    let files = ["report", "out/results.jsonl", "out/receipt.json"].map(|name| site.path(name));
    site.expect(0, &["scan", "data", "--out", "out", "--report", "report"]);
    for given in [0o600, 0o664] {
        for file in &files {
            fs::set_permissions(file, fs::Permissions::from_mode(given)).unwrap();
        }
        site.expect(0, &["gc", "--keep-days", "0"]);
        site.expect(0, &["scan", "data", "--out", "out", "--report", "report"]);
        for file in &files {
            assert_eq!(mode(file), given, "{}", file.display());
        }
    }
}

#[test]
fn results_that_show_secrets_are_closed_to_other_users() {
    let site = Site::with_files(3);
    let scan = ["scan", "data", "--out", "out", "--report", "report", "--show-secrets"];
    site.expect(0, &scan);
    let mut folders = vec![site.path("out")];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
                continue;
            }
            files += 1;
            assert_eq!(mode(&entry.path()) & !0o640, 0, "{:?}", entry.path());
        }
    }
    assert!(files > 3, "{files}");
    assert_eq!(mode(&site.path("report")) & !0o640, 0);
}

/// The modes of all files below a folder.
fn modes_below(folder: &Path) -> BTreeSet<u32> {
    let (mut folders, mut modes) = (vec![folder.to_owned()], BTreeSet::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else {
                modes.insert(mode(&entry.path()));
            }
        }
    }
    modes
}

#[test]
fn files_follow_the_umask_but_never_show_secrets_to_all() {
    for umask in [0o000, 0o022, 0o077] {
        let site = Site::with_files(3);
        let run = |arguments: &[&str]| {
            let mut shell = std::process::Command::new("sh");
            shell.args(["-c", &format!("umask {umask:03o}; exec \"$0\" \"$@\"")]);
            let program = site.command(arguments);
            shell.arg(program.get_program()).args(program.get_args());
            let output = shell.current_dir(site.path("")).output().unwrap();
            assert!(output.status.success(), "{umask:o} {arguments:?} {output:?}");
        };
        run(&["run", "data", "--out", "results", "--", "cat", "{}"]);
        run(&["scan", "data", "--out", "shown", "--report", "report", "--show-secrets"]);
        // Temporary files become results by their last name only.
        assert_eq!(modes_below(&site.path("results")), BTreeSet::from([0o666 & !umask]));
        assert_eq!(modes_below(&site.path("shown")), BTreeSet::from([0o640 & !umask]));
        assert_eq!(mode(&site.path("report")), 0o640 & !umask);
        let state = site.path(".shardwright");
        assert_eq!((mode(&state), mode(&state.join("locks"))), (0o700, 0o700));
        for entry in fs::read_dir(&state).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_file() {
                assert_eq!(mode(&entry.path()), 0o600, "{umask:o} {:?}", entry.path());
            }
        }
    }
}
