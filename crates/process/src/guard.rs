//! What makes sure that no program goes on after its worker, or after its work was dropped.
//!
//! Every program lives in a process group of its own with all that it starts. A tiny process leads
//! the group and was there before the program: when the pipe from the worker closes, however that
//! came, it kills the group. So nobody has to learn of a program after its start, which would be
//! too late if the worker was killed in between. A group whose program ended well is used again
//! for the next, which then costs no more than without.

use std::io;
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

/// Ignores what a terminal or a child may send to the group, waits for the end of its input, and
/// then ends everybody in its group, itself included.
const SCRIPT: &str = "trap '' HUP INT QUIT TERM; read -r _; kill -KILL 0";

/// Why children cannot be guarded.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// It did not start.
    #[error("the process that guards children cannot be started with /bin/sh")]
    Start(#[source] io::Error),
}

/// Gives each program a process group that dies when the worker's process is gone.
pub struct Guard {
    idle: Mutex<Vec<Group>>,
}

impl Guard {
    /// Starts the first group, to learn whether that can be done at all.
    pub fn start() -> Result<Self, GuardError> {
        Ok(Self { idle: Mutex::new(vec![Group::start()?]) })
    }

    /// A group that nobody else has.
    pub(super) fn take(&self) -> Result<Group, GuardError> {
        loop {
            let Some(mut group) = self.idle().pop() else { return Group::start() };
            if group.is_led() {
                return Ok(group);
            }
        }
    }

    /// Takes a group back whose program has ended.
    pub(super) fn put_back(&self, group: Group) {
        self.idle().push(group);
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Group>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A process group. Whoever drops it kills everybody in it.
pub(super) struct Group {
    leader: Child,
    id: Pid,
}

impl Group {
    pub(super) fn start() -> Result<Self, GuardError> {
        let leader = Command::new("/bin/sh")
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .kill_on_drop(false)
            .spawn()
            .map_err(GuardError::Start)?;
        let id = leader.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let gone = || GuardError::Start(io::Error::other("it was gone at once"));
        Ok(Self { id: id.ok_or_else(gone)?, leader })
    }

    /// What a program's process is told to join.
    pub(super) const fn id(&self) -> i32 {
        self.id.as_raw_nonzero().get()
    }

    /// Whether its leader lives. Without it, nobody would end the group.
    fn is_led(&mut self) -> bool {
        matches!(self.leader.try_wait(), Ok(None))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Until its leader's end was seen, nobody else can have its number.
        if self.leader.id().is_some() {
            let _nobody_left = kill_process_group(self.id, Signal::KILL);
        }
    }
}
