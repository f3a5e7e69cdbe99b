//! Care with a shard whose holders have been lost again and again.
//!
//! An item can kill not only the program that works on it but the whole worker. Then nobody is
//! left to say which one it was, and the shard comes back without progress. Whoever gets such a
//! shard works on one item at a time and commits each, so that the cursor stands right before the
//! killer. Until the first is committed, nobody beside it in the same worker acquires a shard,
//! which would be lost with it. When that has not helped often enough, the item behind the cursor
//! is set aside unseen.

use std::num::NonZeroU32;

use crate::options::WorkerOptions;

/// How carefully a shard is worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Care {
    /// As many items at a time as there may be.
    None,
    /// One item at a time, for as many items as may have been begun and not committed.
    OneByOne {
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
        let losses = fruitless_acquires.saturating_sub(1);
        if fruitless_acquires > options.crash_limit.max(2).min(allowed) {
            return Self::SetAside { losses };
        }
        match losses {
            0 => Self::None,
            _ => Self::OneByOne { items: options.commit_items.saturating_add(in_hand as u64) },
        }
    }

    pub(super) const fn is_one_by_one(self) -> bool {
        matches!(self, Self::OneByOne { .. })
    }

    /// Notes that an item is committed.
    pub(super) const fn note_committed(&mut self) {
        *self = match *self {
            Self::OneByOne { items: items @ 2.. } => Self::OneByOne { items: items - 1 },
            _ => Self::None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn care(fruitless: u32, limit: Option<u32>) -> Care {
        let options = WorkerOptions { crash_limit: 4, commit_items: 10, ..Default::default() };
        Care::of(fruitless, limit.and_then(NonZeroU32::new), &options, 5)
    }

    #[test]
    fn a_shard_that_comes_back_without_progress_is_worked_on_one_by_one() {
        assert_eq!(care(1, None), Care::None);
        for fruitless in 2..=4 {
            assert_eq!(care(fruitless, None), Care::OneByOne { items: 15 });
        }
        assert_eq!(care(5, None), Care::SetAside { losses: 4 });
    }

    #[test]
    fn the_last_try_that_a_run_allows_is_not_risked() {
        assert_eq!(care(2, Some(3)), Care::OneByOne { items: 15 });
        assert_eq!(care(3, Some(3)), Care::SetAside { losses: 2 });
        // Nobody was tried alone yet.
        assert_eq!(care(2, Some(2)), Care::OneByOne { items: 15 });
        assert_eq!(care(1, Some(1)), Care::None);
    }

    #[test]
    fn care_ends_behind_what_may_have_been_in_hand() {
        let mut care = Care::OneByOne { items: 2 };
        care.note_committed();
        assert_eq!(care, Care::OneByOne { items: 1 });
        care.note_committed();
        assert_eq!(care, Care::None);
    }
}
