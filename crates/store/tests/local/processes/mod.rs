//! Child processes for tests: the test program itself, started in a role.
//!
//! The test `part` of this module runs the roles. It does nothing unless it was started by
//! [`Part::start`].

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long a test waits for an expected event.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// The arguments with which this program runs a role.
pub(crate) const PLAY: [&str; 3] =
    ["processes::child_process_plays_its_part", "--exact", "--nocapture"];

const PART: &str = "SHARDWRIGHT_STORE_TEST_PART";
const FOLDER: &str = "SHARDWRIGHT_STORE_TEST_FOLDER";
const LOG: &str = "SHARDWRIGHT_STORE_TEST_LOG";
const ARGUMENT: &str = "SHARDWRIGHT_STORE_TEST_ARGUMENT";

/// The role of a child process.
pub(crate) struct Role {
    pub(crate) part: String,
    pub(crate) folder: PathBuf,
    pub(crate) argument: u64,
    pub(crate) log: Log,
}

impl Role {
    /// The role of this process, if it is a child.
    pub(crate) fn of_this_process() -> Option<Self> {
        let part = std::env::var(PART).ok()?;
        let folder = PathBuf::from(std::env::var(FOLDER).unwrap());
        let argument = std::env::var(ARGUMENT).unwrap().parse().unwrap();
        let log = Log::append(Path::new(&std::env::var(LOG).unwrap()));
        Some(Self { part, folder, argument, log })
    }
}

#[test]
fn child_process_plays_its_part() {
    match Role::of_this_process() {
        None => {}
        Some(role) if role.part == "write" => crate::file_torture::write(role),
        Some(role) => crate::file_processes::play(role),
    }
}

/// A log that survives the process that writes it.
pub(crate) struct Log(File);

impl Log {
    fn append(path: &Path) -> Self {
        Self(OpenOptions::new().create(true).append(true).open(path).unwrap())
    }

    /// Writes a line with one system call.
    pub(crate) fn line(&self, line: &str) {
        (&self.0).write_all(format!("{line}\n").as_bytes()).unwrap();
    }
}

/// A child process in a role. It is killed on drop.
pub(crate) struct Part {
    child: Child,
    log: PathBuf,
    errors: PathBuf,
}

impl Part {
    /// Starts a child.
    pub(crate) fn start(part: &str, folder: &Path, log: &Path, argument: u64) -> Self {
        let program = std::env::current_exe().unwrap();
        Self::spawn(Command::new(program).args(PLAY), part, folder, log, argument)
    }

    /// Starts a child through a command that runs this program.
    pub(crate) fn spawn(
        command: &mut Command,
        part: &str,
        folder: &Path,
        log: &Path,
        argument: u64,
    ) -> Self {
        let errors = log.with_extension("errors");
        let child = command
            .envs([(PART, part.as_ref()), (FOLDER, folder.as_os_str()), (LOG, log.as_os_str())])
            .env(ARGUMENT, argument.to_string())
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&errors).unwrap())
            .spawn()
            .unwrap();
        Self { child, log: log.to_owned(), errors }
    }

    /// The whole lines of the child's log.
    pub(crate) fn lines(&self) -> Vec<String> {
        lines(&self.log)
    }

    /// Waits until the log has this many lines with the prefix.
    pub(crate) fn wait_for_lines(&mut self, beginning: &str, count: usize) {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let found = self.lines().iter().filter(|line| line.starts_with(beginning)).count();
            if found >= count {
                return;
            }
            self.assert_alive();
            assert!(Instant::now() < deadline, "{found} of {count} lines {beginning}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until it has ended successfully.
    pub(crate) fn wait(&mut self) {
        let status = self.child.wait().unwrap();
        assert!(status.success(), "a child failed: {}", self.errors());
    }

    /// Pauses it with SIGSTOP.
    pub(crate) fn pause(&mut self) {
        self.signal(rustix::process::Signal::STOP);
        let deadline = Instant::now() + TIMEOUT;
        let path = format!("/proc/{}/stat", self.child.id());
        // All threads are stopped when the process is.
        while !fs::read_to_string(&path).unwrap().contains(") T ") {
            assert!(Instant::now() < deadline, "a child does not stop");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Resumes it.
    pub(crate) fn resume(&mut self) {
        self.signal(rustix::process::Signal::CONT);
    }

    /// Kills it, like a crash.
    pub(crate) fn kill(&mut self) {
        self.assert_alive();
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    fn assert_alive(&mut self) {
        if let Some(status) = self.child.try_wait().unwrap() {
            panic!("a child ended with {status}: {}", self.errors());
        }
    }

    fn errors(&self) -> String {
        fs::read_to_string(&self.errors).unwrap_or_default()
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // It may have ended already.
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// The complete lines of a log. A crash may have truncated the last one.
pub(crate) fn lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(str::to_owned).collect()
}

/// Runs a future on two threads.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build().unwrap().block_on(future)
}

/// Reproducible pseudo-random numbers.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        let mixed = (self.0 ^ (self.0 >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 32)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound).unwrap()).unwrap()
    }
}
