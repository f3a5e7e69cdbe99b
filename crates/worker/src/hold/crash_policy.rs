//! How to work on a shard whose holders were lost without progress.
//!
//! An item can kill not only its program but the whole worker. No process is left to name the item,
//! and the shard comes back without progress. Its next holder processes one item at a time and
//! commits each, so that the cursor stops right before the killer. After enough losses, the item
//! after the cursor is parked unprocessed.
//!
//! Shards held beside such a shard are lost with it, and would be blamed as well. So its holder has
//! an exclusive claim: until its first item is committed, no other slot of the worker acquires a
//! shard. Where items take long, that would idle all other slots, so the claim is limited in time,
//! and the limit doubles with each loss. The last try before parking is exclusive without limit, so
//! that no item is parked for a neighbour's fault.
//!
//! Workers are lost for other reasons far more often. So the first loss counts as chance: it delays
//! no other slot, and where many items are in progress, it costs some extra commits instead of
//! thousands.

use std::num::NonZeroU32;
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;

use crate::options::WorkerOptions;

/// Up to this many items in progress, the first loss already leads to one item at a time.
const FEW_IN_HAND: usize = 64;
/// Above that, the items are processed in this many parts after the first loss.
const FIRST_PARTS: u64 = 8;
/// Length of the exclusive claim after the second loss.
const FIRST_EXCLUSIVE: Duration = Duration::from_secs(10);

/// How many items of a shard may be in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CrashPolicy {
    /// No limit beyond the options.
    None,
    /// A limited number of items, committed before the next are started, until all items that may
    /// have been in progress at the loss are committed.
    Careful {
        /// Items at a time.
        at_a_time: u64,
        /// Items left.
        items: u64,
    },
    /// The first item is parked unprocessed.
    ParkNext {
        /// Workers lost with it.
        losses: u32,
    },
}

impl CrashPolicy {
    /// The policy of a shard after so many acquires in a row without progress, this one
    /// included, of at most `limit`. Earlier holders may have started `in_hand` items.
    pub(super) fn of(
        acquires_without_progress: u32,
        limit: Option<NonZeroU32>,
        options: &WorkerOptions,
        in_hand: usize,
    ) -> Self {
        let last_try = last_try(limit, options);
        let losses = acquires_without_progress.saturating_sub(1);
        if acquires_without_progress > last_try {
            return Self::ParkNext { losses };
        }
        let items = options.commit_items.saturating_add(in_hand as u64);
        match losses {
            0 => Self::None,
            1 if in_hand > FEW_IN_HAND && acquires_without_progress < last_try => {
                Self::Careful { at_a_time: items.div_ceil(FIRST_PARTS), items }
            }
            _ => Self::Careful { at_a_time: 1, items },
        }
    }

    /// Most items started and not committed.
    pub(super) const fn most_started(self) -> u64 {
        match self {
            Self::None => u64::MAX,
            Self::Careful { at_a_time, .. } => at_a_time,
            Self::ParkNext { .. } => 0,
        }
    }

    /// Records that `count` items are committed.
    pub(super) const fn note_committed(&mut self, count: u64) {
        *self = match *self {
            Self::Careful { at_a_time, items } if items > count => {
                Self::Careful { at_a_time, items: items - count }
            }
            _ => Self::None,
        };
    }
}

/// The number of the last acquire that processes the item after the cursor. The last acquire that
/// a run allows is not risked, but an item is parked only after it was tried alone.
fn last_try(limit: Option<NonZeroU32>, options: &WorkerOptions) -> u32 {
    let allowed = limit.map_or(u32::MAX, |limit| limit.get().saturating_sub(1).max(2));
    options.crash_limit.max(2).min(allowed)
}

/// How long no other slot of the worker acquires a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exclusivity {
    No,
    /// For this time, or until there is progress.
    For(Duration),
    UntilProgress,
}

impl Exclusivity {
    /// The exclusivity of a shard after so many acquires in a row without progress, this one
    /// included.
    pub(super) fn of(
        acquires_without_progress: u32,
        limit: Option<NonZeroU32>,
        options: &WorkerOptions,
    ) -> Self {
        let last_try = last_try(limit, options);
        match acquires_without_progress {
            last if last == last_try => Self::UntilProgress,
            // Parking an item unprocessed cannot kill the worker.
            more if more > last_try => Self::No,
            0..=2 => Self::No,
            again => {
                let doublings = (again - 3).min(31);
                Self::For(FIRST_EXCLUSIVE.saturating_mul(1 << doublings))
            }
        }
    }
}

/// Keeps the turn to acquire shards, so that no other slot of the worker does.
pub(super) struct ExclusiveClaim {
    /// When it ends without progress.
    until: Option<Duration>,
    turn: OwnedMutexGuard<()>,
}

