//! Which items are done, where they finish in any order.
//!
//! A cursor states that everything up to a key is done. So it moves over the completed prefix only,
//! however many items after it are done as well.

use std::collections::VecDeque;

/// Items in the order in which they were handed out, with their outcomes.
#[derive(Debug)]
pub(crate) struct Tracker<T> {
    first: u64,
    outcomes: VecDeque<Option<T>>,
}

/// The position of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

impl<T> Tracker<T> {
    pub(crate) const fn new() -> Self {
        Self { first: 0, outcomes: VecDeque::new() }
    }

    /// Adds the next item.
    pub(crate) fn start(&mut self) -> Ticket {
        self.outcomes.push_back(None);
        Ticket(self.first + self.outcomes.len() as u64 - 1)
    }

    /// Records the outcome of an item.
    pub(crate) fn finish(&mut self, ticket: Ticket, outcome: T) {
        let index = ticket.0.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        if let Some(slot) = index.and_then(|index| self.outcomes.get_mut(index)) {
            *slot = Some(outcome);
        }
    }

    /// The first item.
    pub(crate) fn first(&self) -> Option<Ticket> {
        (!self.is_empty()).then_some(Ticket(self.first))
    }

    /// The outcomes of the items that are done, up to the first that is not.
    pub(crate) fn done(&self) -> impl Iterator<Item = &T> {
        self.outcomes.iter().map_while(Option::as_ref)
    }

    /// Whether an item after the first is done.
    pub(crate) fn is_any_done(&self) -> bool {
        self.outcomes.iter().any(Option::is_some)
    }

    /// Removes the first item, done or not.
    pub(crate) fn drop_first(&mut self) {
        self.first += u64::from(self.outcomes.pop_front().is_some());
    }

    /// Removes the first item and returns its outcome, if it is done.
    pub(crate) fn take_first(&mut self) -> Option<T> {
        let done = self.outcomes.front_mut()?.take()?;
        self.outcomes.pop_front();
        self.first += 1;
        Some(done)
    }

    /// Number of items that were not removed.
    pub(crate) fn len(&self) -> usize {
        self.outcomes.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.outcomes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_later_item_waits_for_an_earlier_one() {
        let mut tracker = Tracker::new();
        let (first, second) = (tracker.start(), tracker.start());
        tracker.finish(second, 2);
        assert_eq!(tracker.take_first(), None);
        tracker.finish(first, 1);
        assert_eq!((tracker.take_first(), tracker.take_first()), (Some(1), Some(2)));
        assert_eq!((tracker.take_first(), tracker.is_empty()), (None, true));
    }

    proptest! {
        #[test]
        fn outcomes_are_taken_in_the_order_of_starts(
            order in Just((0..40_usize).collect::<Vec<_>>()).prop_shuffle(),
        ) {
            let mut tracker = Tracker::new();
            let tickets: Vec<Ticket> = (0..40).map(|_| tracker.start()).collect();
            let (mut taken, mut finished) = (Vec::new(), std::collections::BTreeSet::new());
            for item in order {
                tracker.finish(tickets[item], item);
                finished.insert(item);
                while let Some(done) = tracker.take_first() {
                    taken.push(done);
                }
                let contiguous = (0..40).take_while(|item| finished.contains(item)).count();
                prop_assert_eq!(taken.len(), contiguous);
                prop_assert_eq!(tracker.len(), 40 - contiguous);
            }
            prop_assert_eq!(taken, (0..40).collect::<Vec<_>>());
        }
    }
}
