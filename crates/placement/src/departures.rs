use std::collections::BTreeMap;

use shardwright_contracts::LogicalTime;

use crate::member::{Holder, HolderRef, Incarnation};

/// How many departures are remembered one by one.
const REMEMBERED: usize = 256;

/// When nodes left the cluster, as one process saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Departures {
    known: BTreeMap<Holder, LogicalTime>,
    /// By when all have left that are not known one by one.
    others_by: LogicalTime,
}

impl Departures {
    /// Whoever had left by then, nobody knows when.
    pub(crate) const fn before(time: LogicalTime) -> Self {
        Self { known: BTreeMap::new(), others_by: time }
    }

    /// Takes note of a node that has left.
    pub(crate) fn note(&mut self, holder: Holder, now: LogicalTime) {
        self.known.insert(holder, now);
        if self.known.len() > REMEMBERED {
            let first = self.known.iter().min_by_key(|(holder, at)| (**at, *holder));
            if let Some((holder, at)) = first.map(|(holder, at)| (holder.clone(), *at)) {
                self.known.remove(&holder);
                self.others_by = self.others_by.max(at);
            }
        }
    }

    /// Forgets one that is there after all.
    pub(crate) fn forget(&mut self, holder: &Holder) {
        self.known.remove(holder);
    }

    /// The latest time at which a node that is not there can have left. Where claims do not say in
    /// which life they were made, any life at the address may be meant.
    pub(crate) fn of(&self, holder: HolderRef<'_>) -> LogicalTime {
        if self.known.is_empty() {
            return self.others_by;
        }
        let life = |raw| Holder {
            address: holder.address.clone(),
            incarnation: Incarnation::from_raw(raw),
        };
        let exactly = self.known.get(&holder.to_holder()).copied();
        let of_address = || self.known.range(life(0)..=life(u64::MAX)).map(|(_, at)| *at).max();
        exactly.or_else(of_address).unwrap_or(self.others_by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::NodeAddress;

    fn of(address: &str, life: u64) -> Holder {
        let address = NodeAddress::parse(address).unwrap();
        Holder { address, incarnation: Incarnation::from_raw(life) }
    }

    /// Each life is one of another node.
    fn holder(life: u64) -> Holder {
        of(&format!("n{life}"), life)
    }

    fn at(millis: u64) -> LogicalTime {
        LogicalTime::from_millis(millis)
    }

    #[test]
    fn each_life_left_when_it_did_and_others_before_anybody_looked() {
        let mut departures = Departures::before(at(5));
        assert_eq!(departures.of(holder(1).borrowed()), at(5));
        departures.note(holder(1), at(7));
        assert_eq!(departures.of(holder(1).borrowed()), at(7));
        assert_eq!(departures.of(holder(2).borrowed()), at(5));
        departures.forget(&holder(1));
        assert_eq!(departures.of(holder(1).borrowed()), at(5));
    }

    #[test]
    fn a_life_that_nobody_saw_may_be_any_at_its_address() {
        let mut departures = Departures::before(at(0));
        departures.note(of("a", 3), at(7));
        departures.note(of("a", 4), at(9));
        assert_eq!(departures.of(of("a", 3).borrowed()), at(7));
        assert_eq!(departures.of(of("a", 0).borrowed()), at(9));
        assert_eq!(departures.of(of("b", 0).borrowed()), at(0));
    }

    #[test]
    fn who_is_forgotten_left_no_later_than_the_last_one_forgotten() {
        let mut departures = Departures::before(at(0));
        let many = REMEMBERED as u64 + 10;
        (1..=many).for_each(|life| departures.note(holder(life), at(life * 10)));
        assert_eq!(departures.known.len(), REMEMBERED);
        assert_eq!(departures.of(holder(1).borrowed()), at(100));
        assert_eq!(departures.of(holder(10).borrowed()), at(100));
        assert_eq!(departures.of(holder(11).borrowed()), at(110));
        assert_eq!(departures.of(holder(many).borrowed()), at(many * 10));
    }
}
