//! How much of a run is done, and when it will be.

use std::time::Duration;

/// After so long, half of a speed counts that was measured before.
const HALF_LIFE: Duration = Duration::from_secs(15);

/// Some items, as far as they can be counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) items: Option<u64>,
    pub(crate) bytes: Option<u64>,
}

/// Goes by looks at what is left of the whole run, whoever works on it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Forecast {
    total: Amount,
    left: Amount,
    /// When less was left than before, for the last time.
    moved_at: Duration,
    weight_left: Option<u64>,
    per_second: Option<f64>,
}

impl Forecast {
    pub(crate) fn new(total: Amount) -> Self {
        Self { total, left: total, ..Self::default() }
    }

    /// Notes what was left at a time, counted from the beginning.
    ///
    /// A look at which nothing has moved says nothing about the speed: an item may take long. And
    /// no look makes the speed less than half of what it was, so that one pause does not turn
    /// minutes into days.
    #[expect(clippy::cast_precision_loss, reason = "a speed need not be exact")]
    pub(crate) fn look(&mut self, at: Duration, left: Amount) {
        self.left = left;
        self.total.items = larger(self.total.items, left.items);
        self.total.bytes = larger(self.total.bytes, left.bytes);
        let weight = left.bytes.or(left.items);
        let (Some(before), Some(now)) = (self.weight_left, weight) else {
            (self.weight_left, self.moved_at) = (weight, at);
            return;
        };
        let passed = at.saturating_sub(self.moved_at).as_secs_f64();
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
        (self.weight_left, self.moved_at) = (weight, at);
    }

    /// The percentage of items that are done.
    pub(crate) fn items_done(&self) -> Option<u64> {
        percent(self.total.items?, self.left.items?)
    }

    /// The percentage of bytes that are done.
    pub(crate) fn bytes_done(&self) -> Option<u64> {
        percent(self.total.bytes?, self.left.bytes?)
    }

    /// How long it will take from a time on.
    #[expect(clippy::cast_precision_loss, reason = "a forecast need not be exact")]
    pub(crate) fn left_at(&self, now: Duration) -> Option<Duration> {
        let seconds = self.weight_left? as f64 / self.per_second?;
        let from_last = Duration::try_from_secs_f64(seconds).ok()?;
        Some(from_last.saturating_sub(now.saturating_sub(self.moved_at)))
    }
}

fn larger(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    Some(one?.max(other?))
}

fn percent(total: u64, left: u64) -> Option<u64> {
    let done = total.saturating_sub(left);
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
    fn a_steady_run_ends_when_it_was_said_to() {
        let mut forecast = Forecast::new(items(1_000));
        for second in 0..=50 {
            forecast.look(seconds(second), items(1_000 - second * 10));
        }
        assert_eq!(forecast.items_done(), Some(50));
        assert_eq!(forecast.left_at(seconds(50)), Some(seconds(50)));
        assert_eq!(forecast.left_at(seconds(55)), Some(seconds(45)));
    }

    #[test]
    fn an_item_that_takes_long_does_not_make_the_end_run_away() {
        let mut forecast = Forecast::new(items(1_000));
        for second in 0..=50 {
            forecast.look(seconds(second), items(1_000 - second * 10));
        }
        for second in 51..=650 {
            forecast.look(seconds(second), items(500));
        }
        assert!(forecast.left_at(seconds(650)).unwrap() <= seconds(50));
        forecast.look(seconds(651), items(499));
        let left = forecast.left_at(seconds(651)).unwrap();
        assert!(left <= seconds(100), "{left:?}");
    }

    #[test]
    fn bytes_count_where_they_are_known() {
        let amount = |items, bytes| Amount { items: Some(items), bytes: Some(bytes) };
        let mut forecast = Forecast::new(amount(100, 1_000));
        forecast.look(seconds(0), amount(100, 1_000));
        forecast.look(seconds(1), amount(50, 900));
        assert_eq!((forecast.items_done(), forecast.bytes_done()), (Some(50), Some(10)));
        assert_eq!(forecast.left_at(seconds(1)), Some(seconds(9)));
    }

    #[test]
    fn what_turns_out_to_be_more_is_never_more_than_all() {
        let mut forecast = Forecast::new(items(10));
        forecast.look(seconds(1), items(20));
        assert_eq!(forecast.items_done(), Some(0));
        forecast.look(seconds(2), items(5));
        assert_eq!(forecast.items_done(), Some(75));
    }

    #[test]
    fn nothing_is_said_of_what_cannot_be_counted() {
        let mut forecast = Forecast::new(Amount::default());
        forecast.look(seconds(1), Amount::default());
        forecast.look(seconds(2), items(7));
        assert_eq!((forecast.items_done(), forecast.bytes_done()), (None, None));
        assert_eq!(forecast.left_at(seconds(2)), None);
        assert_eq!(Forecast::new(items(0)).items_done(), None);
    }
}
