//! Console blocks: commands after `$ `, and below each the output that it prints.
//!
//! - All blocks of a page run in one temporary folder, in order. The folder holds copies of `docs/`
//!   and of the files in `examples/`.
//! - `shardwright` and `cargo run --release --` are the program that the tests have built. It also
//!   stands in for the programs of `examples/counter`, which have tests of their own.
//! - A command must exit with 0, or with N if it ends with the comment `# exit code N`.
//! - Expected output is stdout and stderr. `…` stands for any text within a line, a line `…` for
//!   any number of lines, and `/home/you` for the temporary folder.
//! - A command that ends with `&` runs until the page ends, and shows no output. A comment after
//!   two spaces does not count.
//! - `127.0.0.1:8080` stands for a free port.

use std::fs;
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};

use super::blocks::Block;
use super::{cargo_lines, root};
use crate::support::text;

const HOME: &str = "/home/you";
const PORT: &str = "127.0.0.1:8080";
/// Programs of the pages, and how the tests run them.
const PROGRAMS: [(&str, &str); 3] = [
    ("cargo run --release --", "shardwright"),
    ("target/release/counter-node", "shardwright node $COUNTERS"),
    ("target/release/counter-gate", "shardwright gate $COUNTERS"),
];
/// The defaults of the programs of `examples/counter`.
const COUNTERS: &str = "--store file:counters --cluster counters --shards 64 --stability-ms 1000";
/// The most seconds that a command may take.
const LIMIT_SECONDS: &str = "60";

/// Runs the commands of a page in one folder, which is created for the first command.
#[derive(Default)]
pub(super) struct Shell {
    environment: Option<Environment>,
}

/// The folder of a page, and its processes in the background.
struct Environment {
    folder: tempfile::TempDir,
    programs: tempfile::TempDir,
    address: String,
    background: Vec<Child>,
}

impl Shell {
    /// Runs a block. Returns how many commands ran, and how many cargo lines were checked.
    pub(super) fn check(&mut self, block: &Block<'_>) -> Result<(usize, usize), String> {
        let (mut ran, mut checked) = (0, 0);
        for (command, output) in steps(&block.lines)? {
            let replace =
                |command: String, (page, test): &(&str, &str)| command.replace(page, test);
            let command = PROGRAMS.iter().fold(command, replace);
            if command.starts_with("cargo ") || command.starts_with("java ") {
                cargo_lines::check(&command, &output)?;
                checked += 1;
            } else {
                let environment = self.environment.get_or_insert_with(Environment::new);
                environment
                    .run(&command, &output)
                    .map_err(|error| format!("$ {command}\n{error}"))?;
                ran += 1;
            }
        }
        Ok((ran, checked))
    }

    /// Scans an empty folder with rules.
    pub(super) fn load_rules(&mut self, rules: &str) -> Result<(), String> {
        let environment = self.environment.get_or_insert_with(Environment::new);
        fs::write(environment.folder.path().join("rules.toml"), rules).unwrap();
        fs::create_dir_all(environment.folder.path().join("empty")).unwrap();
        environment.run("shardwright scan empty --fresh --rules rules.toml", &["…"])
    }
}

/// The commands of a block with the output below each. A command that ends with `\` goes on in the
/// next line.
fn steps<'t>(lines: &[&'t str]) -> Result<Vec<(String, Vec<&'t str>)>, String> {
    let mut steps: Vec<(String, Vec<&str>)> = Vec::new();
    for line in lines {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => steps.push((command.to_owned(), Vec::new())),
            (None, Some((command, output))) if command.ends_with('\\') && output.is_empty() => {
                command.pop();
                command.push_str(line);
            }
            (None, Some((_, output))) => output.push(line),
            (None, None) => return Err(format!("output before the first command: {line}")),
        }
    }
    Ok(steps)
}

impl Environment {
    fn new() -> Self {
        let (folder, programs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let program = env!("CARGO_BIN_EXE_shardwright");
        std::os::unix::fs::symlink(program, programs.path().join("shardwright")).unwrap();
        // A gate in the background may not listen yet when it is called.
        let retries = "silent\nretry = 30\nretry-delay = 1\nretry-connrefused\n";
        fs::write(programs.path().join(".curlrc"), retries).unwrap();
        for name in ["docs", "examples"] {
            copy_files(&root().join(name), &folder.path().join(name));
        }
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        Self { folder, programs, address, background: Vec::new() }
    }

    fn run(&mut self, command: &str, expected: &[&str]) -> Result<(), String> {
        let command = command.replace(PORT, &self.address);
        let command = command.split("  #").next().unwrap_or_default().trim_end();
        if let Some(command) = command.strip_suffix('&') {
            return self.start(command, expected);
        }
        let output = self.shell("timeout", &[LIMIT_SECONDS, "sh"], command).output().unwrap();
        let code = output.status.code();
        let printed = text(&output.stdout).replace(self.folder.path().to_str().unwrap(), HOME);
        if code != Some(expected_code(command)) {
            let code = code.map_or_else(|| "a signal".to_owned(), |code| code.to_string());
            let expected = expected_code(command);
            return Err(format!("exit code {code}, expected {expected}:\n{printed}"));
        }
        let lines: Vec<&str> = printed.lines().collect();
        if lines_match(expected, &lines) {
            return Ok(());
        }
        Err(format!("expected:\n{}\nprinted:\n{printed}", expected.join("\n")))
    }

    /// Starts a command in its own process group.
    fn start(&mut self, command: &str, expected: &[&str]) -> Result<(), String> {
        if !expected.is_empty() {
            return Err("a command in the background shows no output".to_owned());
        }
        let mut child = self.shell("sh", &[], command);
        child.stdout(Stdio::null()).process_group(0);
        self.background.push(child.spawn().unwrap());
        Ok(())
    }

    fn shell(&self, program: &str, arguments: &[&str], script: &str) -> Command {
        let mut path = self.programs.path().as_os_str().to_owned();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap());
        let mut command = Command::new(program);
        command.args(arguments).args(["-c", &format!("exec 2>&1\n{script}")]);
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command.env("PATH", path).env("HOME", self.folder.path());
        command.env("CURL_HOME", self.programs.path()).env("COUNTERS", COUNTERS);
        command
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        for child in &mut self.background {
            let _killed = kill_process_group(Pid::from_child(child), Signal::KILL);
            let _waited = child.wait();
        }
    }
}

/// Copies the files of a folder, without subfolders.
fn copy_files(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// The exit code in the comment of a command, or 0.
fn expected_code(command: &str) -> i32 {
    let comment = command.rsplit_once("# exit code ");
    comment.map_or(0, |(_, code)| code.trim().parse().unwrap())
}

/// Compares output line by line. A line `…` is any number of lines.
fn lines_match(expected: &[&str], printed: &[&str]) -> bool {
    match (expected.split_first(), printed.split_first()) {
        (None, None) => true,
        (Some((&"…", rest)), _) => {
            (0..=printed.len()).any(|skipped| lines_match(rest, &printed[skipped..]))
        }
        (Some((pattern, expected)), Some((line, printed))) => {
            line_matches(pattern, line) && lines_match(expected, printed)
        }
        (None, Some(_)) | (Some(_), None) => false,
    }
}

/// Compares a line with a pattern in which `…` is any text.
fn line_matches(pattern: &str, line: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('…') else { return pattern == line };
    let Some(line) = line.strip_prefix(start) else { return false };
    let starts = line.char_indices().map(|(at, _)| at).chain([line.len()]);
    starts.into_iter().any(|at| line_matches(rest, &line[at..]))
}
