//! Ranges of keys, and their division where nothing but the bytes is known.

use std::collections::VecDeque;
use std::fmt;

use shardwright_contracts::Redacted;
use shardwright_frontier::{KeyBuf, byte_midpoint};

use super::{Connector, ConnectorError, PageLimit, Position};

/// Probes of the upper half before it counts as empty. Each probe halves it.
const PROBES: usize = 64;

/// Above every key of a connector that does not choose its ranges itself.
const LAST_KEY: [u8; 256] = [0xff; 256];

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

    /// The start of what is left of the range behind a position: no key below it is needed.
    #[must_use]
    pub fn start_behind(&self, from: &Position) -> Vec<u8> {
        // The least key above another one is that key and a zero byte.
        let next = from.after.as_ref().map(|after| [after, &[0][..]].concat());
        next.map_or_else(|| self.start.clone(), |next| next.max(self.start.clone()))
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

/// Splits a range by its bytes alone: the first key in the upper half of the possible keys behind
/// `after`, or in a smaller part at the end if the upper half is empty.
pub(super) async fn split_by_bytes<C: Connector + ?Sized>(
    connector: &C,
    range: &KeyRange,
    after: Option<&[u8]>,
) -> Result<Option<Vec<u8>>, ConnectorError> {
    let from = after.map_or_else(Position::start, Position::behind);
    let first = connector.page(range, &from, PageLimit::items(2)).await?;
    // The first key stays, so the second is the earliest possible split.
    let Some(second) = first.items.get(1).map(|item| item.key.to_vec()) else { return Ok(None) };
    let mut end = range.end.clone();
    for _ in 0..PROBES {
        let Some(middle) = midpoint(&second, &end) else { break };
        let upper = KeyRange::new(middle.clone(), range.end.clone());
        let found = connector.page(&upper, &Position::start(), PageLimit::items(1)).await?;
        match found.items.first() {
            Some(item) => return Ok(Some(item.key.to_vec())),
            None => end = middle,
        }
    }
    Ok(Some(second))
}

/// Bisects the space of all keys until there are `wanted` ranges, or none has two keys.
pub(super) async fn ranges_by_splits<C: Connector + ?Sized>(
    connector: &C,
    wanted: usize,
) -> Result<Vec<KeyRange>, ConnectorError> {
    let mut divisible = VecDeque::from([KeyRange::new([0], LAST_KEY)]);
    let mut ranges = Vec::new();
    while divisible.len() + ranges.len() < wanted
        && let Some(range) = divisible.pop_front()
    {
        match connector.propose_split(&range, None, 0.5).await? {
            Some(boundary) => divisible.extend(range.cut(vec![boundary])),
            None => ranges.push(range),
        }
    }
    ranges.extend(divisible);
    ranges.sort();
    Ok(ranges)
}

fn midpoint(start: &[u8], end: &[u8]) -> Option<Vec<u8>> {
    byte_midpoint(start, end, &mut KeyBuf::new()).map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_starts_behind_the_position_and_in_the_range() {
        let range = KeyRange::new("b", "d");
        assert_eq!(range.start_behind(&Position::start()), b"b");
        assert_eq!(range.start_behind(&Position::behind("a")), b"b");
        assert_eq!(range.start_behind(&Position::behind("b")), b"b\0");
    }

    #[test]
    fn an_empty_bound_is_no_bound() {
        let all = KeyRange::new("", "");
        assert!(all.contains(b"") && all.contains(&[0xff; 300]));
        let some = KeyRange::new("b", "d");
        assert!(!some.contains(b"a") && some.contains(b"b") && !some.contains(b"d"));
    }
}
