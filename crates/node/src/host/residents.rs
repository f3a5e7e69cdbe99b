//! The active objects of a node, and the order in which they were last used.
//!
//! An object is listed while it is at rest: from the end of a call to the start of the next. So the
//! list never offers an object with a call in progress for eviction.
//!
//! Objects at rest are listed by shard, and shards by their least recently used object. So a search
//! skips a draining shard in one step.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shardwright_contracts::ShardId;

use crate::call::ObjectKey;

/// The objects of a node that may be evicted.
#[derive(Default)]
pub(crate) struct Residents {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The number of objects, at rest and in use.
    count: u64,
    /// Sequence number of the last object that came to rest.
    last_turn: u64,
    /// The objects at rest of each shard, by turn. None is empty.
    at_rest: BTreeMap<Option<ShardId>, BTreeMap<u64, Resting>>,
    /// The lowest turn of each shard.
    oldest: BTreeMap<u64, Option<ShardId>>,
}

/// An object at rest.
#[derive(Clone)]
pub(crate) struct Resting {
    pub(crate) since: Duration,
    pub(crate) shard: Option<ShardId>,
    pub(crate) key: ObjectKey,
}

/// The place of one object. It ends with the object.
pub(crate) struct Residence {
    residents: Arc<Residents>,
    counts: bool,
    /// Its shard and its turn while it is at rest.
    place: Option<(Option<ShardId>, u64)>,
}

/// A search through the objects at rest, the least recently used first.
///
/// After [`Self::next`] it leaves the shard, unless [`Self::pass_object`] is called.
pub(crate) struct Search<'r> {
    residents: &'r Residents,
    /// The last shard's lowest turn.
    after: u64,
    /// The next turn to visit, in each shard where an object was passed.
    passed: BTreeMap<u64, Option<ShardId>>,
}

impl Residents {
    /// Counts an object that is about to be activated.
    pub(crate) fn enter(self: &Arc<Self>) -> Residence {
        self.lock().count += 1;
        Residence { residents: Arc::clone(self), counts: true, place: None }
    }

    /// Number of evictable objects, excluding those being deactivated.
    pub(crate) fn count(&self) -> u64 {
        self.lock().count
    }

    /// Starts a search.
    pub(crate) const fn search(&self) -> Search<'_> {
        Search { residents: self, after: 0, passed: BTreeMap::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent after every statement.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn list(&mut self, resting: Resting) -> (Option<ShardId>, u64) {
        self.last_turn += 1;
        let (shard, turn) = (resting.shard, self.last_turn);
        let of_shard = self.at_rest.entry(shard).or_default();
        if of_shard.is_empty() {
            self.oldest.insert(turn, shard);
        }
        of_shard.insert(turn, resting);
        (shard, turn)
    }

    fn unlist(&mut self, (shard, turn): (Option<ShardId>, u64)) -> Option<Resting> {
        let of_shard = self.at_rest.get_mut(&shard)?;
        let resting = of_shard.remove(&turn);
        let next = of_shard.keys().next().copied();
        if self.oldest.remove(&turn).is_some()
            && let Some(next) = next
        {
            self.oldest.insert(next, shard);
        }
        if next.is_none() {
            self.at_rest.remove(&shard);
        }
        resting
    }
}

impl Search<'_> {
    /// The next object, and its turn.
    pub(crate) fn next(&mut self) -> Option<(u64, Resting)> {
        let state = self.residents.lock();
        loop {
            let shard = state.oldest.range((Excluded(self.after), Unbounded)).next();
            let shard = shard.map(|(turn, shard)| (*turn, *shard));
            let passed = self.passed.first_key_value().map(|(turn, shard)| (*turn, *shard));
            let (turn, shard) = match (shard, passed) {
                (Some(shard), passed) if passed.is_none_or(|passed| shard.0 < passed.0) => {
                    self.after = shard.0;
                    shard
                }
                (_, Some(passed)) => {
                    self.passed.remove(&passed.0);
                    passed
                }
                (_, None) => return None,
            };
            // A passed object may have been used meanwhile.
            if let Some(resting) = state.at_rest.get(&shard).and_then(|one| one.get(&turn)) {
                return Some((turn, resting.clone()));
            }
        }
    }

