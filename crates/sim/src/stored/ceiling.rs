//! Upper bound of the logical time.

use shardwright_contracts::LogicalTime;

/// The latest logical time that may have been returned: one interval ahead of the wall clock that
/// is furthest ahead. When that clock is set back, logical time advances at half the rate until
/// the wall clocks have caught up. The start of a process adds nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ceiling {
    /// In half milliseconds.
    halves: u64,
    as_of_ms: u64,
}

impl Ceiling {
    /// Advances to a moment at which the furthest wall clock shows `wall_clock_ms`.
    pub(crate) fn rise(&mut self, now_ms: u64, wall_clock_ms: u64, interval_ms: u64) {
        let passed_ms = now_ms.saturating_sub(self.as_of_ms);
        let by_wall_clock = wall_clock_ms.saturating_add(interval_ms).saturating_mul(2);
        self.halves = self.halves.saturating_add(passed_ms).max(by_wall_clock);
        self.as_of_ms = now_ms;
    }

    pub(crate) const fn time(&self) -> LogicalTime {
        LogicalTime::from_millis(self.halves / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ceiling_follows_the_furthest_clock_and_slows_when_set_back() {
        let mut ceiling = Ceiling::default();
        ceiling.rise(1_000, 1_000, 50);
        assert_eq!(ceiling.time().as_millis(), 1_050);
        ceiling.rise(1_001, 9_001, 50);
        ceiling.rise(2_001, 2_001, 50);
        assert_eq!(ceiling.time().as_millis(), 9_051 + 500);
        ceiling.rise(20_001, 20_001, 50);
        assert_eq!(ceiling.time().as_millis(), 20_051);
    }
}
