//! A cache of walks that stopped at the end of a page.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::remainder::Remainder;

/// Most cached walks.
const WALKS_MAX: usize = 64;
/// Most bytes of all cached walks together. The latest is kept in any case.
const BYTES_MAX: usize = 64 << 20;

/// Walks by the key they stopped after. A miss costs time only: the walk is restarted.
pub(crate) struct WalkCache<W> {
    walks: Mutex<VecDeque<CachedWalk<W>>>,
}

struct CachedWalk<W> {
    after: Vec<u8>,
    /// Where the walk would end.
    end: Vec<u8>,
    bytes: usize,
    walk: W,
}

impl<W> CachedWalk<W> {
    fn can_read(&self, remainder: &Remainder) -> bool {
        let end = remainder.end();
        let reaches = self.end.is_empty() || (!end.is_empty() && end <= self.end.as_slice());
        reaches && remainder.is_after(&self.after)
    }
}

impl<W> WalkCache<W> {
    pub(crate) const fn new() -> Self {
        Self { walks: Mutex::new(VecDeque::new()) }
    }

    /// Removes the walk that can read the remainder, if there is one.
    pub(crate) fn take(&self, remainder: &Remainder) -> Option<W> {
        let mut walks = self.walks();
        let at = walks.iter().position(|one| one.can_read(remainder))?;
        walks.remove(at).map(|one| one.walk)
    }

    /// Passes the walk that can read the remainder to `look`, if there is one.
    pub(crate) fn peek<T>(&self, remainder: &Remainder, look: impl FnOnce(&W) -> T) -> Option<T> {
        let walks = self.walks();
        walks.iter().find(|one| one.can_read(remainder)).map(|one| look(&one.walk))
    }

    /// Adds a walk to `end` that stopped after `after` and holds about `bytes` of memory.
    pub(crate) fn put(&self, after: Vec<u8>, end: Vec<u8>, bytes: usize, walk: W) {
        let mut walks = self.walks();
        walks.retain(|one| one.after != after || one.end != end);
        walks.push_back(CachedWalk { after, end, bytes, walk });
        let mut total: usize = walks.iter().map(|one| one.bytes).sum();
        while walks.len() > 1 && (walks.len() > WALKS_MAX || total > BYTES_MAX) {
            total -= walks.pop_front().map_or(0, |oldest| oldest.bytes);
        }
    }

    fn walks(&self) -> MutexGuard<'_, VecDeque<CachedWalk<W>>> {
        // A walk is added whole or not at all, so a panic leaves the cache consistent.
        self.walks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardwright_worker::connector::KeyRange;

    fn after(after: &str, end: &str) -> Remainder {
        Remainder::of(&KeyRange::new("", end), Some(after.as_bytes()))
    }

    #[test]
    fn a_walk_is_found_by_its_key_and_only_once() {
        let cache = WalkCache::new();
        cache.put(b"k".to_vec(), b"z".to_vec(), 1, 7);
        assert_eq!(cache.take(&after("j", "z")), None);
        assert_eq!(cache.peek(&after("k", "z"), |walk| *walk), Some(7));
        assert_eq!(cache.take(&after("k", "z")), Some(7));
        assert_eq!(cache.take(&after("k", "z")), None);
    }

    #[test]
    fn a_walk_serves_a_narrowed_range_but_not_a_wider_one() {
        let cache = WalkCache::new();
        cache.put(b"k".to_vec(), b"t".to_vec(), 1, 7);
        assert_eq!(cache.take(&after("k", "z")), None);
        assert_eq!(cache.take(&after("k", "")), None);
        assert_eq!(cache.take(&after("k", "p")), Some(7));
        cache.put(b"k".to_vec(), Vec::new(), 1, 8);
        assert_eq!(cache.take(&after("k", "")), Some(8));
    }

    #[test]
    fn the_oldest_walks_are_evicted() {
        let cache = WalkCache::new();
        for key in 0..=WALKS_MAX as u8 {
            cache.put(vec![key], Vec::new(), 1, key);
        }
        let at = |key: u8| Remainder::of(&KeyRange::new("", ""), Some(&[key]));
        assert_eq!(cache.take(&at(0)), None);
        assert_eq!(cache.take(&at(1)), Some(1));
        cache.put(vec![200], Vec::new(), BYTES_MAX + 1, 200);
        assert_eq!(cache.take(&at(2)), None);
        assert_eq!(cache.take(&at(200)), Some(200));
    }
}