    /// Continues behind an object that cannot be evicted.
    pub(crate) fn pass_object(&mut self, turn: u64, shard: Option<ShardId>) {
        let state = self.residents.lock();
        let Some(of_shard) = state.at_rest.get(&shard) else { return };
        if let Some((next, _)) = of_shard.range((Excluded(turn), Unbounded)).next() {
            self.passed.insert(*next, shard);
        }
    }
}

impl Residence {
    /// Lists the object as the most recently used.
    pub(crate) fn rest(&mut self, resting: Resting) {
        let mut state = self.residents.lock();
        let before = self.place.take().and_then(|place| state.unlist(place));
        self.place = Some(state.list(resting));
        drop((state, before));
    }

    /// Takes the object off the list, because a call uses it.
    pub(crate) fn wake(&mut self) {
        let resting = self.place.take().and_then(|place| self.residents.lock().unlist(place));
        drop(resting);
    }

    /// Stops counting the object, because it is about to be deactivated.
    pub(crate) fn leave(&mut self) {
        self.wake();
        if std::mem::take(&mut self.counts) {
            let mut state = self.residents.lock();
            state.count = state.count.saturating_sub(1);
        }
    }
}

impl Drop for Residence {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use shardwright_placement::ObjectId;

    use super::*;

    fn resting(id: &str, since: u64) -> Resting {
        let key = ObjectKey::new("Probe", ObjectId::parse(id).unwrap());
        Resting { since: Duration::from_secs(since), shard: None, key }
    }

    /// All objects at rest, the least recently used first.
    fn listed(residents: &Residents) -> Vec<String> {
        let (mut search, mut ids) = (residents.search(), Vec::new());
        while let Some((turn, resting)) = search.next() {
            search.pass_object(turn, resting.shard);
            ids.push(resting.key.id.as_str().to_owned());
        }
        ids
    }

    fn in_shard(id: &str, shard: u64) -> Resting {
        Resting { shard: Some(ShardId::from_raw(shard)), ..resting(id, 1) }
    }

    #[test]
    fn a_search_keeps_the_order_across_shards() {
        let residents = Arc::new(Residents::default());
        let mut all: Vec<_> = (0..6).map(|_| residents.enter()).collect();
        for (number, residence) in (0..).zip(&mut all) {
            residence.rest(in_shard(&format!("o{number}"), number % 2));
        }
        assert_eq!(listed(&residents), ["o0", "o1", "o2", "o3", "o4", "o5"]);
        all[0].wake();
        all[1].rest(in_shard("o1", 1));
        assert_eq!(listed(&residents), ["o2", "o3", "o4", "o5", "o1"]);
        let mut search = residents.search();
        let firsts = std::iter::from_fn(|| search.next());
        let firsts: Vec<_> = firsts.map(|(_, one)| one.key.id.as_str().to_owned()).collect();
        assert_eq!(firsts, ["o2", "o3"], "one object per shard, unless it is passed");
        drop(all);
        let state = residents.lock();
        assert!(state.at_rest.is_empty() && state.oldest.is_empty());
    }

    #[test]
    fn the_least_recently_used_object_is_first() {
        let residents = Arc::new(Residents::default());
        let (mut a, mut b) = (residents.enter(), residents.enter());
        a.rest(resting("a", 1));
        b.rest(resting("b", 2));
        assert_eq!(listed(&residents), ["a", "b"]);
        a.wake();
        assert_eq!(listed(&residents), ["b"], "an object in use is not listed");
        a.rest(resting("a", 3));
        assert_eq!(listed(&residents), ["b", "a"]);
    }

    #[test]
    fn an_object_is_counted_until_it_leaves_or_ends() {
        let residents = Arc::new(Residents::default());
        let (mut a, b) = (residents.enter(), residents.enter());
        assert_eq!(residents.count(), 2);
        a.rest(resting("a", 1));
        a.leave();
        assert_eq!((residents.count(), listed(&residents).len()), (1, 0));
        drop(a);
        assert_eq!(residents.count(), 1);
        drop(b);
        assert_eq!(residents.count(), 0);
    }
}
