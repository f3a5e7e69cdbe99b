//! Care with a shard whose holders have been lost again and again.
//!
//! An item can kill not only the program that works on it but the whole worker. Then nobody is
//! left to say which one it was, and the shard comes back without progress. Whoever gets such a
//! shard works on one item at a time and commits each, so that the cursor stands right before the
//! killer. Until the first is committed, nobody beside it in the same worker acquires a shard,
//! which would be lost with it. When that has not helped often enough, the item behind the cursor
//! is set aside unseen.
//!
//! A worker is lost for other reasons far more often. Where many items are in hand at a time, the
//! first loss is answered with some commits instead of thousands: the next one, if there is one,
//! shows that it was not by chance.

use std::num::NonZeroU32;

use crate::options::WorkerOptions;

/// Up to so many items in hand are worked on one by one at once: that costs little.
const FEW_IN_HAND: usize = 64;
/// In how many parts more of them are worked on at first.
const FIRST_PARTS: u64 = 8;

/// How carefully a shard is worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Care {
    /// As many items at a time as there may be.
    None,
    /// So many items at a time, each time committed before the next are begun, for as many items
    /// as may have been begun and not committed.
    Careful {
        /// How many at a time.
        at_a_time: u64,
        /// How many are left.
        items: u64,
    },
    /// The first item is not worked on at all.
    SetAside {
        /// How often a worker was lost with it.
        losses: u32,
    },
}

impl Care {
    /// What a shard needs that was acquired so often without progress, this time included, and
    /// may be `limit` times; `in_hand` items may have been begun by those before.
    pub(super) fn of(
        fruitless_acquires: u32,
        limit: Option<NonZeroU32>,
        options: &WorkerOptions,
        in_hand: usize,
    ) -> Self {
        // The last try that a run allows must not be lost as well; but nobody is set aside who
        // was not tried alone.
        let allowed = limit.map_or(u32::MAX, |limit| limit.get().saturating_sub(1).max(2));
        let last_try = options.crash_limit.max(2).min(allowed);
        let losses = fruitless_acquires.saturating_sub(1);
        if fruitless_acquires > last_try {
            return Self::SetAside { losses };
        }
        let items = options.commit_items.saturating_add(in_hand as u64);
        match losses {
            0 => Self::None,
            1 if in_hand > FEW_IN_HAND && fruitless_acquires < last_try => {
                Self::Careful { at_a_time: items.div_ceil(FIRST_PARTS), items }
            }
            _ => Self::Careful { at_a_time: 1, items },
        }
    }

    /// How many items may be begun and not committed.
    pub(super) const fn most_begun(self) -> u64 {
        match self {
            Self::None => u64::MAX,
            Self::Careful { at_a_time, .. } => at_a_time,
            Self::SetAside { .. } => 0,
        }
    }

    /// Notes that so many items are committed.
    pub(super) const fn note_committed(&mut self, count: u64) {
        *self = match *self {
            Self::Careful { at_a_time, items } if items > count => {
                Self::Careful { at_a_time, items: items - count }
            }
            _ => Self::None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE_BY_ONE: Care = Care::Careful { at_a_time: 1, items: 15 };

    fn care(fruitless: u32, limit: Option<u32>) -> Care {
        care_in_hand(fruitless, limit, 5)
    }

    fn care_in_hand(fruitless: u32, limit: Option<u32>, in_hand: usize) -> Care {
        let options = WorkerOptions { crash_limit: 4, commit_items: 10, ..Default::default() };
        Care::of(fruitless, limit.and_then(NonZeroU32::new), &options, in_hand)
    }

    #[test]
    fn a_shard_that_comes_back_without_progress_is_worked_on_one_by_one() {
        assert_eq!(care(1, None), Care::None);
        for fruitless in 2..=4 {
            assert_eq!(care(fruitless, None), ONE_BY_ONE);
        }
        assert_eq!(care(5, None), Care::SetAside { losses: 4 });
    }

    #[test]
    fn the_last_try_that_a_run_allows_is_not_risked() {
        assert_eq!(care(2, Some(3)), ONE_BY_ONE);
        assert_eq!(care(3, Some(3)), Care::SetAside { losses: 2 });
        // Nobody was tried alone yet.
        assert_eq!(care(2, Some(2)), ONE_BY_ONE);
        assert_eq!(care(1, Some(1)), Care::None);
    }

    #[test]
    fn where_many_are_in_hand_the_first_loss_is_taken_for_chance_and_the_second_is_not() {
        let in_parts = Care::Careful { at_a_time: 252, items: 2_010 };
        assert_eq!(care_in_hand(2, None, 2_000), in_parts);
        for fruitless in 3..=4 {
            let one_by_one = Care::Careful { at_a_time: 1, items: 2_010 };
            assert_eq!(care_in_hand(fruitless, None, 2_000), one_by_one);
        }
        // Nobody is set aside who was not tried alone.
        let alone = Care::Careful { at_a_time: 1, items: 2_010 };
        assert_eq!(care_in_hand(2, Some(3), 2_000), alone);
        assert_eq!(care_in_hand(3, Some(3), 2_000), Care::SetAside { losses: 2 });
    }

    #[test]
    fn care_ends_behind_what_may_have_been_in_hand() {
        let mut care = Care::Careful { at_a_time: 2, items: 3 };
        care.note_committed(2);
        assert_eq!(care, Care::Careful { at_a_time: 2, items: 1 });
        care.note_committed(2);
        assert_eq!(care, Care::None);
    }
}
