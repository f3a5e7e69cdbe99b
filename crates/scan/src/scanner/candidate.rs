//! Deciding whether a match is a finding.

use std::ops::Range;

use memchr::{memchr, memchr_iter, memmem, memrchr};
use regex_automata::Match;

use super::Scanner;
use super::matching::Window;
use crate::finding::{Finding, Fingerprint, Span};
use crate::rules::{Candidate, Rule};

/// Most bytes of the line on either side of a match.
pub(super) const LINE: usize = 4_096;

/// Comments that allow a secret in their line.
const MARKS: [&[u8]; 2] = [b"shardwright:allow", b"gitleaks:allow"];

/// A finding that no allowlist allows.
pub(super) type Found = Finding;

impl Scanner {
    /// The finding of a match. None if its entropy is too low, or it is allowed.
    pub(super) fn finding(
        &self,
        window: Window<'_>,
        rule: &Rule,
        matched: Match,
        secret: Range<usize>,
        locator: &mut Locator<'_>,
    ) -> Option<Found> {
        let bytes = window.bytes;
        let secret_bytes = bytes.get(secret.clone())?;
        let bits = entropy(secret_bytes);
        if rule.entropy.is_some_and(|least| bits <= least) {
            return None;
        }
        let line = line_around(bytes, matched.range());
        let candidate =
            Candidate { secret: secret_bytes, matched: bytes.get(matched.range())?, line };
        let is_marked = MARKS.iter().any(|mark| memmem::find(line, mark).is_some());
        if is_marked || self.is_allowed_by(rule, window.path, candidate) {
            return None;
        }
        let (line, column) = locator.locate(secret.start).shown();
        let (end_line, end_column) = locator.locate(secret.end).shown();
        #[expect(clippy::cast_possible_truncation, reason = "it is shown with two digits")]
        let entropy = bits as f32;
        Some(Finding {
            rule: rule.id.clone(),
            fingerprint: Fingerprint::new(&rule.id, secret_bytes),
            span: Some(Span {
                line,
                column,
                end_line,
                end_column,
                offset: window.offset + secret.start as u64,
                length: secret.len() as u64,
            }),
            secret: self.secrecy.show(secret_bytes),
            entropy,
        })
    }
}

/// The lines of a match, up to a limit on either side.
fn line_around(bytes: &[u8], matched: Range<usize>) -> &[u8] {
    let near = matched.start.saturating_sub(LINE);
    let before = bytes.get(near..matched.start).unwrap_or_default();
    let start = memrchr(b'\n', before).map_or(near, |newline| near + newline + 1);
    let far = matched.end.saturating_add(LINE).min(bytes.len());
    let after = bytes.get(matched.end..far).unwrap_or_default();
    let end = memchr(b'\n', after).map_or(far, |newline| matched.end + newline);
    bytes.get(start..end).unwrap_or_default()
}

/// A position in a file: its line and column, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    line: u64,
    column: u64,
}

impl Position {
    /// The position after some bytes.
    pub(super) fn after(self, bytes: &[u8]) -> Self {
        match memrchr(b'\n', bytes) {
            Some(last) => Self {
                line: self.line + memchr_iter(b'\n', bytes).count() as u64,
                column: characters(bytes.get(last + 1..).unwrap_or_default()),
            },
            None => Self { line: self.line, column: self.column + characters(bytes) },
        }
    }

    /// Line and column from 1.
    pub(super) const fn shown(self) -> (u64, u64) {
        (self.line + 1, self.column + 1)
    }
}

/// Computes positions in a window, fastest in rising order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Locator<'w> {
    bytes: &'w [u8],
    start: Position,
    /// The last computed position.
    known: (usize, Position),
}

impl<'w> Locator<'w> {
    /// A locator for a window that starts at a position.
    pub(super) const fn new(bytes: &'w [u8], start: Position) -> Self {
        Self { bytes, start, known: (0, start) }
    }

    /// The position of a byte.
    pub(super) fn locate(&mut self, at: usize) -> Position {
        if at < self.known.0 {
            self.known = (0, self.start);
        }
        let (from, position) = self.known;
        let position = position.after(self.bytes.get(from..at).unwrap_or_default());
        self.known = (at, position);
        position
    }
}

/// Number of UTF-8 characters.
fn characters(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|&&byte| byte & 0xc0 != 0x80).count() as u64
}

/// Shannon entropy in bits per byte, from 0 to 8.
#[expect(clippy::cast_precision_loss, reason = "no secret has 2^52 bytes")]
pub(crate) fn entropy(bytes: &[u8]) -> f64 {
    let mut counts = [0_usize; 256];
    for &byte in bytes {
        if let Some(count) = counts.get_mut(usize::from(byte)) {
            *count += 1;
        }
    }
    let total = bytes.len() as f64;
    let share = |count: usize| count as f64 / total;
    // Adding zero avoids -0 for a single letter.
    -counts.iter().filter(|&&count| count > 0).map(|&c| share(c) * share(c).log2()).sum::<f64>()
        + 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_the_same_in_any_order() {
        let text = "one\ntw\u{f6}\n\nthree".as_bytes();
        let mut locator = Locator::new(text, Position::default());
        for at in [0, 3, 4, 8, 2, 2, 12, 5, 14] {
            assert_eq!(locator.locate(at), Position::default().after(&text[..at]), "{at}");
        }
    }

    #[test]
    fn lines_and_characters_are_counted_from_one() {
        let shown = |bytes: &[u8]| Position::default().after(bytes).shown();
        assert_eq!(shown(b""), (1, 1));
        assert_eq!(shown(b"ab"), (1, 3));
        assert_eq!(shown("\u{e9}\u{20ac}x".as_bytes()), (1, 4));
        assert_eq!(shown(b"a\nb\nc"), (3, 2));
        let (first, rest) = (b"one\ntw".as_slice(), b"o\nthree".as_slice());
        assert_eq!(Position::default().after(first).after(rest).shown(), (3, 6));
    }

    #[test]
    fn entropy_is_in_bits_per_byte() {
        for (bytes, bits) in [(&b""[..], 0.0), (b"aaaa", 0.0), (b"abab", 1.0), (b"abcd", 2.0)] {
            assert!((entropy(bytes) - bits).abs() < 1e-9, "{bytes:?}");
        }
        let all: Vec<u8> = (0..=255).collect();
        assert!((entropy(&all) - 8.0).abs() < 1e-9);
        assert!(!entropy(b"a").is_sign_negative());
    }
}
