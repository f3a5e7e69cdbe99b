//! Ranges of keys.

use std::fmt;

use shardwright_contracts::Redacted;

/// A half-open range of keys, `[start, end)`. An empty bound means no bound.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyRange {
    /// The first key that may be in it.
    pub start: Vec<u8>,
    /// The first key behind it.
    pub end: Vec<u8>,
}

impl KeyRange {
    /// The keys from `start` on, up to but without `end`.
    pub fn new(start: impl Into<Vec<u8>>, end: impl Into<Vec<u8>>) -> Self {
        Self { start: start.into(), end: end.into() }
    }

    /// Whether `key` lies in the range.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= self.start.as_slice() && self.is_below_end(key)
    }

    /// Whether `key` lies before the range's end.
    #[must_use]
    pub fn is_below_end(&self, key: &[u8]) -> bool {
        self.end.is_empty() || key < self.end.as_slice()
    }

    /// The range in pieces, cut at `cuts` that rise strictly inside it.
    #[must_use]
    pub fn cut(self, cuts: Vec<Vec<u8>>) -> Vec<Self> {
        let mut pieces = Vec::with_capacity(cuts.len() + 1);
        let mut start = self.start;
        for cut in cuts {
            pieces.push(Self { start, end: cut.clone() });
            start = cut;
        }
        pieces.push(Self { start, end: self.end });
        pieces
    }
}

impl fmt::Debug for KeyRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyRange({}..{})", Redacted(&self.start), Redacted(&self.end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_bound_is_no_bound() {
        let all = KeyRange::new("", "");
        assert!(all.contains(b"") && all.contains(&[0xff; 300]));
        let some = KeyRange::new("b", "d");
        assert!(!some.contains(b"a") && some.contains(b"b") && !some.contains(b"d"));
    }
}
