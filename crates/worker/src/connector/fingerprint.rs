//! What tells one source from another.

use std::fmt;

/// What tells one source from another, to be kept with a run and compared at its resumption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFingerprint {
    /// One line that says what the source is, equal for equal sources:
    ///
    /// - `lines newline 1234 blake3:…`: the size and digest of a line file, wherever it lies;
    /// - `tree /data`: the root of a tree, percent-encoded. What is in a tree may change;
    /// - `objects s3://bucket/prefix`.
    pub identity: String,
    /// When a source that may change was opened, in milliseconds since 1970. Not compared.
    pub listed_at_ms: Option<u64>,
}

impl SourceFingerprint {
    /// Whether a run over `self` may be resumed on `other`.
    #[must_use]
    pub fn is_same_source(&self, other: &Self) -> bool {
        self.identity == other.identity
    }
}

impl fmt::Display for SourceFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.identity)
    }
}
