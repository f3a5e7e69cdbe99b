//! What makes sure that no child survives its worker.

use std::io;
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};

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

/// The leader of the process group of all children. It dies, and they with it, when its pipe
/// closes: when this is dropped, or when the worker's process is gone.
pub struct Guard {
    leader: Mutex<Leader>,
}

struct Leader {
    child: Child,
    group: i32,
}

impl Guard {
    /// Starts one.
    pub fn start() -> Result<Self, GuardError> {
        Ok(Self { leader: Mutex::new(Leader::start()?) })
    }

    /// The group for a new child. A guard that was killed is replaced: its group died with it.
    pub fn group(&self) -> Result<i32, GuardError> {
        let mut leader = self.leader.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(leader.child.try_wait(), Ok(None)) {
            *leader = Leader::start()?;
        }
        Ok(leader.group)
    }
}

impl Leader {
    fn start() -> Result<Self, GuardError> {
        let child = Command::new("/bin/sh")
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .kill_on_drop(false)
            .spawn()
            .map_err(GuardError::Start)?;
        let group = child.id().and_then(|id| i32::try_from(id).ok());
        let gone = || GuardError::Start(io::Error::other("it was gone at once"));
        Ok(Self { group: group.ok_or_else(gone)?, child })
    }
}
