//! Output to stdout and stderr.
//!
//! A failed write never ends the work. If the reader closes stdout, the program writes no more and
//! exits with the code of the work. If stdout cannot be written for another reason, such as a full
//! disk, the work continues and the program exits with an error.
//!
//! On a terminal, a live view may occupy the last rows of stderr. Every other line is written above
//! it.

mod frame;

use std::fmt::Arguments;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use shardwright_jobs::readable::printable;

use self::frame::Frame;

static STDOUT: StdoutState = StdoutState::new();
/// The live view on stderr.
static FRAME: Mutex<Frame> = Mutex::new(Frame::new());

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
    if STDOUT.is_closed.load(Ordering::Relaxed) {
        return;
    }
    let mut stdout = io::stdout().lock();
    // A reader that is not a terminal may block, and must not hold up the view.
    if !stdout.is_terminal() {
        record_stdout_write(stdout.write_all(bytes).and_then(|()| stdout.flush()));
        return;
    }
    let mut frame = frame();
    let _erased = io::stderr().lock().write_all(&frame.erase(terminal_width()));
    record_stdout_write(stdout.write_all(bytes).and_then(|()| stdout.flush()));
    let _drawn = io::stderr().lock().write_all(&frame.redraw(terminal_width()));
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
    draw_above(&format!("{}\n", escaped(line)), None);
}

/// Draws the live view on stderr in place of the one before, below some lines.
pub(crate) fn draw(above: &str, lines: Vec<String>) {
    draw_above(above, Some(lines));
}

/// Erases the live view before the program exits, unless a write to stderr is in progress.
pub(crate) fn leave() {
    if let Ok(mut frame) = FRAME.try_lock() {
        let _ignored = io::stderr().lock().write_all(&frame.erase(terminal_width()));
    }
}

fn draw_above(above: &str, lines: Option<Vec<String>>) {
    let mut frame = frame();
    let mut bytes = frame.erase(terminal_width());
    bytes.extend_from_slice(above.as_bytes());
    if let Some(lines) = lines {
        frame.set(lines);
    }
    bytes.extend(frame.redraw(terminal_width()));
    // One write, so that a terminal shows no state in between.
    let _ignored = io::stderr().lock().write_all(&bytes);
}

fn frame() -> MutexGuard<'static, Frame> {
    FRAME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The columns of the terminal of stderr, or 80.
pub(crate) fn terminal_width() -> usize {
    terminal_size().map_or(80, |(columns, _)| columns)
}

/// The columns and rows of the terminal of stderr.
pub(crate) fn terminal_size() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(io::stderr()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then(|| (size.ws_col.into(), size.ws_row.into()))
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
