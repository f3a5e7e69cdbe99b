use std::io;

use super::message::VERSION;
use crate::GuardError;

/// What is wrong with a program that is to stay up. It is started anew, and what it had is given
/// to its successor.
#[derive(Debug, thiserror::Error)]
pub enum PersistentError {
    /// There is no such program, or it may not be run.
    #[error("{program} cannot be started: {error}")]
    Start {
        /// The program.
        program: String,
        /// What the system said.
        error: io::Error,
    },
    /// It could not be put under guard.
    #[error(transparent)]
    Guard(#[from] GuardError),
    /// No pipes could be had for it, or no file for what it writes.
    #[error("no descriptors can be had for the worker: {0}")]
    Descriptors(#[source] io::Error),
    /// It did not begin with its version.
    #[error("the worker did not say hello within {seconds} s; does it speak the worker protocol?")]
    NoHello {
        /// How long it had.
        seconds: u64,
    },
    /// It said something else first.
    #[error("the worker's first line is no hello; does it speak the worker protocol?")]
    HelloNotFirst,
    /// It speaks another version.
    #[error("the worker speaks version {found} of the protocol; known is {known}", known = VERSION)]
    Version {
        /// Which.
        found: u64,
    },
    /// A line of it makes no sense.
    #[error("the worker said what makes no sense: {line}")]
    Malformed {
        /// The beginning of the line.
        line: String,
    },
    /// A line of it has no end.
    #[error("the worker began a line of more than {limit} bytes")]
    TooLong {
        /// The longest line that is read.
        limit: usize,
    },
    /// It answered for an item that it does not have.
    #[error("the worker answered for item {id}, which it does not have")]
    UnknownItem {
        /// The id it gave.
        id: u64,
    },
    /// It is gone.
    #[error("the worker ended unasked: {how}")]
    Ended {
        /// How it ended, and what it said last.
        how: String,
    },
    /// It will not answer any more, but has not ended.
    #[error("the worker closed its answers before it had given them all")]
    Closed,
    /// It went on with what is not its own any more.
    #[error("the worker did not give items back within {milliseconds} ms")]
    Deaf {
        /// How long it had.
        milliseconds: u128,
    },
}
