//! Care with a shard whose holders have been lost again and again.
//!
//! An item can kill not only the program that works on it but the whole worker. Then nobody is
//! left to say which one it was, and the shard comes back without progress. Whoever gets such a
//! shard works on one item at a time and commits each, so that the cursor stands right before the
//! killer. When that has not helped often enough, the item behind the cursor is set aside unseen.
//!
//! What is held beside such a shard is lost with it, and would be blamed as well. So it is alone:
//! until its first item is committed, nobody beside it in the same worker acquires a shard. Where
//! items take long, that would make one of many workers, so it is for a time only, which doubles
//! with each loss. The last try before its item is set aside is alone for as long as it takes:
//! whoever is set aside had the chance to show that it was a neighbour.
//!
//! A worker is lost for other reasons far more often. So the first loss is taken for chance: it
//! makes nobody wait, and where many items are in hand at a time, it is answered with some commits
//! instead of thousands. The next one, if there is one, shows that it was not by chance.

use std::num::NonZeroU32;
use std::time::Duration;

use tokio::sync::MutexGuard;

use crate::options::WorkerOptions;

/// Up to so many items in hand are worked on one by one at once: that costs little.
const FEW_IN_HAND: usize = 64;
/// In how many parts more of them are worked on at first.
const FIRST_PARTS: u64 = 8;
/// How long a shard is alone after the second loss.
const FIRST_ALONE: Duration = Duration::from_secs(10);

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
        let last_try = last_try(limit, options);
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

/// The acquire without progress that is the last to work on the item behind the cursor. The last
/// that a run allows must not be lost as well; but nobody is set aside who was not tried alone.
fn last_try(limit: Option<NonZeroU32>, options: &WorkerOptions) -> u32 {
    let allowed = limit.map_or(u32::MAX, |limit| limit.get().saturating_sub(1).max(2));
    options.crash_limit.max(2).min(allowed)
}

/// For how long nobody else of the same worker acquires a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alone {
    No,
    /// For a time, or until there is progress.
    For(Duration),
    UntilProgress,
}

impl Alone {
    /// What a shard needs that was acquired so often without progress, this time included.
    pub(super) fn of(
        fruitless_acquires: u32,
        limit: Option<NonZeroU32>,
        options: &WorkerOptions,
    ) -> Self {
        let last_try = last_try(limit, options);
        match fruitless_acquires {
            last if last == last_try => Self::UntilProgress,
            // What is set aside unseen harms nobody.
            more if more > last_try => Self::No,
            0..=2 => Self::No,
            again => {
                let doublings = (again - 3).min(31);
                Self::For(FIRST_ALONE.saturating_mul(1 << doublings))
            }
        }
    }
}

/// The turn to acquire a shard, kept so that nobody else has it.
pub(super) struct Solitude<'t> {
    /// When it ends even without progress.
    until: Option<Duration>,
    _turn: MutexGuard<'t, ()>,
}

impl<'t> Solitude<'t> {
    /// Keeps the turn if a shard has to be alone.
    pub(super) fn begin(alone: Alone, now: Duration, turn: MutexGuard<'t, ()>) -> Option<Self> {
        let until = match alone {
            Alone::No => return None,
            Alone::For(time) => Some(now.saturating_add(time)),
            Alone::UntilProgress => None,
        };
        Some(Self { until, _turn: turn })
    }

    /// How long it lasts without progress; none if it has no end.
    pub(super) fn left(&self, now: Duration) -> Option<Duration> {
        self.until.map(|until| until.saturating_sub(now))
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

    fn alone(fruitless: u32, limit: Option<u32>) -> Alone {
        let options = WorkerOptions { crash_limit: 6, ..Default::default() };
        Alone::of(fruitless, limit.and_then(NonZeroU32::new), &options)
    }

    #[test]
    fn a_shard_is_alone_from_the_second_loss_on_and_longer_each_time() {
        let seconds = |seconds| Alone::For(Duration::from_secs(seconds));
        let expected = [Alone::No, Alone::No, seconds(10), seconds(20), seconds(40)];
        assert_eq!([1, 2, 3, 4, 5].map(|fruitless| alone(fruitless, None)), expected);
    }

    #[test]
    fn the_last_try_is_alone_for_as_long_as_it_takes() {
        assert_eq!(alone(6, None), Alone::UntilProgress);
        assert_eq!(alone(7, None), Alone::No);
        assert_eq!(alone(2, Some(3)), Alone::UntilProgress);
        assert_eq!(alone(3, Some(5)), Alone::For(FIRST_ALONE));
        assert_eq!(alone(4, Some(5)), Alone::UntilProgress);
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
