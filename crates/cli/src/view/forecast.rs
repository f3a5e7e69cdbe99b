//! Estimates how much of a run is done, and how long the rest takes.

use std::time::Duration;

/// The half-life of earlier measurements in the average speed.
const HALF_LIFE: Duration = Duration::from_secs(15);

/// A number of items and bytes, where known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) items: Option<u64>,
    pub(crate) bytes: Option<u64>,
}

/// An estimate from measurements of what is left of the whole run, in all processes. Items that
/// this process finished since then count as done, although they are not committed yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Forecast {
    total: Amount,
    left: Amount,
    /// The amount that this process has done.
    own: Amount,
    /// The amount that was done before this process started, from the first measurement.
    before: Option<Amount>,
    /// The highest percentages returned so far. Percentages never fall.
    percent_items: u64,
    percent_bytes: u64,
    /// The time of the last measurement that showed progress.
    progress_at: Duration,
    weight_left: Option<u64>,
    per_second: Option<f64>,
}

impl Forecast {
    pub(crate) fn new(total: Amount) -> Self {
        Self { total, left: total, ..Self::default() }
    }

    /// Sets the amount that is left at a time since the start.
    ///
    /// A measurement without progress does not change the speed, because a single item may be slow.
    /// No measurement lowers the speed by more than half, so that one pause does not turn minutes
    /// into days.
    #[expect(clippy::cast_precision_loss, reason = "a speed need not be exact")]
    pub(crate) fn set_left(&mut self, at: Duration, left: Amount) {
        self.left = left;
        self.total.items = larger(self.total.items, left.items);
        self.total.bytes = larger(self.total.bytes, left.bytes);
        // The own amount may be committed already. It is subtracted so that it counts once.
        self.before.get_or_insert_with(|| Amount {
            items: done_before(self.total.items, left.items, self.own.items),
            bytes: done_before(self.total.bytes, left.bytes, self.own.bytes),
        });
        let weight = left.bytes.or(left.items);
        let (Some(before), Some(now)) = (self.weight_left, weight) else {
            (self.weight_left, self.progress_at) = (weight, at);
            return;
        };
        let passed = at.saturating_sub(self.progress_at).as_secs_f64();
        if now >= before || passed <= 0.0 {
            self.weight_left = weight;
            return;
        }
        let measured = (before - now) as f64 / passed;
        self.per_second = Some(match self.per_second {
            None => measured,
            Some(known) => {
                let kept = 0.5_f64.powf(passed / HALF_LIFE.as_secs_f64());
                known.mul_add(kept, measured * (1.0 - kept)).max(known / 2.0)
            }
        });
        (self.weight_left, self.progress_at) = (weight, at);
    }

    /// Sets the amount that this process has done so far.
    pub(crate) fn set_own(&mut self, own: Amount) {
        self.own = own;
    }

    /// The percentage of items that are done.
    pub(crate) fn items_done(&mut self) -> Option<u64> {
        let Self { total, left, own, .. } = *self;
        let own = own.items.zip(self.before.and_then(|before| before.items));
        let done = percent(total.items?, left.items?, own)?;
        self.percent_items = self.percent_items.max(done);
        Some(self.percent_items)
    }

    /// The percentage of bytes that are done.
    pub(crate) fn bytes_done(&mut self) -> Option<u64> {
        let Self { total, left, own, .. } = *self;
        let own = own.bytes.zip(self.before.and_then(|before| before.bytes));
        let done = percent(total.bytes?, left.bytes?, own)?;
        self.percent_bytes = self.percent_bytes.max(done);
        Some(self.percent_bytes)
    }

    /// The time left, seen from `now`.
    #[expect(clippy::cast_precision_loss, reason = "a forecast need not be exact")]
    pub(crate) fn left_at(&self, now: Duration) -> Option<Duration> {
        let seconds = self.weight_left? as f64 / self.per_second?;
        let from_last = Duration::try_from_secs_f64(seconds).ok()?;
        Some(from_last.saturating_sub(now.saturating_sub(self.progress_at)))
    }
}

