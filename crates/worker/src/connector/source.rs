//! What a connector states about its source: how much is left, and its identity.

use std::fmt;

/// How much is left of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceEstimate {
    /// Items.
    pub items: Quantity,
    /// Bytes of the items.
    pub bytes: Quantity,
}

/// A number, and how well it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Counted.
    Exact(u64),
    /// Extrapolated from a sample.
    About(u64),
    /// Counted up to a limit; there may be many more.
    AtLeast(u64),
    /// Nothing is known.
    Unknown,
}

impl Quantity {
    /// The number, exact or not.
    #[must_use]
    pub const fn value(self) -> Option<u64> {
        match self {
            Self::Exact(value) | Self::About(value) | Self::AtLeast(value) => Some(value),
            Self::Unknown => None,
        }
    }
}

/// The identity of a source, stored with a run and compared when the run is resumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFingerprint {
    /// One line, equal for equal sources:
    ///
    /// - `lines newline 1234 blake3:…`: size and digest of a file of rows, at any path.
    /// - `tree /data`: the root of a tree, percent-encoded. Its files may change.
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
