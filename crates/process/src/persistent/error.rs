use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use super::message::VERSION;
use crate::ProcessGuardError;
use crate::limits::timed_out;
use crate::run::{describe, with_stderr};

/// Why a persistent program is replaced. Its unfinished items go to its successor.
#[derive(Debug, thiserror::Error)]
pub enum PersistentError {
    /// The program does not exist, or is not executable.
    #[error("{program} cannot be started: {error}")]
    Start {
        /// The program.
        program: String,
        /// The error of the operating system.
        error: io::Error,
    },
    /// Its process group could not be started.
    #[error(transparent)]
    Guard(#[from] ProcessGuardError),
    /// No pipes for its messages, or no files for its output.
    #[error("no descriptors are available for the worker: {0}")]
    Descriptors(#[source] io::Error),
    /// No hello in time.
    #[error("the worker sent no hello within {seconds} s; does it implement the worker protocol?")]
    NoHello {
        /// The timeout.
        seconds: u64,
    },
    /// Another message before hello.
    #[error("the worker's first line is not a hello; does it implement the worker protocol?")]
    HelloNotFirst,
    /// Another version of the protocol.
    #[error(
        "the worker uses version {found} of the protocol; this program uses {known}",
        known = VERSION
    )]
    Version {
        /// Its version.
        found: u64,
    },
    /// A line that is no message.
    #[error("the worker sent a malformed line: {line}")]
    Malformed {
        /// The beginning of the line.
        line: String,
    },
    /// A line beyond the limit.
    #[error("the worker sent a line of more than {limit} bytes")]
    TooLong {
        /// The limit.
        limit: usize,
    },
    /// An answer for an item that it does not hold.
    #[error("the worker answered for item {id}, which it does not hold")]
    UnknownItem {
        /// The id.
        id: u64,
    },
    /// It exited before its input was closed.
    #[error("the worker ended unexpectedly: {}", with_stderr(describe(*status), stderr))]
    Ended {
        /// How it ended.
        status: ExitStatus,
        /// The end of its stderr.
        stderr: Vec<u8>,
    },
    /// It closed its output, but has not exited.
    #[error("the worker closed its output before it had answered for all items")]
    Closed,
    /// It answered nothing in time, although it held items.
    #[error("{}", timed_out(*limit))]
    TimedOut {
        /// The timeout.
        limit: Duration,
    },
    /// It did not give up revoked items.
    #[error("the worker did not give up revoked items within {milliseconds} ms")]
    Deaf {
        /// The timeout.
        milliseconds: u128,
    },
}
