//! The programs, folders and inputs of all rows.

use std::cell::Cell;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cargo_metadata::Metadata;

use crate::workspace;

const HYPERQUEUE: &str = include_str!("hyperqueue.py");

/// Where everything is.
pub(super) struct Workplace {
    folder: tempfile::TempDir,
    release: PathBuf,
    folders: Cell<u32>,
}

impl Workplace {
    /// Builds the programs of the workspace.
    pub(super) fn make(metadata: &Metadata) -> Result<Self> {
        let build = ["build", "--release", "--locked", "--bins", "--examples"];
        let packages = ["--package", "shardwright-cli", "--package", "shardwright-examples"];
        workspace::succeed(workspace::cargo(metadata, &build).args(packages))?;
        let release = metadata.target_directory.join("release").into();
        Ok(Self { folder: tempfile::tempdir()?, release, folders: Cell::new(0) })
    }

    /// The number of cores.
    pub(super) fn cores(&self) -> usize {
        std::thread::available_parallelism().map_or(1, usize::from)
    }

    /// A new empty folder.
    pub(super) fn fresh(&self) -> Result<PathBuf> {
        let number = self.folders.replace(self.folders.get() + 1);
        let folder = self.folder.path().join(format!("{number}"));
        fs::create_dir(&folder)?;
        Ok(folder)
    }

    /// The `shardwright` program in a folder.
    pub(super) fn shardwright(&self, folder: &Path) -> Command {
        let mut command = Command::new(self.release.join("shardwright"));
        command.current_dir(folder);
        command
    }

    /// The path of an example program.
    pub(super) fn example(&self, name: &str) -> PathBuf {
        self.release.join("examples").join(name)
    }

    /// HyperQueue, downloaded on first use. It reports the time of its tasks, without the start of
    /// its server.
    pub(super) fn hyperqueue(&self, slots: usize, tasks: &Path) -> Result<Duration> {
        let site = self.folder.path().join("hyperqueue");
        let script = self.folder.path().join("run_tasks.py");
        if !script.exists() {
            let mut pip = Command::new("/usr/bin/python3");
            pip.args(["-m", "pip", "install", "--quiet", "--root-user-action=ignore"]);
            pip.args(["--disable-pip-version-check", "--target"]).arg(&site).arg("hyperqueue");
            workspace::succeed(&mut pip).context("HyperQueue could not be downloaded")?;
            fs::write(&script, HYPERQUEUE)?;
        }
        let mut python = Command::new("/usr/bin/python3");
        python.arg(&script).arg(slots.to_string()).arg(tasks).env("PYTHONPATH", &site);
        let output = python.stdin(Stdio::null()).output()?;
        let (printed, complaint) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "HyperQueue ended with {}: {complaint}", output.status);
        let took = printed.lines().find_map(|line| line.strip_prefix("took "));
        let took =
            took.and_then(|took| took.parse().ok()).context("HyperQueue reported no time")?;
        Ok(Duration::from_secs_f64(took))
    }
}

/// A file with the numbers up to `count`, one to a line.
pub(super) fn numbers(file: &Path, count: usize) -> Result<()> {
    let mut text = String::with_capacity(count * 8);
    for number in 1..=count {
        writeln!(text, "{number}")?;
    }
    fs::write(file, text).with_context(|| file.display().to_string())
}

/// A file that repeats one line.
pub(super) fn repeated(file: &Path, line: &str, count: usize) -> Result<()> {
    fs::write(file, format!("{line}\n").repeat(count)).with_context(|| file.display().to_string())
}

/// A program that reads its items as lines from stdin.
pub(super) fn reading(rows: &Path, program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" < \"$0\""]).arg(rows).arg(program).args(arguments);
    command
}

/// A number with commas between its thousands.
pub(super) fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated() {
        assert_eq!([7, 1_000, 123_456].map(thousands), ["7", "1,000", "123,456"]);
    }
}
