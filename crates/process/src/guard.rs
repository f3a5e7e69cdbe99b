//! Ensures that no process of a program outlives its worker, or the work that was dropped.
//!
//! A worker starts no program itself. It starts guards, processes of its own binary, and each guard
//! starts one program at a time for it:
//!
//! ```text
//! worker ──socket──► guard ──► program ──► whatever the program starts
//! ```
//!
//! A guard is a subreaper: it becomes the parent of every orphan below it. So a process can leave
//! the program's group and session, but it stays a descendant of the guard.
//!
//! | what ends | what follows |
//! |---|---|
//! | the worker, or its work is dropped | the guard reads EOF, kills all below it and exits |
//! | an attempt, by failure | the worker requests the same, and waits for it |
//! | the time of an attempt | all below the guard get SIGTERM, and later the same |
//! | a program whose child keeps a pipe open | the same |
//! | a guard, if orphans are adopted | the worker kills all below it; the attempt fails |
//! | a guard, otherwise | the attempt fails; all below the guard outlive it |
//! | the worker and a guard at once | nothing: all below the guard outlive it |
//!
//! Orphans are adopted only after [`ProcessGuard::adopt_orphans`], for all guards of the process.
//!
//! A guard has a process group of its own, so that a terminal's Ctrl-C and Ctrl-Z and a signal to
//! the worker's group do not reach it. If it is stopped when the worker dies, the kernel continues
//! it. A guard whose program exited normally is reused.

mod descendants;
mod family;
mod serve;
mod wire;

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use self::descendants::Identity;
use self::family::FAMILY;
pub use self::serve::run_as_guard;
pub(crate) use self::wire::Launch;
use self::wire::Reply;

/// This program, even if its file was replaced.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// How often a guard is continued while it is awaited: a program may have stopped it.
const RESUME_INTERVAL: Duration = Duration::from_secs(1);
/// Time for a guard to kill its programs. It exceeds the guard's own timeout.
const CLEAR_WAIT: Duration = Duration::from_secs(10);

/// Why programs cannot be guarded.
#[derive(Debug, thiserror::Error)]
pub enum ProcessGuardError {
    /// The guard did not start.
    #[error("the process that guards programs cannot be started: {0}")]
    Start(#[source] io::Error),
    /// The program cannot be started as a guard.
    #[error(
        "programs cannot be guarded: call `shardwright::process::run_as_guard` first in `main`"
    )]
    NotServing,
    /// The guard was killed. Its programs are killed only after
    /// [`ProcessGuard::adopt_orphans`]; otherwise they may continue.
    #[error("the process that guards the program has ended; it may have been killed")]
    Lost,
}

/// Why a program did not start.
pub(crate) enum StartError {
    Guard(ProcessGuardError),
    /// The error of the operating system.
    Program(io::Error),
}

/// Starts programs under guards.
pub struct ProcessGuard {
    program: PathBuf,
    idle: Mutex<Vec<Group>>,
}

impl ProcessGuard {
    /// Guards programs by this program, whose `main` must call [`run_as_guard`] first. Starts the
    /// first guard, to check that it can be started. If a guard is killed, its programs continue,
    /// unless orphans are adopted.
    pub fn start() -> Result<Self, ProcessGuardError> {
        if !serve::is_serving() {
            return Err(ProcessGuardError::NotServing);
        }
        Self::start_with(THIS_PROGRAM)
    }

    /// Guards programs by another program whose `main` calls [`run_as_guard`] first, such as the
    /// command line.
    pub fn start_with(program: impl Into<PathBuf>) -> Result<Self, ProcessGuardError> {
        let guard = Self { program: program.into(), idle: Mutex::default() };
        guard.put_back(guard.new_group()?);
        Ok(guard)
    }

    /// Adopts the orphans of killed guards, from now on and for all guards of this process. When a
    /// guard is killed, every child of this process that is not a guard is killed. Processes that
    /// exist at the first call are spared, such as the sidecar of `sidecar & exec program`. Later
    /// calls do nothing.
    pub fn adopt_orphans() -> Result<(), ProcessGuardError> {
        FAMILY.adopt_orphans().map_err(ProcessGuardError::Start)
    }

    /// Waits until the orphans of guards that were killed are killed.
    pub(super) async fn close(&self) {
        FAMILY.swept().await;
    }

    /// Takes an unused guard.
    pub(super) fn take(&self) -> Result<Group, ProcessGuardError> {
        loop {
            let Some(mut group) = self.idle().pop() else { return self.new_group() };
            if group.is_led() {
                return Ok(group);
            }
        }
    }

