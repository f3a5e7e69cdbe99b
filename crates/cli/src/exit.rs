//! Exit codes, and the handling of signals.

use std::process::ExitCode;

use shardwright_worker::StopSignal;
use tokio::signal::unix::{SignalKind, signal};

use crate::console::{self, errln};

/// The exit code of the program, a part of its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Success.
    Done = 0,
    /// A check failed, a secret was found, a promise was broken, or a drain timed out.
    Findings = 1,
    /// An error, or an invalid command line.
    Error = 2,
    /// Finished, except for parked, failed or unreadable items.
    Parked = 3,
    /// Too many items failed.
    TooManyFailures = 4,
    /// Interrupted; the same command resumes the run.
    Interrupted = 130,
}

/// All exit codes, for the help.
pub(crate) const CODES: &str = "Exit codes:
  0    success
  1    scan: secrets found; verify: receipt does not hold; demo: promise broken;
       cluster drain --wait: timed out
  2    error, invalid command line, or stdout could not be written
  3    finished, but items are parked or failed, or files could not be read
  4    stopped: more items failed than --max-failures allows
  130  interrupted; the same command resumes the run";

/// The exit codes of `run` and `retry`.
pub(crate) const RUN_CODES: &str = "Exit codes:
  0    all items are done
  2    error, invalid command line, or stdout could not be written
  3    finished, but items are parked or failed, or files could not be read
  4    stopped: more items failed than --max-failures allows
  130  interrupted; the same command resumes the run";

/// The exit codes of `scan`.
pub(crate) const SCAN_CODES: &str = "Exit codes:
  0    no secrets found
  1    secrets found
  2    error, invalid command line, or stdout could not be written
  3    no secrets found, but some files could not be scanned
  4    stopped: more items failed than --max-failures allows
  130  interrupted; the same command resumes the scan";

/// The exit codes of `verify`.
pub(crate) const VERIFY_CODES: &str = "Exit codes:
  0    the receipt holds
  1    the receipt does not hold
  2    error, invalid command line, or stdout could not be written";

/// The exit codes of `node`.
pub(crate) const NODE_CODES: &str = "Exit codes:
  0    stopped by a signal, after all shards were handed over
  2    error, invalid command line, or stdout could not be written
  130  stopped by a second signal, or before the node had joined; its shards move
       when the session expires";

/// The exit codes of `gate`.
pub(crate) const GATE_CODES: &str = "Exit codes:
  0    stopped by a signal, after the calls in progress
  2    error, invalid command line, or stdout could not be written
  130  stopped by a second signal, or while waiting for the cluster";

/// The exit codes of `cluster drain`.
pub(crate) const DRAIN_CODES: &str = "Exit codes:
  0    success
  1    --wait timed out: the node still has shards
  2    error, invalid command line, or stdout could not be written";

/// The exit codes of `demo`.
pub(crate) const DEMO_CODES: &str = "Exit codes:
  0    every promise was kept
  1    a promise was broken
  2    error, invalid command line, or stdout could not be written
  130  interrupted";

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Stops the workers at the first signal, and exits at the second. Neither loses committed work.
/// Child processes are killed together with this process.
pub(crate) fn stop_on_signals(stop: StopSignal) -> anyhow::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::spawn(async move {
        tokio::select! {
            biased;
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        errln!("stopping: finishing the items in progress; interrupt again to exit at once");
        stop.stop();
        tokio::select! {
            biased;
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        // The shell's prompt must not be in the middle of the live view.
        console::leave();
        std::process::exit(Exit::Interrupted as i32);
    });
    Ok(())
}
