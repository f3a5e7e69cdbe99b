//! How far ahead of the calendars time may be.

use shardwright_contracts::LogicalTime;

/// The latest time that anybody may have been told. It is an interval ahead of the calendar that is
/// furthest ahead. When that is set back, time has to go on, at half the pace, until the calendars
/// have caught up. That somebody starts adds nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ceiling {
    /// In half milliseconds.
    halves: u64,
    as_of_ms: u64,
}

impl Ceiling {
    /// Goes on to a moment at which the furthest calendar shows `calendar_ms`.
    pub(crate) fn rise(&mut self, now_ms: u64, calendar_ms: u64, interval_ms: u64) {
        let passed_ms = now_ms.saturating_sub(self.as_of_ms);
        let by_calendar = calendar_ms.saturating_add(interval_ms).saturating_mul(2);
        self.halves = self.halves.saturating_add(passed_ms).max(by_calendar);
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
    fn it_follows_the_furthest_calendar_and_comes_back_at_half_the_pace() {
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
