//! Killing all descendants of this process.
//!
//! A process that a program starts can leave the program's process group and session, but not the
//! descendants of its guard: the guard is a subreaper, so the kernel makes it the parent of every
//! orphan below it. `/proc` lists processes with their parents.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, pidfd_open, pidfd_send_signal, wait, waitpid,
};

/// How long to wait for killed processes to end. One in an uninterruptible system call executes
/// nothing more, even if it ends later.
const KILL_WAIT: Duration = Duration::from_secs(5);
/// How long to wait for one process, before looking for others again.
const POLL_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// The id of a process and the time of its start, which distinguishes it from a later one of the
/// same id.
pub(super) type Identity = (i32, u64);

/// A process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Process {
    id: i32,
    parent: i32,
    started: u64,
}

/// Kills all descendants of this process, except those that are `spared` now and their descendants.
/// Returns when they have ended, or after a timeout.
///
/// They are first stopped, then killed: a stopped process starts no other, so that even processes
/// that multiply are found in the end.
pub(super) fn kill_descendants(spared: impl Fn() -> BTreeSet<Identity>) {
    let deadline = Instant::now() + KILL_WAIT;
    let mut stopped = BTreeSet::new();
    loop {
        let listed: Vec<Process> = processes().collect();
        // After the list: a process in it that is to be spared is known by now.
        let spared = spared();
        let Scan { found, has_reaped } = descendants_of(own_id(), listed, &spared, is_reaped);
        // A scan can miss a process that is re-parented meanwhile. `wait` still counts it as a
        // child. Where other children stay, only a scan that reaped none is complete.
        let is_over = if spared.is_empty() { !has_children() } else { !has_reaped };
        if found.is_empty() && is_over {
            return;
        }
        let is_late = Instant::now() > deadline;
        let new: Vec<Process> =
            found.iter().filter(|process| stopped.insert(process.identity())).copied().collect();
        for process in &new {
            process.signal(Signal::STOP);
        }
        if new.is_empty() || is_late {
            let killed: Vec<OwnedFd> =
                found.iter().filter_map(|process| process.signal(Signal::KILL)).collect();
            let last = killed.last().map(|last| PollFd::new(last, PollFlags::IN));
            // Without a process that may be killed, this is a pause.
            let _ended = poll(&mut Vec::from_iter(last), Some(&POLL_WAIT));
        }
        if is_late {
            return;
        }
    }
}

/// Sends SIGTERM to all descendants of this process. Those that are stopped are continued, so that
/// they can end.
pub(super) fn terminate_descendants() {
    for process in descendants_of(own_id(), processes(), &BTreeSet::new(), |_| false).found {
        process.signal(Signal::TERM);
        process.signal(Signal::CONT);
    }
}

/// Whether this process has children. Reaps those that have ended.
pub(super) fn has_children() -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// The process that has an id now.
pub(super) fn identity_of(id: Pid) -> Option<Identity> {
    Process::read(id.as_raw_nonzero().get()).map(Process::identity)
}

/// The descendants that this process has now, except `spared` ones and their descendants.
pub(super) fn current_descendants(spared: &BTreeSet<Identity>) -> BTreeSet<Identity> {
    let scan = descendants_of(own_id(), processes(), spared, |_| false);
    scan.found.into_iter().map(Process::identity).collect()
}

impl Process {
    const fn identity(self) -> Identity {
        (self.id, self.started)
    }

    /// Sends a signal to this process, and to no later one of the same id.
    fn signal(self, signal: Signal) -> Option<OwnedFd> {
        let descriptor = pidfd_open(Pid::from_raw(self.id)?, PidfdFlags::empty()).ok()?;
        // The descriptor is of the process that has the id now.
        if Self::read(self.id)?.started != self.started {
            return None;
        }
        pidfd_send_signal(&descriptor, signal).ok()?;
        Some(descriptor)
    }

    fn read(id: i32) -> Option<Self> {
        let stat = fs::read(format!("/proc/{id}/stat")).ok()?;
        // The name may contain spaces and parentheses.
        let at = stat.iter().rposition(|byte| *byte == b')')?;
        let text = std::str::from_utf8(stat.get(at + 1..)?).ok()?;
        let mut fields = text.split_ascii_whitespace();
        let parent = fields.nth(1)?.parse().ok()?;
        let started = fields.nth(17)?.parse().ok()?;
        Some(Self { id, parent, started })
    }
}

/// Live descendants at the time of a scan.
#[derive(Debug, Default)]
struct Scan {
    found: Vec<Process>,
    /// Whether a child had ended. Its own children may be missing.
    has_reaped: bool,
}

fn own_id() -> i32 {
    getpid().as_raw_nonzero().get()
}

/// All processes that `/proc` lists.
fn processes() -> impl Iterator<Item = Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    ids.filter_map(Process::read)
}

/// The descendants of `own` in a list. `is_reaped` is called for its children.
fn descendants_of(
    own: i32,
    processes: impl IntoIterator<Item = Process>,
    spared: &BTreeSet<Identity>,
    is_reaped: impl Fn(i32) -> bool,
) -> Scan {
    let mut children: BTreeMap<i32, Vec<Process>> = BTreeMap::new();
    for process in processes {
        children.entry(process.parent).or_default().push(process);
    }
    let (mut parents, mut scan) = (vec![own], Scan::default());
    while let Some(parent) = parents.pop() {
        for process in children.remove(&parent).unwrap_or_default() {
            if spared.contains(&process.identity()) {
                continue;
            }
            // The list may be older than the end of a child, and name it as a parent.
            parents.push(process.id);
            if parent == own && is_reaped(process.id) {
                scan.has_reaped = true;
            } else {
                scan.found.push(process);
            }
        }
    }
    scan
}

/// Whether a child has ended. Reaps it.
fn is_reaped(id: i32) -> bool {
    let id = Pid::from_raw(id);
    id.is_some() && matches!(waitpid(id, WaitOptions::NOHANG), Ok(Some(_)) | Err(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_process_is_read_from_proc() {
        let (own, parent) = (getpid(), rustix::process::getppid().unwrap());
        let read = Process::read(own.as_raw_nonzero().get()).unwrap();
        assert_eq!(read.parent, parent.as_raw_nonzero().get());
        assert!(read.started > 0);
    }

    #[test]
    fn children_of_a_child_that_ends_during_the_scan_are_found() {
        let process = |id, parent| Process { id, parent, started: 1 };
        let list = [process(2, 1), process(3, 2), process(4, 3), process(5, 1), process(6, 5)];
        let scan = descendants_of(1, list, &BTreeSet::from([(5, 1), (3, 2)]), |id| id == 2);
        assert_eq!(scan.found, [process(3, 2), process(4, 3)]);
        assert!(scan.has_reaped);
    }
}
