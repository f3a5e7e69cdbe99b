//! Ensures that no program outlives its worker, or the work that was dropped.
//!
//! Every program runs in a process group of its own with all that it starts. A small process leads
//! the group and is started before the program: when the pipe from the worker closes, for whatever
//! reason, it kills the group. So there is no moment in which a program runs unguarded. A group
//! whose program exited normally is reused for the next one.

use std::io;
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

/// Ignores signals from a terminal or a child, waits for the end of its input, and then kills its
/// group, itself included.
const SCRIPT: &str = "trap '' HUP INT QUIT TERM; read -r _; kill -KILL 0";

/// Why programs cannot be guarded.
#[derive(Debug, thiserror::Error)]
pub enum ProcessGuardError {
    /// The leading process did not start.
    #[error("the process that guards children cannot be started with /bin/sh")]
    Start(#[source] io::Error),
}

/// Gives each program a process group that is killed when the worker's process ends.
pub struct ProcessGuard {
    idle: Mutex<Vec<Group>>,
}

impl ProcessGuard {
    /// Starts the first group, to check that groups can be started.
    pub fn start() -> Result<Self, ProcessGuardError> {
        Ok(Self { idle: Mutex::new(vec![Group::start()?]) })
    }

    /// Takes an unused group.
    pub(super) fn take(&self) -> Result<Group, ProcessGuardError> {
        loop {
            let Some(mut group) = self.idle().pop() else { return Group::start() };
            if group.is_led() {
                return Ok(group);
            }
        }
    }

    /// Returns a group whose program has exited.
    pub(super) fn put_back(&self, group: Group) {
        self.idle().push(group);
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Group>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A process group. Dropping it kills all processes in it.
pub(super) struct Group {
    leader: Child,
    id: Pid,
}

impl Group {
    pub(super) fn start() -> Result<Self, ProcessGuardError> {
        let leader = Command::new("/bin/sh")
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .kill_on_drop(false)
            .spawn()
            .map_err(ProcessGuardError::Start)?;
        let id = leader.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let gone = || ProcessGuardError::Start(io::Error::other("it was gone at once"));
        Ok(Self { id: id.ok_or_else(gone)?, leader })
    }

    /// The group id that a program's process joins.
    pub(super) const fn id(&self) -> i32 {
        self.id.as_raw_nonzero().get()
    }

    /// Whether its leader runs. Without it, the group would not be killed.
    fn is_led(&mut self) -> bool {
        matches!(self.leader.try_wait(), Ok(None))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The id cannot be reused before the leader's exit was reaped.
        if self.leader.id().is_some() {
            let _no_process = kill_process_group(self.id, Signal::KILL);
        }
    }
}
