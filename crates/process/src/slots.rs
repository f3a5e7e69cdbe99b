//! The numbers that `{%}` stands for.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Numbers of programs. No two programs that run at the same time have the same.
#[derive(Clone, Default)]
pub(crate) struct Slots(Arc<Mutex<BTreeSet<u32>>>);

impl Slots {
    /// Takes the lowest number, from 1, that is free.
    pub(crate) fn take(&self) -> Slot {
        let mut taken = self.taken();
        let is_free = |number: &u32| !taken.contains(number);
        let number = (1..=u32::MAX).find(is_free).unwrap_or(u32::MAX);
        taken.insert(number);
        drop(taken);
        Slot { number, slots: self.clone() }
    }

    fn taken(&self) -> MutexGuard<'_, BTreeSet<u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A number that is taken. Dropping it frees the number.
pub(crate) struct Slot {
    pub(crate) number: u32,
    slots: Slots,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.taken().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_number_is_taken() {
        let slots = Slots::default();
        let (one, two, three) = (slots.take(), slots.take(), slots.take());
        assert_eq!([&one, &two, &three].map(|slot| slot.number), [1, 2, 3]);
        drop(two);
        assert_eq!(slots.take().number, 2);
        drop((one, three));
        let again = [slots.take(), slots.take()];
        assert_eq!(again.map(|slot| slot.number), [1, 2]);
    }
}
