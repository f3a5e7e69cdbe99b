//! Writing to the terminal, which may have gone away.
//!
//! What is told serves the work, and not the other way round: nothing ends because nobody reads.
//! Whoever closed the output wants no more of it, and learns from the exit code what came of the
//! work. An output that cannot be written for another reason lacks something that somebody counts
//! on: the work goes on then as well, and the program ends with an error.

use std::fmt::Arguments;
use std::io::{self, Write as _};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use shardwright_jobs::readable::printable;

/// What has become of the output so far.
static OUTPUT: Fate = Fate { is_closed: AtomicBool::new(false), trouble: OnceLock::new() };

struct Fate {
    is_closed: AtomicBool,
    /// Why something is missing in it, for the first time.
    trouble: OnceLock<io::Error>,
}

impl Fate {
    fn note(&self, written: io::Result<()>) {
        match written {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.is_closed.store(true, Ordering::Relaxed);
            }
            Err(error) => drop(self.trouble.set(error)),
        }
    }
}

/// Writes a line to the output, in which nothing is obeyed by a terminal.
pub(crate) fn write_line(line: Arguments<'_>) {
    write_bytes(format!("{}\n", shown(line)).as_bytes());
}

/// Writes a line for programs to the output, as it is.
pub(crate) fn write_data(line: &str) {
    write_bytes(format!("{line}\n").as_bytes());
}

/// Writes what is made already to the output, as it is.
pub(crate) fn write_bytes(bytes: &[u8]) {
    if !OUTPUT.is_closed.load(Ordering::Relaxed) {
        let mut stdout = io::stdout().lock();
        note_written(stdout.write_all(bytes).and_then(|()| stdout.flush()));
    }
}

/// Notes whether something could be written to the output.
pub(crate) fn note_written(written: io::Result<()>) {
    OUTPUT.note(written);
}

/// Why something is missing in the output that somebody may read.
pub(crate) fn output_trouble() -> Option<&'static io::Error> {
    OUTPUT.trouble.get()
}

/// Writes a line about what goes on. Nothing depends on anybody reading it.
pub(crate) fn write_note(line: Arguments<'_>) {
    let _unread = writeln!(io::stderr().lock(), "{}", shown(line));
}

fn shown(text: Arguments<'_>) -> String {
    let text = text.to_string();
    let lines: Vec<_> = text.split('\n').map(printable).collect();
    lines.join("\n")
}

macro_rules! say {
    ($($line:tt)*) => { $crate::say::write_line(format_args!($($line)*)) };
}

macro_rules! note {
    ($($line:tt)*) => { $crate::say::write_note(format_args!($($line)*)) };
}

pub(crate) use {note, say};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_closes_the_output_is_no_trouble_and_a_full_disk_is() {
        let fate = Fate { is_closed: AtomicBool::new(false), trouble: OnceLock::new() };
        fate.note(Ok(()));
        assert!(!fate.is_closed.load(Ordering::Relaxed));
        fate.note(Err(io::ErrorKind::BrokenPipe.into()));
        assert!(fate.is_closed.load(Ordering::Relaxed) && fate.trouble.get().is_none());
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::Other] {
            fate.note(Err(kind.into()));
        }
        assert_eq!(fate.trouble.get().map(io::Error::kind), Some(io::ErrorKind::StorageFull));
    }

    #[test]
    fn lines_stay_lines_and_obey_nothing() {
        assert_eq!(shown(format_args!("a\n\x1b[2Jb\r")), "a\n\\x1b[2Jb\\r");
    }
}
