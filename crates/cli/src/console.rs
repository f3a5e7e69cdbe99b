//! Output to stdout and stderr.
//!
//! A failed write never ends the work. If the reader closes stdout, the program writes no more and
//! exits with the code of the work. If stdout cannot be written for another reason, such as a full
//! disk, the work continues and the program exits with an error.

use std::fmt::Arguments;
use std::io::{self, Write as _};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use shardwright_jobs::readable::printable;

static STDOUT: StdoutState = StdoutState::new();

/// The outcome of all writes to stdout so far.
struct StdoutState {
    /// The reader has closed stdout.
    is_closed: AtomicBool,
    /// The first error other than a closed stdout.
    error: OnceLock<io::Error>,
}

impl StdoutState {
    const fn new() -> Self {
        Self { is_closed: AtomicBool::new(false), error: OnceLock::new() }
    }

    fn record(&self, written: io::Result<()>) {
        match written {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.is_closed.store(true, Ordering::Relaxed);
            }
            Err(error) => drop(self.error.set(error)),
        }
    }
}

/// Writes a line to stdout, with control characters escaped.
pub(crate) fn write_line(line: Arguments<'_>) {
    write_bytes(format!("{}\n", escaped(line)).as_bytes());
}

/// Writes a line of data to stdout unchanged.
pub(crate) fn write_data(line: &str) {
    write_bytes(format!("{line}\n").as_bytes());
}

/// Writes bytes to stdout unchanged.
pub(crate) fn write_bytes(bytes: &[u8]) {
    if !STDOUT.is_closed.load(Ordering::Relaxed) {
        let mut stdout = io::stdout().lock();
        record_stdout_write(stdout.write_all(bytes).and_then(|()| stdout.flush()));
    }
}

/// Records the outcome of a write to stdout.
pub(crate) fn record_stdout_write(written: io::Result<()>) {
    STDOUT.record(written);
}

/// The first error of a write to stdout, except that its reader has closed it.
pub(crate) fn stdout_error() -> Option<&'static io::Error> {
    STDOUT.error.get()
}

/// Writes a line to stderr, with control characters escaped. Errors are ignored.
pub(crate) fn write_error_line(line: Arguments<'_>) {
    let _ignored = writeln!(io::stderr().lock(), "{}", escaped(line));
}

fn escaped(text: Arguments<'_>) -> String {
    let text = text.to_string();
    let lines: Vec<_> = text.split('\n').map(printable).collect();
    lines.join("\n")
}

/// Formats a line and writes it to stdout.
macro_rules! outln {
    ($($line:tt)*) => { $crate::console::write_line(format_args!($($line)*)) };
}

/// Formats a line and writes it to stderr.
macro_rules! errln {
    ($($line:tt)*) => { $crate::console::write_error_line(format_args!($($line)*)) };
}

pub(crate) use {errln, outln};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_stdout_is_no_error_and_a_full_disk_is() {
        let state = StdoutState::new();
        state.record(Ok(()));
        assert!(!state.is_closed.load(Ordering::Relaxed));
        state.record(Err(io::ErrorKind::BrokenPipe.into()));
        assert!(state.is_closed.load(Ordering::Relaxed) && state.error.get().is_none());
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::Other] {
            state.record(Err(kind.into()));
        }
        assert_eq!(state.error.get().map(io::Error::kind), Some(io::ErrorKind::StorageFull));
    }

    #[test]
    fn control_characters_are_escaped_except_newlines() {
        assert_eq!(escaped(format_args!("a\n\x1b[2Jb\r")), "a\n\\x1b[2Jb\\r");
    }
}
