use std::time::Duration;

use shardwright_placement::{HandoverAttempts, HandoverTimeouts};

use super::leaving::Leaving;
use crate::host::Slot;

/// How it has gone so far with giving one shard away.
#[derive(Clone, Copy)]
pub(super) struct Attempts {
    began_at: Duration,
    /// When the shard began to admit calls, or ceased to.
    changed_at: Duration,
    tries: u32,
    refusals: u32,
    /// Whether the store has refused the release since the shard ceased to admit calls.
    is_refused: bool,
    timeouts: HandoverTimeouts,
}

impl Attempts {
    pub(super) const fn new(now: Duration, timeouts: HandoverTimeouts) -> Self {
        let (tries, refusals, is_refused) = (0, 0, false);
        Self { began_at: now, changed_at: now, tries, refusals, is_refused, timeouts }
    }

    pub(super) fn as_of(&self, now: Duration, leaving: Leaving) -> HandoverAttempts {
        let since =
            |at: Duration| u64::try_from(now.saturating_sub(at).as_millis()).unwrap_or(u64::MAX);
        HandoverAttempts {
            since_ms: since(self.began_at),
            as_it_is_ms: since(self.changed_at),
            tries: self.tries,
            refusals: self.refusals,
            is_refused: self.is_refused,
            leaves: leaving != Leaving::No,
            timeouts: self.timeouts,
        }
    }

    pub(super) fn set_admitting(&mut self, slot: &Slot, admitting: bool, now: Duration) {
        slot.set_admitting(admitting);
        self.changed_at = now;
        self.tries = self.tries.saturating_add(admitting.into());
        self.is_refused = false;
    }

    /// The same after the store has refused the release.
    pub(super) const fn refused(self) -> Self {
        Self { refusals: self.refusals.saturating_add(1), is_refused: true, ..self }
    }
}
