//! Ranges of keys, and their division by bytes alone.

use std::collections::VecDeque;
use std::fmt;

use shardwright_contracts::Redacted;
use shardwright_frontier::{KeyBuf, byte_midpoint};

use super::{Connector, ConnectorError, PageLimit, Position};

/// Probes of the upper half before it counts as empty. Each probe halves it.
const PROBES: usize = 64;

/// End of the default ranges. A source with a key at or above it is rejected.
const LAST_KEY: [u8; 256] = [0xff; 256];

/// A half-open range of keys, `[start, end)`. An empty bound means no bound.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyRange {
    /// The lower bound, inclusive.
    pub start: Vec<u8>,
    /// The upper bound, exclusive.
    pub end: Vec<u8>,
}

impl KeyRange {
    /// The range from `start`, inclusive, to `end`, exclusive.
    pub fn new(start: impl Into<Vec<u8>>, end: impl Into<Vec<u8>>) -> Self {
        Self { start: start.into(), end: end.into() }
    }

    /// Whether the range contains `key`.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= self.start.as_slice() && self.is_below_end(key)
    }

    /// Whether `key` is below the upper bound.
    #[must_use]
    pub fn is_below_end(&self, key: &[u8]) -> bool {
        self.end.is_empty() || key < self.end.as_slice()
    }

    /// The smallest key that a page after a position may have.
    #[must_use]
    pub fn start_after(&self, from: &Position) -> Vec<u8> {
        // The smallest key above another is that key with a zero byte appended.
        let next = from.after.as_ref().map(|after| [after, &[0][..]].concat());
        next.map_or_else(|| self.start.clone(), |next| next.max(self.start.clone()))
    }

    /// Cuts the range at `cuts`, which must rise strictly inside of it.
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

/// Splits a range by bytes alone. The split is the first key in the upper half of the possible keys
/// after `after`. If the upper half is empty, the rest is halved again.
pub(super) async fn split_by_bytes<C: Connector + ?Sized>(
    connector: &C,
    range: &KeyRange,
    after: Option<&[u8]>,
) -> Result<Option<Vec<u8>>, ConnectorError> {
    let from = after.map_or_else(Position::start, Position::after);
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
    let above = KeyRange::new(LAST_KEY, []);
    let found = connector.page(&above, &Position::start(), PageLimit::items(1)).await?;
    if !found.items.is_empty() {
        return Err(ConnectorError::KeyAboveRanges);
    }
    let mut divisible = VecDeque::from([KeyRange::new([0], LAST_KEY)]);
    let mut ranges = Vec::new();
    while divisible.len() + ranges.len() < wanted
        && let Some(range) = divisible.pop_front()
    {
        match connector.propose_split(&range, None, 0.5).await? {
            Some(boundary) if boundary > range.start && range.is_below_end(&boundary) => {
                divisible.extend(range.cut(vec![boundary]));
            }
            Some(boundary) => {
                let boundary = boundary.into();
                return Err(ConnectorError::InvalidSplit { range, boundary });
            }
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
    use shardwright_contracts::limits::MAX_KEY_SIZE;

    use super::*;
    use crate::connector::{Item, Page};

    #[test]
    fn the_rest_starts_after_the_position_and_in_the_range() {
        let range = KeyRange::new("b", "d");
        assert_eq!(range.start_after(&Position::start()), b"b");
        assert_eq!(range.start_after(&Position::after("a")), b"b");
        assert_eq!(range.start_after(&Position::after("b")), b"b\0");
    }

    type Split = fn(&KeyRange) -> Option<Vec<u8>>;

    /// Single-byte keys, and maybe a key above the default ranges.
    struct Letters {
        split: Split,
        key_above: Option<Vec<u8>>,
    }

    impl Connector for Letters {
        async fn page(
            &self,
            range: &KeyRange,
            from: &Position,
            limit: PageLimit,
        ) -> Result<Page, ConnectorError> {
            let start = range.start_after(from);
            let mut keys: Vec<Vec<u8>> = (b'a'..=b'z').map(|letter| vec![letter]).collect();
            keys.extend(self.key_above.clone());
            let keys = keys.into_iter().filter(|key| *key >= start && range.is_below_end(key));
            Ok(Page::take(keys.map(|key| Item::row(key, 0, "")), limit))
        }

        async fn propose_split(
            &self,
            range: &KeyRange,
            _: Option<&[u8]>,
            _: f64,
        ) -> Result<Option<Vec<u8>>, ConnectorError> {
            Ok((self.split)(range))
        }
    }

    #[tokio::test]
    async fn a_split_outside_its_range_is_rejected() {
        let outside: [Split; 3] = [
            |_| Some(Vec::new()),
            |range| Some(range.start.clone()),
            |range| Some(range.end.clone()),
        ];
        for split in outside {
            let letters = Letters { split, key_above: None };
            let whole = KeyRange::new([0], LAST_KEY);
            let proposed = split(&whole).unwrap();
            match letters.initial_ranges(4).await {
                Err(error @ ConnectorError::InvalidSplit { .. }) => {
                    let length = proposed.len();
                    let named = format!("the split <{length} bytes> outside of the range from");
                    assert!(error.to_string().contains(&named), "{error}");
                    let ConnectorError::InvalidSplit { range, boundary } = error else { return };
                    assert_eq!((range, boundary.into_vec()), (whole, proposed));
                }
                ranges => panic!("{ranges:?}"),
            }
        }
        let inside = Letters { split: |_| Some(b"m".to_vec()), key_above: None };
        assert_eq!(inside.initial_ranges(2).await.unwrap().len(), 2);
    }

    #[tokio::test]
    async fn a_key_above_the_default_ranges_is_rejected() {
        // The last one is the greatest key.
        for length in [256, 300, MAX_KEY_SIZE] {
            let letters = Letters { split: |_| None, key_above: Some(vec![0xff; length]) };
            let ranges = letters.initial_ranges(4).await;
            assert!(matches!(ranges, Err(ConnectorError::KeyAboveRanges)), "{ranges:?}");
        }
    }

    #[test]
    fn an_empty_bound_is_no_bound() {
        let all = KeyRange::new("", "");
        assert!(all.contains(b"") && all.contains(&[0xff; 300]));
        let some = KeyRange::new("b", "d");
        assert!(!some.contains(b"a") && some.contains(b"b") && !some.contains(b"d"));
    }
}
