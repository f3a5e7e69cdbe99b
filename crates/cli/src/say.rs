//! Writing to the terminal, which may have gone away.

use std::fmt::Arguments;
use std::io::{self, Write as _};

/// Writes a line to the output. Whoever closed it wants no more of it: that ends the program, and
/// is no failure.
pub(crate) fn write_line(line: Arguments<'_>) {
    let mut stdout = io::stdout().lock();
    if writeln!(stdout, "{line}").and_then(|()| stdout.flush()).is_err() {
        std::process::exit(0);
    }
}

/// Writes what is made already to the output. Whoever closed it wants no more of it, and is told
/// by the exit code what came of it.
pub(crate) fn write_bytes(bytes: &[u8]) {
    let mut stdout = io::stdout().lock();
    let _unread = stdout.write_all(bytes).and_then(|()| stdout.flush());
}

/// Writes a line about what goes on. Nothing depends on anybody reading it.
pub(crate) fn write_note(line: Arguments<'_>) {
    let _unread = writeln!(io::stderr().lock(), "{line}");
}

macro_rules! say {
    ($($line:tt)*) => { $crate::say::write_line(format_args!($($line)*)) };
}

macro_rules! note {
    ($($line:tt)*) => { $crate::say::write_note(format_args!($($line)*)) };
}

pub(crate) use {note, say};
