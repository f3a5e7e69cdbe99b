//! Runs the program in a temporary folder.

use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A temporary folder with a source, in which the program runs and keeps its state.
pub(crate) struct Site {
    folder: tempfile::TempDir,
}

impl Site {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("data")).unwrap();
        Self { folder }
    }

    /// Creates `count` files below `data`. Each contains its number.
    pub(crate) fn with_files(count: usize) -> Self {
        let site = Self::new();
        for number in 0..count {
            let folder = site.path("data").join(format!("{:02}", number % 17));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(format!("{number:05}")), number.to_string()).unwrap();
        }
        site
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shardwright"));
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    /// Runs the program, and waits until it exits.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs the program, requires the exit code, and returns stdout and stderr.
    pub(crate) fn expect(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{stdout}\n{stderr}");
        stdout + &stderr
    }

    /// Does the same as [`Site::expect`], with `input` on stdin.
    pub(crate) fn expect_with_input(&self, code: i32, arguments: &[&str], input: &str) -> String {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let printed = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{printed}");
        printed
    }

    /// Starts the program in its own process group, with its output in pipes.
    pub(crate) fn start_piped(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        command.spawn().unwrap()
    }

    /// Starts the program in its own process group, and discards its output.
    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(arguments);
        command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        command.spawn().unwrap()
    }

    /// The folder of a run's results.
    pub(crate) fn results(&self, name: &str) -> PathBuf {
        self.path(".shardwright/runs").join(name)
    }

    pub(crate) fn receipt(&self, name: &str) -> serde_json::Value {
        let receipt = fs::read(self.results(name).join("receipt.json")).unwrap();
        serde_json::from_slice(&receipt).unwrap()
    }

    /// A field of each line of a result file, in the order of the lines.
    pub(crate) fn field_values(&self, name: &str, field: &str) -> Vec<String> {
        let lines = fs::read_to_string(self.results(name).join("results.jsonl")).unwrap();
        let lines = lines.lines().map(|line| serde_json::from_str(line).unwrap());
        lines.map(|line: serde_json::Value| line[field].to_string()).collect()
    }

    /// The keys in a result file, in the order of the lines.
    pub(crate) fn keys(&self, name: &str) -> Vec<String> {
        keys(&self.results(name).join("results.jsonl"))
    }
}

pub(crate) fn keys(results: &Path) -> Vec<String> {
    let lines = fs::read_to_string(results).unwrap();
    let key = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        value["key"].as_str().unwrap().to_owned()
    };
    lines.lines().map(key).collect()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Keys and outputs in a result file.
pub(crate) fn outputs(results: &Path) -> Vec<(String, String)> {
    let lines = fs::read_to_string(results).unwrap();
    let parsed = lines.lines().map(|line| serde_json::from_str(line).unwrap());
    // An empty output is left out.
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    parsed.map(|line: serde_json::Value| (text(&line["key"]), text(&line["stdout"]))).collect()
}

/// Waits until a condition holds, at most a minute.
pub(crate) fn wait_until(mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "the condition does not hold after a minute"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}
