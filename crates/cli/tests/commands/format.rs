//! A state folder of format 1, recorded once, is read by every later version.
//!
//! `tests/data/format_1` was written by a release build of commit d4ae954, the last before the
//! crates were divided: `finished` ran `echo` over 50 lines, `poisoned` parked `f13.txt`, `halfway`
//! was killed with 16 of 60 items done, and a node that held all 16 shards of the cluster
//! `counters` was killed. The recording ran in `/mnt`, and runs store absolute paths: the tests
//! mount their folder there, in a mount namespace of their own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::{outputs, text, wait_until};

const HALFWAY: [&str; 12] = [
    "run",
    "data",
    "--run",
    "halfway",
    "-j",
    "2",
    "--",
    "sh",
    "-c",
    "sleep 0.03; cat \"$1\"",
    "_",
    "{}",
];

/// A copy of the recorded folder, with the sources that its runs read.
struct Recorded {
    folder: tempfile::TempDir,
}

impl Recorded {
    fn copy() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/format_1");
        copy_folder(&recorded, &folder.path().join("state"));
        fs::create_dir(folder.path().join("data")).unwrap();
        for number in 0..60 {
            let file = folder.path().join(format!("data/f{number:02}.txt"));
            fs::write(file, format!("line {number:02}\n")).unwrap();
        }
        let rows: String = (1..=50).map(|number| format!("{number}\n")).collect();
        fs::write(folder.path().join("numbers.txt"), rows).unwrap();
        Self { folder }
    }

    /// The program in a mount namespace where the folder is `/mnt`.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        if !rustix::process::geteuid().is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        let inside = "mount --bind \"$1\" /mnt && cd /mnt && shift && exec \"$@\"";
        command.args(["--mount", "sh", "-c", inside, "sh"]).arg(self.folder.path());
        command.args([env!("CARGO_BIN_EXE_shardwright"), "--store", "file:state"]).args(arguments);
        command.stdin(Stdio::null());
        command
    }

    fn expect(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        let printed = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{printed}");
        printed
    }

    fn results(&self, run: &str) -> PathBuf {
        self.folder.path().join("state/runs").join(run).join("results.jsonl")
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Every file of the source with its content.
fn all_files() -> Vec<(String, String)> {
    (0..60).map(|number| (format!("f{number:02}.txt"), format!("line {number:02}\n"))).collect()
}

#[test]
fn recorded_halfway_run_resumes_and_verifies() {
    let recorded = Recorded::copy();
    assert!(recorded.expect(0, &["runs"]).contains("halfway"));
    let printed = recorded.expect(0, &HALFWAY);
    assert!(printed.contains("60 items"), "{printed}");
    assert_eq!(outputs(&recorded.results("halfway")), all_files());
    recorded.expect(0, &["verify", "halfway"]);
}

#[test]
fn recorded_receipts_verify() {
    let recorded = Recorded::copy();
    recorded.expect(0, &["verify", "finished"]);
    recorded.expect(0, &["verify", "poisoned"]);
}

#[test]
fn recorded_parked_item_is_retried() {
    let recorded = Recorded::copy();
    assert!(recorded.expect(0, &["parked", "poisoned"]).contains("f13.txt"));
    // The recorded command fails for this item until the file `mended` exists.
    recorded.expect(3, &["retry", "--parked", "poisoned"]);
    fs::write(recorded.folder.path().join("mended"), "").unwrap();
    recorded.expect(0, &["retry", "--parked", "poisoned"]);
    assert_eq!(outputs(&recorded.results("poisoned")), all_files());
    recorded.expect(0, &["verify", "poisoned"]);
}

#[test]
fn node_takes_over_the_shards_of_a_recorded_cluster() {
    let recorded = Recorded::copy();
    let status = ["cluster", "status", "--cluster", "counters"];
    let before = recorded.expect(0, &status);
    assert!(before.contains("counters: 16 shards by fnv1a32, target version 1"), "{before}");
    assert!(before.contains("16 are not claimed"), "{before}");
    let arguments =
        ["node", "--cluster", "counters", "--listen", "127.0.0.1:0", "--stability-ms", "100"];
    let mut command = recorded.command(&arguments);
    let node = Node(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    wait_until(|| recorded.expect(0, &status).contains("holds 16 shards"));
    drop(node);
}

/// A node as a process. Dropping it kills the process.
struct Node(Child);

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
