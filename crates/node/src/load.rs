use std::time::Duration;

/// The weight of a new measurement in the smoothed load: one part in this many.
const SMOOTHING: u64 = 4;

/// The load of one shard: the smoothed work of its calls per second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LoadMeter {
    busy: Duration,
    calls: u64,
    smoothed: Option<u64>,
}

impl LoadMeter {
    /// Counts a call.
    pub(crate) fn count(&mut self, busy: Duration) {
        self.busy = self.busy.saturating_add(busy);
        self.calls = self.calls.saturating_add(1);
    }

    /// Measures the load since the last measurement, in microseconds of work per second and a few
    /// for each call.
    pub(crate) fn measure(&mut self, elapsed: Duration) -> u64 {
        let Self { busy, calls, smoothed } = std::mem::take(self);
        let micros = elapsed.as_micros().max(1);
        // Even a call without work is received and answered.
        let work = busy.as_micros() + u128::from(calls) * 10;
        let latest = u64::try_from(work * 1_000_000 / micros).unwrap_or(u64::MAX);
        let next = match smoothed {
            Some(before) => before - before / SMOOTHING + latest / SMOOTHING,
            None => latest,
        };
        self.smoothed = Some(next);
        next
    }

    /// The latest measurement.
    pub(crate) fn latest(&self) -> u64 {
        self.smoothed.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_is_work_per_second_and_falls_slowly() {
        let mut meter = LoadMeter::default();
        for _ in 0..100 {
            meter.count(Duration::from_millis(1));
        }
        assert_eq!(meter.measure(Duration::from_secs(1)), 101_000);
        assert_eq!(meter.measure(Duration::from_secs(1)), 75_750);
        assert_eq!(meter.measure(Duration::ZERO), 56_813);
    }
}