impl ExclusiveClaim {
    /// Keeps the turn if the shard requires it.
    pub(super) fn begin(
        exclusivity: Exclusivity,
        now: Duration,
        turn: OwnedMutexGuard<()>,
    ) -> Option<Self> {
        let until = match exclusivity {
            Exclusivity::No => return None,
            Exclusivity::For(time) => Some(now.saturating_add(time)),
            Exclusivity::UntilProgress => None,
        };
        Some(Self { until, turn })
    }

    /// The turn.
    pub(super) fn into_turn(self) -> OwnedMutexGuard<()> {
        self.turn
    }

    /// How long it lasts without progress; none if it has no limit.
    pub(super) fn left(&self, now: Duration) -> Option<Duration> {
        self.until.map(|until| until.saturating_sub(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE_BY_ONE: CrashPolicy = CrashPolicy::Careful { at_a_time: 1, items: 15 };

    fn policy(acquires: u32, limit: Option<u32>) -> CrashPolicy {
        policy_in_hand(acquires, limit, 5)
    }

    fn policy_in_hand(acquires: u32, limit: Option<u32>, in_hand: usize) -> CrashPolicy {
        let options = WorkerOptions { crash_limit: 4, commit_items: 10, ..Default::default() };
        CrashPolicy::of(acquires, limit.and_then(NonZeroU32::new), &options, in_hand)
    }

    #[test]
    fn a_shard_without_progress_is_processed_item_by_item() {
        assert_eq!(policy(1, None), CrashPolicy::None);
        for acquires in 2..=4 {
            assert_eq!(policy(acquires, None), ONE_BY_ONE);
        }
        assert_eq!(policy(5, None), CrashPolicy::ParkNext { losses: 4 });
    }

    #[test]
    fn the_last_try_that_a_run_allows_is_not_risked() {
        assert_eq!(policy(2, Some(3)), ONE_BY_ONE);
        assert_eq!(policy(3, Some(3)), CrashPolicy::ParkNext { losses: 2 });
        // No item was tried alone yet.
        assert_eq!(policy(2, Some(2)), ONE_BY_ONE);
        assert_eq!(policy(1, Some(1)), CrashPolicy::None);
    }

    #[test]
    fn with_many_items_in_progress_the_first_loss_counts_as_chance() {
        let in_parts = CrashPolicy::Careful { at_a_time: 252, items: 2_010 };
        assert_eq!(policy_in_hand(2, None, 2_000), in_parts);
        for acquires in 3..=4 {
            let one_by_one = CrashPolicy::Careful { at_a_time: 1, items: 2_010 };
            assert_eq!(policy_in_hand(acquires, None, 2_000), one_by_one);
        }
        // An item is parked only after it was tried alone.
        let one_by_one = CrashPolicy::Careful { at_a_time: 1, items: 2_010 };
        assert_eq!(policy_in_hand(2, Some(3), 2_000), one_by_one);
        assert_eq!(policy_in_hand(3, Some(3), 2_000), CrashPolicy::ParkNext { losses: 2 });
    }

    fn exclusivity(acquires: u32, limit: Option<u32>) -> Exclusivity {
        let options = WorkerOptions { crash_limit: 6, ..Default::default() };
        Exclusivity::of(acquires, limit.and_then(NonZeroU32::new), &options)
    }

    #[test]
    fn repeated_losses_make_the_claim_exclusive_and_longer() {
        let seconds = |seconds| Exclusivity::For(Duration::from_secs(seconds));
        let expected = [Exclusivity::No, Exclusivity::No, seconds(10), seconds(20), seconds(40)];
        assert_eq!([1, 2, 3, 4, 5].map(|acquires| exclusivity(acquires, None)), expected);
    }

    #[test]
    fn the_last_try_is_exclusive_until_progress() {
        assert_eq!(exclusivity(6, None), Exclusivity::UntilProgress);
        assert_eq!(exclusivity(7, None), Exclusivity::No);
        assert_eq!(exclusivity(2, Some(3)), Exclusivity::UntilProgress);
        assert_eq!(exclusivity(3, Some(5)), Exclusivity::For(FIRST_EXCLUSIVE));
        assert_eq!(exclusivity(4, Some(5)), Exclusivity::UntilProgress);
    }

    #[test]
    fn the_policy_ends_after_what_may_have_been_in_progress() {
        let mut policy = CrashPolicy::Careful { at_a_time: 2, items: 3 };
        policy.note_committed(2);
        assert_eq!(policy, CrashPolicy::Careful { at_a_time: 2, items: 1 });
        policy.note_committed(2);
        assert_eq!(policy, CrashPolicy::None);
    }
}
