//! Exit codes, and how signals end the program.

use std::process::ExitCode;

use shardwright_worker::StopSignal;
use tokio::signal::unix::{SignalKind, signal};

use crate::say::note;

/// The exit code of the program, a part of its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Success.
    Done = 0,
    /// A check failed, a secret was found, or a promise was broken.
    Findings = 1,
    /// An error, or a wrong command line.
    Error = 2,
    /// Done, except for parked, failed or unreadable items.
    Parked = 3,
    /// Too many items failed.
    TooManyFailures = 4,
    /// Interrupted; the same command resumes the run.
    Interrupted = 130,
}

/// The exit codes, for the help.
pub(crate) const HELP: &str = "Exit codes:
  0    done
  1    scan: secrets were found; verify: something does not hold; demo: a promise was broken;
       cluster drain --wait: the time is over and the node still has shards
  2    an error, a wrong command line, or an output that cannot be written
  3    done, but items are parked or have failed, or files could not be read
  4    stopped: too many items failed
  130  interrupted; the same command goes on (node: a second signal; nothing was handed over)";

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Stops the work at the first signal, and exits at the second. That loses nothing: what is
/// committed stays, and programs are killed with this process.
pub(crate) fn stop_on_signals(stop: StopSignal) -> anyhow::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::spawn(async move {
        tokio::select! {
            biased;
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        note!("stopping: items that have begun are finished; once more to end at once");
        stop.stop();
        tokio::select! {
            biased;
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        std::process::exit(Exit::Interrupted as i32);
    });
    Ok(())
}
