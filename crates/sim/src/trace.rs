//! What happened, line by line, the same for the same seed.

use std::collections::VecDeque;
use std::fmt::Write;

/// How many of the last lines are kept where not all are.
const TAIL: usize = 40;

/// A trace: all of it, or its end. Either way with a digest of everything.
#[derive(Clone, Debug)]
pub struct Trace {
    keep_all: bool,
    lines: VecDeque<String>,
    digest: u64,
    spare: String,
}

impl Trace {
    /// A trace that keeps every line, or only the last ones.
    #[must_use]
    pub const fn new(keep_all: bool) -> Self {
        // The digest is FNV-1a: not secret, only sensitive to every byte.
        Self {
            keep_all,
            lines: VecDeque::new(),
            digest: 0xcbf2_9ce4_8422_2325,
            spare: String::new(),
        }
    }

    /// Adds a line.
    pub fn line(&mut self, text: std::fmt::Arguments<'_>) {
        let mut line = std::mem::take(&mut self.spare);
        line.clear();
        // Writing to a string cannot fail.
        _ = line.write_fmt(text);
        for byte in line.bytes().chain([b'\n']) {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if !self.keep_all && self.lines.len() >= TAIL {
            self.spare = self.lines.pop_front().unwrap_or_default();
        }
        self.lines.push_back(line);
    }

    /// A number that differs if a single byte of two traces does.
    #[must_use]
    pub const fn digest(&self) -> u64 {
        self.digest
    }

    /// The lines that were kept, oldest first.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }
}
