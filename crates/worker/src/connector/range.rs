//! Ranges of keys, and where in one to begin.

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
    pub(super) fn cut(self, cuts: Vec<Vec<u8>>) -> Vec<Self> {
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

/// The part of a range that is still to be read: `(after, end)` or `[start, end)`.
#[derive(Clone)]
pub(super) struct Remainder {
    lower: Vec<u8>,
    /// Whether `lower` itself is already done.
    done: bool,
    end: Vec<u8>,
}

impl Remainder {
    pub(super) fn of(range: &KeyRange, after: Option<&[u8]>) -> Self {
        let end = range.end.clone();
        match after {
            Some(after) if after >= range.start.as_slice() => {
                Self { lower: after.to_vec(), done: true, end }
            }
            _ => Self { lower: range.start.clone(), done: false, end },
        }
    }

    /// The lower bound; whether it is a possible key itself is for [`contains`](Self::contains).
    pub(super) fn lower(&self) -> &[u8] {
        &self.lower
    }

    pub(super) fn end(&self) -> &[u8] {
        &self.end
    }

    pub(super) fn is_below_end(&self, key: &[u8]) -> bool {
        self.end.is_empty() || key < self.end.as_slice()
    }

    pub(super) fn contains(&self, key: &[u8]) -> bool {
        let above = if self.done { key > self.lower.as_slice() } else { key >= self.lower() };
        above && self.is_below_end(key)
    }

    /// Whether the remainder is everything behind `key`, up to its end.
    pub(super) fn is_behind(&self, key: &[u8]) -> bool {
        self.done && self.lower == key
    }

    /// Whether a key that starts with `prefix`, and is longer, may lie in the remainder.
    pub(super) fn reaches_into(&self, prefix: &[u8]) -> bool {
        // A lower bound that is greater without starting so is greater than all such keys.
        let above = prefix > self.lower() || self.lower.starts_with(prefix);
        above && self.is_below_end(prefix)
    }

    /// The remainder from `key` on, `key` included.
    pub(super) fn from(&self, key: &[u8]) -> Self {
        Self { lower: key.to_vec(), done: false, end: self.end.clone() }
    }

    /// The remainder behind `key`.
    pub(super) fn behind(&self, key: &[u8]) -> Self {
        Self { lower: key.to_vec(), done: true, end: self.end.clone() }
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

    #[test]
    fn a_position_before_the_range_counts_for_nothing() {
        let range = KeyRange::new("b", "d");
        assert!(Remainder::of(&range, Some(b"a")).contains(b"b"));
        assert!(!Remainder::of(&range, Some(b"b")).contains(b"b"));
        assert!(Remainder::of(&range, Some(b"b")).contains(b"b\0"));
    }

    #[test]
    fn a_folder_is_reached_exactly_if_some_path_in_it_may_be() {
        let reaches = |start: &str, end: &str, folder: &str| {
            Remainder::of(&KeyRange::new(start, end), None).reaches_into(folder.as_bytes())
        };
        assert!(reaches("a", "b", "a/"));
        assert!(reaches("a/x", "b", "a/"), "it begins inside");
        assert!(reaches("a/", "b", "a/"));
        assert!(!reaches("a0", "b", "a/"), "everything in it is smaller");
        assert!(!reaches("a", "a/", "a/"), "everything in it is greater");
        assert!(reaches("a", "a/\u{1}", "a/"));
    }
}
