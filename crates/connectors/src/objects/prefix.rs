//! The prefix of the items in a store, and the offset to list from.

use object_store::path::Path;

use crate::remainder::Remainder;

/// The greatest character, also in UTF-8 order.
const LAST_CHARACTER: char = '\u{10ffff}';

/// The prefix of the items. Keys are paths below it.
#[derive(Clone, Debug)]
pub(super) struct ObjectPrefix {
    prefix: Path,
}

impl ObjectPrefix {
    pub(super) const fn new(prefix: Path) -> Self {
        Self { prefix }
    }

    pub(super) const fn prefix(&self) -> &Path {
        &self.prefix
    }

    /// The key of an object. None if it is not below the prefix.
    pub(super) fn key<'p>(&self, location: &'p Path) -> Option<&'p str> {
        let path = location.as_ref();
        if self.prefix.is_root() {
            return Some(path).filter(|path| !path.is_empty());
        }
        path.strip_prefix(self.prefix.as_ref())?.strip_prefix('/').filter(|key| !key.is_empty())
    }

    /// The full path of a key, as text.
    pub(super) fn full(&self, key: &str) -> String {
        if self.prefix.is_root() { key.to_owned() } else { format!("{}/{key}", self.prefix) }
    }

    /// The path of a key or of a folder's key, if it is a valid path.
    pub(super) fn path(&self, key: &str) -> Option<Path> {
        Path::parse(self.full(key)).ok()
    }

    /// The path to list from: below every key of the remainder, and close to the first.
    pub(super) fn offset(&self, remainder: &Remainder) -> Option<Path> {
        let lower = remainder.lower();
        let text = valid_start(lower);
        // A key that is done and is a valid path is the exact offset.
        if remainder.is_after(text.as_bytes())
            && let Some(path) = self.exact_path(text)
        {
            return Some(path);
        }
        // The byte that ends the valid text is above all ASCII characters.
        if lower.len() > text.len()
            && let Some(path) = self.exact_path(&format!("{text}~{LAST_CHARACTER}"))
        {
            return Some(path);
        }
        // Try the greatest path below the lower bound. Where that is not a valid path, no object
        // can be there, so a shorter one is as good.
        let mut text = text.to_owned();
        while let Some(last) = text.pop() {
            if let Some(before) = character_before(last) {
                let just_below = format!("{text}{before}{LAST_CHARACTER}");
                if let Some(path) = self.exact_path(&just_below) {
                    return Some(path);
                }
            }
        }
        None
    }

    /// The path of a key, if it equals the key exactly.
    fn exact_path(&self, key: &str) -> Option<Path> {
        let full = self.full(key);
        let path = Path::parse(&full).ok()?;
        (path.as_ref() == full && !key.is_empty()).then_some(path)
    }
}

/// The longest valid UTF-8 prefix of some bytes.
pub(super) fn valid_start(bytes: &[u8]) -> &str {
    bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid())
}

fn character_before(character: char) -> Option<char> {
    // No path has control characters.
    (' '..character).next_back()
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardwright_worker::connector::KeyRange;

    fn offset(prefix: &str, remainder: &Remainder) -> Option<String> {
        ObjectPrefix::new(Path::from(prefix)).offset(remainder).map(String::from)
    }

    fn from(lower: &[u8]) -> Remainder {
        Remainder::of(&KeyRange::new(lower, ""), None)
    }

    fn after(lower: &[u8]) -> Remainder {
        Remainder::of(&KeyRange::new("", ""), Some(lower))
    }

    #[test]
    fn keys_are_paths_below_the_prefix() {
        let objects = ObjectPrefix::new(Path::from("a/b"));
        let key = |path: &str| objects.key(&Path::from(path)).map(str::to_owned);
        assert_eq!(key("a/b/c/d").as_deref(), Some("c/d"));
        assert_eq!((key("a/b"), key("a/bc"), key("x")), (None, None, None));
        assert_eq!(ObjectPrefix::new(Path::ROOT).key(&Path::from("a")), Some("a"));
    }

    #[test]
    fn a_listing_starts_right_after_a_key_that_is_done() {
        assert_eq!(offset("p", &after(b"a/b")).as_deref(), Some("p/a/b"));
        assert_eq!(offset("", &after(b"a/b")).as_deref(), Some("a/b"));
    }

    #[test]
    fn a_listing_starts_right_before_a_key_that_is_not_done() {
        assert_eq!(offset("p", &from(b"a/c")).as_deref(), Some("p/a/b\u{10ffff}"));
        assert_eq!(offset("p", &from(b"a0")).as_deref(), Some("p/a/\u{10ffff}"));
        assert_eq!(offset("p", &from(b"a/")).as_deref(), Some("p/a.\u{10ffff}"));
        assert_eq!(offset("p", &from(b"\x01")), None);
    }

    #[test]
    fn bytes_that_no_path_can_have_are_left_out() {
        assert_eq!(offset("p", &after(b"ab\xff")).as_deref(), Some("p/ab~\u{10ffff}"));
        assert_eq!(offset("p", &after(b"a//b")).as_deref(), Some("p/a/.\u{10ffff}"));
        assert_eq!(offset("p", &from(b"\xff")).as_deref(), Some("p/~\u{10ffff}"));
    }
}
