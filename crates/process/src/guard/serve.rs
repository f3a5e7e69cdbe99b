//! The guard process.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use command_fds::{CommandFdExt as _, FdMapping};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process_group, set_child_subreaper,
    set_parent_process_death_signal, wait,
};
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};

use super::descendants::{has_children, kill_descendants, terminate_descendants};
use super::wire::{Received, Reply, Request, Requests};

/// The name by which a process knows that it is a guard. The rest of its command line is empty.
/// `pkill -9 shardwright` must not match it: the guards end after their programs.
pub(super) const NAME: &str = "sw-guard";

/// Whether this program would serve as a guard if it were started as one.
static IS_SERVING: AtomicBool = AtomicBool::new(false);

/// Whether `main` has called [`run_as_guard`].
pub(super) fn is_serving() -> bool {
    IS_SERVING.load(Ordering::Relaxed)
}

/// Serves as a guard until the worker ends, if this process was started as one. Call this first in
/// `main`: [`ProcessGuard::start`](super::ProcessGuard::start) starts the program again.
#[must_use]
pub fn run_as_guard() -> Option<ExitCode> {
    if std::env::args_os().next().is_none_or(|name| name != OsStr::new(NAME)) {
        IS_SERVING.store(true, Ordering::Relaxed);
        return None;
    }
    let served = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .and_then(|runtime| runtime.block_on(serve()));
    clear(None);
    Some(served.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS))
}

/// Starts programs for the worker at the other end of stdin, one at a time, until it is gone.
async fn serve() -> io::Result<()> {
    set_child_subreaper(Some(getpid()))?;
    // As `NAME`.
    rustix::thread::set_name(c"sw-guard")?;
    // Continues a stopped guard when its worker dies. It is sent when the thread that started the
    // guard ends, and may be too early, which is harmless.
    set_parent_process_death_signal(Some(Signal::CONT))?;
    let link = StdUnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    link.set_nonblocking(true)?;
    let mut link = UnixStream::from_std(link)?;
    let mut ended = signal(SignalKind::child())?;
    let _ignored = ignore_signals()?;
    let (mut requests, mut program, mut is_ending) = (Requests::default(), None, false);
    loop {
        tokio::select! {
            biased;
            request = requests.next(&link) => match request? {
                None => return Ok(()),
                Some(Request::Terminate) => {
                    terminate_descendants();
                    is_ending = true;
                }
                Some(Request::Clear) => {
                    is_ending = false;
                    clear(program.take());
                    Reply::Cleared.send(&mut link).await?;
                }
                Some(Request::Start(launch)) => {
                    let reply = match start(launch) {
                        Ok(id) => {
                            program = Some(id);
                            Reply::Started
                        }
                        Err(error) => {
                            let unknown = Errno::INVAL.raw_os_error();
                            Reply::NotStarted(error.raw_os_error().unwrap_or(unknown))
                        }
                    };
                    reply.send(&mut link).await?;
                }
            },
            _ = ended.recv() => {}
        }
        let are_some_left = loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((id, status))) => {
                    if program.take_if(|program| *program == id).is_some() {
                        Reply::Exited(status.as_raw()).send(&mut link).await?;
                    }
                }
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        if !are_some_left && std::mem::take(&mut is_ending) {
            Reply::Gone.send(&mut link).await?;
        }
    }
}

/// Signals that a terminal, an operator or a program may send. A guard ends after its worker.
fn ignore_signals() -> io::Result<Vec<tokio::signal::unix::Signal>> {
    let kinds = [
        SignalKind::alarm(),
        SignalKind::hangup(),
        SignalKind::interrupt(),
        SignalKind::quit(),
        SignalKind::terminate(),
        SignalKind::user_defined1(),
        SignalKind::user_defined2(),
    ];
    kinds.into_iter().map(signal).collect()
}

/// Kills everything that programs have left.
fn clear(program: Option<Pid>) {
    if let Some(program) = program {
        // It was not reaped, so its id is not reused.
        let _none = kill_process_group(program, Signal::KILL);
    }
    if has_children() {
        kill_descendants(BTreeSet::new);
    }
}

fn start(launch: Received) -> io::Result<Pid> {
    let Received { program, arguments, variables, descriptors } = launch;
    let mut command = Command::new(program);
    command.args(arguments).envs(variables).stdin(Stdio::null()).process_group(0);
    let mut others = Vec::new();
    for (number, descriptor) in descriptors {
        match number {
            0 => _ = command.stdin(descriptor),
            1 => _ = command.stdout(descriptor),
            2 => _ = command.stderr(descriptor),
            _ => others.push(FdMapping { parent_fd: descriptor, child_fd: number.into() }),
        }
    }
    if !others.is_empty() {
        command.fd_mappings(others).map_err(io::Error::other)?;
    }
    let child = command.spawn()?;
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or_else(|| Errno::SRCH.into())
}
