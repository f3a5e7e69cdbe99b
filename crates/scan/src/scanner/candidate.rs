//! Whether what matched is a secret.

use std::ops::Range;

use memchr::{memchr, memmem, memrchr};
use regex_automata::Match;

use super::Scanner;
use super::matching::Window;
use super::position::Locator;
use crate::entropy::entropy;
use crate::finding::{Finding, Fingerprint, Span};
use crate::rules::{Candidate, Rule};

/// How much of a line counts as its line on either side of a match, in bytes.
pub(super) const LINE: usize = 4_096;

/// What a line says if it may hold a secret.
const MARKS: [&[u8]; 2] = [b"shardwright:allow", b"gitleaks:allow"];

/// A finding that no allowlist allows.
pub(super) type Found = Finding;

impl Scanner {
    /// Makes a finding of a match, unless it is not random enough or allowed.
    pub(super) fn judge(
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

/// The lines of a match, as far as they are near.
fn line_around(bytes: &[u8], matched: Range<usize>) -> &[u8] {
    let near = matched.start.saturating_sub(LINE);
    let before = bytes.get(near..matched.start).unwrap_or_default();
    let start = memrchr(b'\n', before).map_or(near, |newline| near + newline + 1);
    let far = matched.end.saturating_add(LINE).min(bytes.len());
    let after = bytes.get(matched.end..far).unwrap_or_default();
    let end = memchr(b'\n', after).map_or(far, |newline| matched.end + newline);
    bytes.get(start..end).unwrap_or_default()
}
