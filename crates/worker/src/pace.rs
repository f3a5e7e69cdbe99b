//! The speed of a shard, and when it will be done.

use std::time::Duration;

use shardwright_coordination::WorkEstimate;

/// Half-life of the moving average of the speed.
const HALF_LIFE: Duration = Duration::from_secs(4);

/// What is left of a shard, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) items: Option<u64>,
    pub(crate) bytes: Option<u64>,
}

/// The speed of a shard, as a moving average.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    since: Duration,
    measured: Duration,
    done_items: u64,
    done_bytes: u64,
    items_then: u64,
    bytes_then: u64,
    items_per_second: f64,
    bytes_per_second: f64,
}

impl Pace {
    pub(crate) const fn new(now: Duration) -> Self {
        Self {
            since: now,
            measured: now,
            done_items: 0,
            done_bytes: 0,
            items_then: 0,
            bytes_then: 0,
            items_per_second: 0.0,
            bytes_per_second: 0.0,
        }
    }

    pub(crate) const fn note(&mut self, bytes: u64) {
        self.done_items += 1;
        self.done_bytes = self.done_bytes.saturating_add(bytes);
    }

    /// Adds what was done since the last measurement to the average.
    #[expect(clippy::cast_precision_loss, reason = "a speed need not be exact")]
    pub(crate) fn measure(&mut self, now: Duration) {
        let elapsed = now.saturating_sub(self.measured).as_secs_f64();
        if elapsed <= 0.0 {
            return;
        }
        let items = (self.done_items - self.items_then) as f64 / elapsed;
        let bytes = (self.done_bytes - self.bytes_then) as f64 / elapsed;
        // The first measurement has nothing to average with.
        let is_first = self.measured == self.since;
        let old = if is_first { 0.0 } else { 0.5_f64.powf(elapsed / HALF_LIFE.as_secs_f64()) };
        self.items_per_second = self.items_per_second.mul_add(old, items * (1.0 - old));
        self.bytes_per_second = self.bytes_per_second.mul_add(old, bytes * (1.0 - old));
        (self.items_then, self.bytes_then) = (self.done_items, self.done_bytes);
        self.measured = now;
    }

    /// The estimate to publish. It takes the longer of the times by bytes and by items.
    pub(crate) fn estimate(&self, left: Left, is_indivisible: bool) -> WorkEstimate {
        let by_bytes = left.bytes.and_then(|bytes| time_for(bytes, self.bytes_per_second));
        let by_items = left.items.and_then(|items| time_for(items, self.items_per_second));
        WorkEstimate {
            done_items: self.done_items,
            done_bytes: self.done_bytes,
            left_items: left.items,
            left_bytes: left.bytes,
            left_ms: by_bytes.into_iter().chain(by_items).max(),
            is_indivisible,
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a prediction need not be exact, and a conversion saturates"
)]
fn time_for(amount: u64, per_second: f64) -> Option<u64> {
    (per_second > 0.0).then(|| (amount as f64 / per_second * 1_000.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn left_ms(pace: &Pace, items: u64) -> Option<u64> {
        let left = Left { items: Some(items), bytes: None };
        pace.estimate(left, false).left_ms
    }

    #[test]
    fn there_is_no_prediction_before_the_first_item() {
        let mut pace = Pace::new(seconds(10));
        assert_eq!(left_ms(&pace, 5), None);
        pace.measure(seconds(11));
        assert_eq!(left_ms(&pace, 5), None);
    }

    #[test]
    fn a_steady_speed_predicts_the_end() {
        let mut pace = Pace::new(seconds(10));
        for second in 11..20 {
            (0..50).for_each(|_| pace.note(100));
            pace.measure(seconds(second));
        }
        assert_eq!(left_ms(&pace, 500), Some(10_000));
        let left = Left { items: None, bytes: Some(50_000) };
        assert_eq!(pace.estimate(left, false).left_ms, Some(10_000));
    }

    #[test]
    fn a_shard_that_slows_down_is_predicted_to_take_longer() {
        let mut pace = Pace::new(seconds(0));
        (0..100).for_each(|_| pace.note(0));
        pace.measure(seconds(1));
        let before = left_ms(&pace, 100).unwrap();
        for second in 2..14 {
            pace.note(0);
            pace.measure(seconds(second));
        }
        assert!(left_ms(&pace, 100).unwrap() > 5 * before);
    }
}
