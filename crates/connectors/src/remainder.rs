//! The part of a range that is still to be read.

use shardwright_worker::connector::KeyRange;

/// The part of a range that is still to be read: `(after, end)` or `[start, end)`.
#[derive(Clone)]
pub(crate) struct Remainder {
    lower: Vec<u8>,
    /// Whether `lower` itself is already done.
    done: bool,
    end: Vec<u8>,
}

impl Remainder {
    pub(crate) fn of(range: &KeyRange, after: Option<&[u8]>) -> Self {
        let end = range.end.clone();
        match after {
            Some(after) if after >= range.start.as_slice() => {
                Self { lower: after.to_vec(), done: true, end }
            }
            _ => Self { lower: range.start.clone(), done: false, end },
        }
    }

    /// The lower bound. [`contains`](Self::contains) knows whether it is inclusive.
    pub(crate) fn lower(&self) -> &[u8] {
        &self.lower
    }

    pub(crate) fn end(&self) -> &[u8] {
        &self.end
    }

    pub(crate) fn is_below_end(&self, key: &[u8]) -> bool {
        self.end.is_empty() || key < self.end.as_slice()
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        let above = if self.done { key > self.lower.as_slice() } else { key >= self.lower() };
        above && self.is_below_end(key)
    }

    /// Whether the remainder is everything after `key`, up to its end.
    pub(crate) fn is_after(&self, key: &[u8]) -> bool {
        self.done && self.lower == key
    }

    /// Whether the remainder may contain a key that starts with `prefix` and is longer.
    pub(crate) fn reaches_into(&self, prefix: &[u8]) -> bool {
        // A greater lower bound without the prefix is greater than all such keys.
        let above = prefix > self.lower() || self.lower.starts_with(prefix);
        above && self.is_below_end(prefix)
    }

    /// Whether the remainder contains the entry of a folder, or may contain keys below it. The key
    /// of a folder ends with a `/`.
    pub(crate) fn wants(&self, key: &[u8]) -> bool {
        if key.ends_with(b"/") { self.reaches_into(key) } else { self.contains(key) }
    }

    /// The remainder from `key` on, `key` included.
    pub(crate) fn from(&self, key: &[u8]) -> Self {
        Self { lower: key.to_vec(), done: false, end: self.end.clone() }
    }

    /// The remainder after `key`.
    pub(crate) fn after(&self, key: &[u8]) -> Self {
        Self { lower: key.to_vec(), done: true, end: self.end.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_before_the_range_is_ignored() {
        let range = KeyRange::new("b", "d");
        assert!(Remainder::of(&range, Some(b"a")).contains(b"b"));
        assert!(!Remainder::of(&range, Some(b"b")).contains(b"b"));
        assert!(Remainder::of(&range, Some(b"b")).contains(b"b\0"));
    }

    #[test]
    fn a_folder_is_reached_if_a_path_in_it_may_be() {
        let reaches = |start: &str, end: &str, folder: &str| {
            Remainder::of(&KeyRange::new(start, end), None).reaches_into(folder.as_bytes())
        };
        assert!(reaches("a", "b", "a/"));
        assert!(reaches("a/x", "b", "a/"), "it starts inside");
        assert!(reaches("a/", "b", "a/"));
        assert!(!reaches("a0", "b", "a/"), "everything in it is smaller");
        assert!(!reaches("a", "a/", "a/"), "everything in it is greater");
        assert!(reaches("a", "a/\u{1}", "a/"));
    }
}
