//! Scanning a file window by window.
//!
//! Windows overlap. A match that starts in the overlap is left to the next window, which contains
//! all of it. So findings do not depend on where windows end, as long as matches are not longer
//! than the overlap.

use std::io::{self, Read};

use super::candidate::Position;
use super::candidate::{Found, LINE};
use super::matching::Window;
use super::{MOST_FINDINGS, Scanner, Scratch};
use crate::finding::{FileReport, Skipped};

/// Size of the first read, which decides whether the file is text.
const FIRST_READ: usize = 64 << 10;
/// Bytes that decide whether a file is text.
const SAMPLE: usize = 8 << 10;

/// The size of windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    size: usize,
    overlap: usize,
}

impl Windows {
    /// Windows of at most `size` bytes that overlap by `overlap`, plus some context. A size that is
    /// too small for that is raised.
    #[must_use]
    pub const fn new(size: usize, overlap: usize) -> Self {
        let least = 2 * (overlap + LINE) + 1;
        Self { size: if size < least { least } else { size }, overlap }
    }

    pub(super) const fn overlap(self) -> usize {
        self.overlap
    }
}

impl Default for Windows {
    /// One mebibyte with an overlap of 64 kibibytes.
    fn default() -> Self {
        Self::new(1 << 20, 64 << 10)
    }
}

/// A file that is being scanned.
#[derive(Debug)]
pub struct FileScan<'s> {
    scanner: &'s Scanner,
    path: &'s [u8],
    scratch: &'s mut Scratch,
    /// Filled bytes of the window.
    filled: usize,
    /// Where new matches may start in the window.
    fresh: usize,
    /// Offset of the window in the file.
    offset: u64,
    position: Position,
    findings: Vec<(usize, Found)>,
    omitted: u64,
    skipped: Option<Skipped>,
    is_type_known: bool,
}

impl<'s> FileScan<'s> {
    pub(super) fn new(scanner: &'s Scanner, path: &'s [u8], scratch: &'s mut Scratch) -> Self {
        scratch.prepare(&scanner.identity, scanner.set.rules.len(), scanner.windows.size);
        let skipped = scanner.is_allowed(path).then_some(Skipped::Allowed);
        Self {
            scanner,
            path,
            scratch,
            filled: 0,
            fresh: 0,
            offset: 0,
            position: Position::default(),
            findings: Vec::new(),
            omitted: 0,
            skipped,
            is_type_known: false,
        }
    }

    /// Whether the rest of the file is needed.
    #[must_use]
    pub const fn wants_more(&self) -> bool {
        self.skipped.is_none()
    }

    /// Bytes of the file that were added.
    #[must_use]
    pub fn taken(&self) -> usize {
        usize::try_from(self.offset).unwrap_or(usize::MAX).saturating_add(self.filled)
    }

    /// Adds the next bytes of the file.
    pub fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.wants_more() {
            let free = self.free(usize::MAX);
            let taken = free.len().min(bytes.len());
            let (now, later) = bytes.split_at_checked(taken).unwrap_or((bytes, &[]));
            if let Some(free) = free.get_mut(..taken) {
                free.copy_from_slice(now);
            }
            bytes = later;
            self.took(taken);
        }
    }

    /// Reads the next bytes of the file. Returns 0 at the end, or if no more are needed.
    pub fn read(&mut self, reader: &mut impl Read) -> io::Result<usize> {
        if !self.wants_more() {
            return Ok(0);
        }
        let limit = if self.is_type_known { usize::MAX } else { FIRST_READ };
        let taken = loop {
            match reader.read(self.free(limit)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        self.took(taken);
        Ok(taken)
    }

    /// Finishes the scan, and returns the findings.
    #[must_use]
    pub fn finish(mut self) -> FileReport {
        self.check_type();
        if self.wants_more() {
            self.search(true);
        }
        let mut findings = std::mem::take(&mut self.findings);
        self.scanner.drop_shadowed(&mut findings);
        findings.sort_by_key(|(rule, found)| (found.span, *rule));
        let allowed = self.skipped == Some(Skipped::Allowed);
        let by_path = if allowed { Vec::new() } else { self.scanner.by_path(self.path) };
        let findings = by_path.into_iter().chain(findings.into_iter().map(|(_, found)| found));
        FileReport { findings: findings.collect(), omitted: self.omitted, skipped: self.skipped }
    }

    /// The free part of the window. A full window advances first.
    fn free(&mut self, limit: usize) -> &mut [u8] {
        if self.filled >= self.scratch.window.len() {
            self.search(false);
            self.advance();
        }
        let free = self.scratch.window.get_mut(self.filled..).unwrap_or_default();
        let length = free.len().min(limit);
        free.get_mut(..length).unwrap_or_default()
    }

    fn took(&mut self, taken: usize) {
        self.filled += taken;
        if self.filled >= SAMPLE {
            self.check_type();
        }
    }

    /// Decides once whether the file is text.
    fn check_type(&mut self) {
        if std::mem::replace(&mut self.is_type_known, true) || !self.wants_more() {
            return;
        }
        let sample = self.scratch.window.get(..self.filled.min(SAMPLE)).unwrap_or_default();
        if memchr::memchr(0, sample).is_some() {
            self.skipped = Some(Skipped::Binary);
        }
    }

    /// The end of match starts in this window, if it is not the last.
    fn settled(&self) -> usize {
        self.filled.saturating_sub(self.scanner.windows.overlap)
    }

    fn search(&mut self, is_last: bool) {
        let until = if is_last { self.filled } else { self.settled() };
        let Some(bytes) = self.scratch.window.get(..self.filled) else { return };
        let window = Window {
            path: self.path,
            bytes,
            fresh: (self.fresh, until),
            offset: self.offset,
            position: self.position,
        };
        let (findings, omitted) = (&mut self.findings, &mut self.omitted);
        self.scanner.search(window, &mut self.scratch.rules, |rule, found| {
            if findings.len() < MOST_FINDINGS {
                findings.push((rule, found));
            } else {
                *omitted += 1;
            }
        });
    }

    /// Drops the searched bytes, except some context.
    fn advance(&mut self) {
        let settled = self.settled();
        let dropped = settled.saturating_sub(LINE);
        if let Some(bytes) = self.scratch.window.get(..dropped) {
            self.position = self.position.after(bytes);
        }
        self.scratch.window.copy_within(dropped..self.filled, 0);
        self.filled -= dropped;
        self.fresh = settled - dropped;
        self.offset += dropped as u64;
    }
}

impl Scanner {
    /// Drops findings of generic rules that overlap those of specific rules.
    fn drop_shadowed(&self, findings: &mut Vec<(usize, Found)>) {
        let is_generic =
            |rule: usize| self.set.rules.get(rule).is_some_and(crate::rules::Rule::is_generic);
        let bounds =
            |found: &Found| found.span.map(|span| (span.offset, span.offset + span.length));
        let specific = findings.iter().filter(|(rule, _)| !is_generic(*rule));
        let mut specific: Vec<(u64, u64)> =
            specific.filter_map(|(_, found)| bounds(found)).collect();
        specific.sort_unstable();
        // Replace each end by the largest end so far.
        let mut furthest = 0;
        for (_, end) in &mut specific {
            furthest = (*end).max(furthest);
            *end = furthest;
        }
        findings.retain(|(rule, found)| {
            let (true, Some((start, end))) = (is_generic(*rule), bounds(found)) else {
                return true;
            };
            let before = specific.partition_point(|(begin, _)| *begin < end);
            let last = before.checked_sub(1).and_then(|last| specific.get(last));
            last.is_none_or(|(_, reach)| *reach <= start)
        });
    }
}