fn larger(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    Some(one?.max(other?))
}

fn done_before(total: Option<u64>, left: Option<u64>, own: Option<u64>) -> Option<u64> {
    Some(total?.saturating_sub(left?).saturating_sub(own.unwrap_or_default()))
}

/// The percentage that is done. The amount done is `total - left`, or the sum of `own` if that is
/// larger: the amount of this process, and the amount before it.
fn percent(total: u64, left: u64, own: Option<(u64, u64)>) -> Option<u64> {
    let own = own.map_or(0, |(own, before)| own.saturating_add(before));
    let done = total.saturating_sub(left).max(own).min(total);
    (u128::from(done) * 100).checked_div(u128::from(total)).and_then(|it| u64::try_from(it).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(items: u64) -> Amount {
        Amount { items: Some(items), bytes: None }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn steady_run_ends_at_the_estimated_time() {
        let mut forecast = Forecast::new(items(1_000));
        for second in 0..=50 {
            forecast.set_left(seconds(second), items(1_000 - second * 10));
        }
        assert_eq!(forecast.items_done(), Some(50));
        assert_eq!(forecast.left_at(seconds(50)), Some(seconds(50)));
        assert_eq!(forecast.left_at(seconds(55)), Some(seconds(45)));
    }

    #[test]
    fn slow_item_barely_changes_the_estimate() {
        let mut forecast = Forecast::new(items(1_000));
        for second in 0..=50 {
            forecast.set_left(seconds(second), items(1_000 - second * 10));
        }
        for second in 51..=650 {
            forecast.set_left(seconds(second), items(500));
        }
        assert!(forecast.left_at(seconds(650)).unwrap() <= seconds(50));
        forecast.set_left(seconds(651), items(499));
        let left = forecast.left_at(seconds(651)).unwrap();
        assert!(left <= seconds(100), "{left:?}");
    }

    #[test]
    fn bytes_determine_the_speed_where_known() {
        let amount = |items, bytes| Amount { items: Some(items), bytes: Some(bytes) };
        let mut forecast = Forecast::new(amount(100, 1_000));
        forecast.set_left(seconds(0), amount(100, 1_000));
        forecast.set_left(seconds(1), amount(50, 900));
        assert_eq!((forecast.items_done(), forecast.bytes_done()), (Some(50), Some(10)));
        assert_eq!(forecast.left_at(seconds(1)), Some(seconds(9)));
    }

    #[test]
    fn uncommitted_own_items_count_once() {
        let mut forecast = Forecast::new(items(100));
        // Twenty items are committed, of which five may be this process's own.
        forecast.set_own(items(5));
        forecast.set_left(seconds(0), items(80));
        assert_eq!(forecast.items_done(), Some(20));
        forecast.set_own(items(37));
        assert_eq!(forecast.items_done(), Some(52));
        // Other processes are faster. Then the amount left grows, and the percentage stays.
        forecast.set_left(seconds(2), items(10));
        assert_eq!(forecast.items_done(), Some(90));
        forecast.set_left(seconds(4), items(12));
        assert_eq!(forecast.items_done(), Some(90));
        forecast.set_own(items(400));
        assert_eq!(forecast.items_done(), Some(100));
    }

    #[test]
    fn total_grows_with_the_amount_left() {
        let mut forecast = Forecast::new(items(10));
        forecast.set_left(seconds(1), items(20));
        assert_eq!(forecast.items_done(), Some(0));
        forecast.set_left(seconds(2), items(5));
        assert_eq!(forecast.items_done(), Some(75));
    }

    #[test]
    fn uncountable_source_has_no_estimate() {
        let mut forecast = Forecast::new(Amount::default());
        forecast.set_left(seconds(1), Amount::default());
        forecast.set_left(seconds(2), items(7));
        assert_eq!((forecast.items_done(), forecast.bytes_done()), (None, None));
        assert_eq!(forecast.left_at(seconds(2)), None);
        assert_eq!(Forecast::new(items(0)).items_done(), None);
    }
}