    /// Returns a guard whose program has exited.
    pub(super) fn put_back(&self, group: Group) {
        if !group.is_lost {
            self.idle().push(group);
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Group>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn new_group(&self) -> Result<Group, ProcessGuardError> {
        let start = ProcessGuardError::Start;
        let (ours, theirs) = StdUnixStream::pair().map_err(start)?;
        ours.set_nonblocking(true).map_err(start)?;
        let link = UnixStream::from_std(ours).map_err(start)?;
        let mut spared = FAMILY.spared();
        let guard = Command::new(&self.program)
            .arg0(serve::NAME)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .kill_on_drop(false)
            .spawn()
            .map_err(start)?;
        let id = guard.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let identity = id.and_then(descendants::identity_of);
        let (Some(id), Some(identity)) = (id, identity) else {
            return Err(start(io::Error::other("it ended at once")));
        };
        spared.insert(identity);
        Ok(Group { guard, id, identity, link, received: Vec::new(), is_lost: false })
    }
}

/// A guard, and the processes below it. Dropping it kills all of them.
pub(super) struct Group {
    guard: Child,
    id: Pid,
    identity: Identity,
    link: UnixStream,
    /// The beginning of a reply.
    received: Vec<u8>,
    is_lost: bool,
}

impl Group {
    /// Starts a program. The one before it has exited. If the guard is lost, the program has ended.
    pub(super) async fn start(&mut self, launch: Launch) -> Result<(), StartError> {
        let started = self.started(launch).await;
        if self.is_lost {
            FAMILY.swept().await;
        }
        started
    }

    async fn started(&mut self, launch: Launch) -> Result<(), StartError> {
        let sent = wire::send_launch(&mut self.link, launch);
        match awake(&self.guard, self.id, sent).await {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                return Err(StartError::Program(error));
            }
            Err(_) => return Err(StartError::Guard(self.lose())),
        }
        match self.reply().await.map_err(StartError::Guard)? {
            Reply::Started => Ok(()),
            Reply::NotStarted(errno) => {
                Err(StartError::Program(io::Error::from_raw_os_error(errno)))
            }
            Reply::Exited(_) | Reply::Cleared | Reply::Gone => Err(StartError::Guard(self.lose())),
        }
    }

    /// Waits until the program exits. Its children may still run.
    pub(super) async fn exited(&mut self) -> Result<ExitStatus, ProcessGuardError> {
        match self.reply().await? {
            Reply::Exited(status) => Ok(ExitStatus::from_raw(status)),
            Reply::Started | Reply::NotStarted(_) | Reply::Cleared | Reply::Gone => {
                Err(self.lose())
            }
        }
    }

    /// Sends SIGTERM to the program and everything that it has left, and waits for a time until
    /// they have ended. Returns the status of the program, if it exited meanwhile.
    pub(super) async fn terminate(
        &mut self,
        wait: Duration,
    ) -> Result<Option<ExitStatus>, ProcessGuardError> {
        let mut exited = None;
        let ended = async {
            resume(&self.guard, self.id);
            if wire::send_terminate(&mut self.link).await.is_err() {
                return Err(self.lose());
            }
            loop {
                match self.reply().await? {
                    Reply::Exited(status) => exited = Some(ExitStatus::from_raw(status)),
                    Reply::Gone => return Ok(()),
                    Reply::Started | Reply::NotStarted(_) | Reply::Cleared => {
                        return Err(self.lose());
                    }
                }
            }
        };
        // What is left is killed by `clear`.
        timeout(wait, ended).await.unwrap_or(Ok(()))?;
        Ok(exited)
    }

    /// Kills the program and everything that it has left, and waits until they have ended.
    /// Kills a guard that does not answer in time.
    pub(super) async fn clear(&mut self) -> Result<(), ProcessGuardError> {
        let cleared = timeout(CLEAR_WAIT, self.cleared()).await;
        let cleared = cleared.unwrap_or_else(|_| {
            if self.guard.id().is_some() {
                let _gone = kill_process(self.id, Signal::KILL);
            }
            Err(self.lose())
        });
        if self.is_lost {
            FAMILY.swept().await;
        }
        cleared
    }

    async fn cleared(&mut self) -> Result<(), ProcessGuardError> {
        // The id of a lost guard may be that of another process.
        if self.is_lost {
            return Err(ProcessGuardError::Lost);
        }
        resume(&self.guard, self.id);
        if wire::send_clear(&mut self.link).await.is_err() {
            return Err(self.lose());
        }
        loop {
            match self.reply().await? {
                Reply::Cleared => return Ok(()),
                Reply::Exited(_) | Reply::Started | Reply::NotStarted(_) | Reply::Gone => {}
            }
        }
    }

    async fn reply(&mut self) -> Result<Reply, ProcessGuardError> {
        let reply = Reply::receive(&mut self.link, &mut self.received);
        awake(&self.guard, self.id, reply).await.map_err(|_| self.lose())
    }

    /// Gives up the guard. Orphans are killed soon, if they are adopted.
    fn lose(&mut self) -> ProcessGuardError {
        if !self.is_lost {
            self.is_lost = true;
            FAMILY.lose(&self.identity);
        }
        ProcessGuardError::Lost
    }

    /// Whether the guard runs.
    fn is_led(&mut self) -> bool {
        if !self.is_lost && !matches!(self.guard.try_wait(), Ok(None)) {
            self.lose();
        }
        !self.is_lost
    }
}

/// Awaits `work` of a guard, and continues the guard meanwhile.
async fn awake<T>(guard: &Child, id: Pid, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    loop {
        match timeout(RESUME_INTERVAL, &mut work).await {
            Ok(done) => return done,
            Err(_) => resume(guard, id),
        }
    }
}

/// Continues a guard that a program has stopped.
fn resume(guard: &Child, id: Pid) {
    // The id cannot be reused before the guard's exit was reaped.
    if guard.id().is_some() {
        let _gone = kill_process(id, Signal::CONT);
    }
}

/// Does not wait: it may run on a thread of the runtime.
impl Drop for Group {
    fn drop(&mut self) {
        if self.is_led() {
            FAMILY.spared().remove(&self.identity);
            // Closing the socket does the rest.
            resume(&self.guard, self.id);
        }
    }
}
