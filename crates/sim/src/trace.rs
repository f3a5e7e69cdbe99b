//! The trace of a world. The same seed gives the same lines.

use std::collections::VecDeque;
use std::fmt::Write;

use crate::oracle::Finding;

/// Number of last lines that a short trace keeps.
const TAIL: usize = 40;

/// A whole trace or its end, with a digest of all lines.
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
        // The digest is FNV-1a, which need not be cryptographic.
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

    /// Adds a line for each violation.
    pub fn violations(&mut self, findings: &[Finding]) {
        for finding in findings {
            self.line(format_args!("VIOLATION of {}: {}", finding.oracle, finding.text));
        }
    }

    /// A digest of all lines.
    #[must_use]
    pub const fn digest(&self) -> u64 {
        self.digest
    }

    /// The kept lines, oldest first.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }
}
