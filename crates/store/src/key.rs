use std::fmt;

use bytes::Bytes;

/// A key: bytes, ordered as bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Bytes);

impl Key {
    /// Creates a key from bytes.
    #[must_use]
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        Self(bytes.into())
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes, shared without a copy.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        self.0.clone()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.0.escape_ascii())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl From<&'static str> for Key {
    fn from(text: &'static str) -> Self {
        Self(Bytes::from_static(text.as_bytes()))
    }
}

impl From<String> for Key {
    fn from(text: String) -> Self {
        Self(Bytes::from(text))
    }
}

impl From<Vec<u8>> for Key {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Bytes::from(bytes))
    }
}

/// The keys in `[start, end)`. Without an end, all keys from `start` on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StoreRange {
    start: Key,
    end: Option<Key>,
}

impl StoreRange {
    /// The keys in `[start, end)`.
    #[must_use]
    pub const fn new(start: Key, end: Option<Key>) -> Self {
        Self { start, end }
    }

    /// Every key that begins with `prefix`.
    #[must_use]
    pub fn prefix(prefix: impl Into<Bytes>) -> Self {
        let start = prefix.into();
        let end = after_prefix(&start);
        Self { start: Key(start), end }
    }

    /// The first key that may be in the range.
    #[must_use]
    pub const fn start(&self) -> &Key {
        &self.start
    }

    /// The first key after the range.
    #[must_use]
    pub const fn end(&self) -> Option<&Key> {
        self.end.as_ref()
    }

    /// Whether `key` is in the range.
    #[must_use]
    pub fn contains(&self, key: &Key) -> bool {
        *key >= self.start && self.end.as_ref().is_none_or(|end| key < end)
    }

    /// Whether no key can be in the range.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }
}

/// The least key above all that begin with `prefix`, or `None` if every key is below.
fn after_prefix(prefix: &[u8]) -> Option<Key> {
    let kept = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix.get(..=kept)?.to_vec();
    *end.last_mut()? += 1;
    Some(Key::from(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_covers_exactly_the_keys_that_begin_with_it() {
        let range = StoreRange::prefix("a/");
        for inside in ["a/", "a/0", "a/\u{7f}"] {
            assert!(range.contains(&Key::from(inside)), "{inside}");
        }
        for outside in ["a", "a.", "a0", "b"] {
            assert!(!range.contains(&Key::from(outside)), "{outside}");
        }
        assert!(!range.is_empty());
    }

    #[test]
    fn prefix_of_highest_bytes_ends_at_a_shorter_key_or_never() {
        assert_eq!(StoreRange::prefix(vec![1, 0xff, 0xff]).end(), Some(&Key::from(vec![2])));
        assert_eq!(StoreRange::prefix(vec![0xff]).end(), None);
        assert_eq!(StoreRange::prefix(Bytes::new()).end(), None);
        assert!(StoreRange::prefix(vec![0xff]).contains(&Key::from(vec![0xff, 0xff])));
    }

    #[test]
    fn a_range_that_ends_before_it_starts_is_empty() {
        let range = |end| StoreRange::new(Key::from("b"), Some(Key::from(end)));
        assert!(range("a").is_empty() && range("b").is_empty() && !range("c").is_empty());
    }

    #[test]
    fn keys_print_as_escaped_ascii() {
        assert_eq!(Key::from(vec![b'a', 0]).to_string(), "a\\x00");
    }
}
