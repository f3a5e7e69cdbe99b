//! The active objects of a node, and the order in which they were last used.
//!
//! An object is listed while it is at rest: from the end of a call to the start of the next. So the
//! list never offers an object with a call in progress for eviction.

use std::collections::BTreeMap;
use std::ops::Bound;
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
    /// Numbers the moments at which an object came to rest.
    last_turn: u64,
    at_rest: BTreeMap<u64, Resting>,
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
    turn: Option<u64>,
}

impl Residents {
    /// Counts an object that is about to be activated.
    pub(crate) fn enter(self: &Arc<Self>) -> Residence {
        self.lock().count += 1;
        Residence { residents: Arc::clone(self), counts: true, turn: None }
    }

    /// Number of evictable objects, excluding those being deactivated.
    pub(crate) fn count(&self) -> u64 {
        self.lock().count
    }

    /// The object that came to rest first after a turn, and its turn. Turns begin at 1.
    pub(crate) fn next_at_rest(&self, after: u64) -> Option<(u64, Resting)> {
        let later = (Bound::Excluded(after), Bound::Unbounded);
        let state = self.lock();
        state.at_rest.range(later).next().map(|(turn, resting)| (*turn, resting.clone()))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent after every statement.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Residence {
    /// Lists the object as the most recently used.
    pub(crate) fn rest(&mut self, resting: Resting) {
        let mut state = self.residents.lock();
        state.last_turn += 1;
        let turn = state.last_turn;
        state.at_rest.insert(turn, resting);
        let before = self.turn.replace(turn).and_then(|turn| state.at_rest.remove(&turn));
        drop((state, before));
    }

    /// Takes the object off the list, because a call uses it.
    pub(crate) fn wake(&mut self) {
        let resting = self.turn.take().and_then(|turn| self.residents.lock().at_rest.remove(&turn));
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

    fn listed(residents: &Residents) -> Vec<String> {
        let (mut after, mut ids) = (0, Vec::new());
        while let Some((turn, resting)) = residents.next_at_rest(after) {
            (after, ids) = (turn, [ids, vec![resting.key.id.as_str().to_owned()]].concat());
        }
        ids
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
