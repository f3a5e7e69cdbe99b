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

/// Goes by looks at what is left of the whole run, whoever works on it. What was done here since
/// then counts as well for what is done: it is committed some time later.
#[derive(Clone, Debug, Default)]
pub(crate) struct Forecast {
    total: Amount,
    left: Amount,
    /// What was done here.
    here: Amount,
    /// What was done before anything was done here, known from the first look.
    before: Option<Amount>,
    /// What was said to be done, which does not become less.
    said_items: u64,
    said_bytes: u64,
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
        // What was done here by then may be committed or not, so it is not counted twice.
        self.before.get_or_insert_with(|| Amount {
            items: done_before(self.total.items, left.items, self.here.items),
            bytes: done_before(self.total.bytes, left.bytes, self.here.bytes),
        });
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

    /// Notes what was done here so far.
    pub(crate) fn note_here(&mut self, here: Amount) {
        self.here = here;
    }

    /// The percentage of items that are done.
    pub(crate) fn items_done(&mut self) -> Option<u64> {
        let Self { total, left, here, .. } = *self;
        let here = here.items.zip(self.before.and_then(|before| before.items));
        let done = percent(total.items?, left.items?, here)?;
        self.said_items = self.said_items.max(done);
        Some(self.said_items)
    }

    /// The percentage of bytes that are done.
    pub(crate) fn bytes_done(&mut self) -> Option<u64> {
        let Self { total, left, here, .. } = *self;
        let here = here.bytes.zip(self.before.and_then(|before| before.bytes));
        let done = percent(total.bytes?, left.bytes?, here)?;
        self.said_bytes = self.said_bytes.max(done);
        Some(self.said_bytes)
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

fn done_before(total: Option<u64>, left: Option<u64>, here: Option<u64>) -> Option<u64> {
    Some(total?.saturating_sub(left?).saturating_sub(here.unwrap_or_default()))
}

/// How much of a whole is done: what is not left, or what was done `here` and before that.
fn percent(total: u64, left: u64, here: Option<(u64, u64)>) -> Option<u64> {
    let here = here.map_or(0, |(here, before)| here.saturating_add(before));
    let done = total.saturating_sub(left).max(here).min(total);
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
    fn what_was_done_here_counts_before_it_is_committed_and_once() {
        let mut forecast = Forecast::new(items(100));
        // Others had done twenty when this one began, of which five may be its own.
        forecast.note_here(items(5));
        forecast.look(seconds(0), items(80));
        assert_eq!(forecast.items_done(), Some(20));
        forecast.note_here(items(37));
        assert_eq!(forecast.items_done(), Some(52));
        // Others are faster, and what was said is not taken back.
        forecast.look(seconds(2), items(10));
        assert_eq!(forecast.items_done(), Some(90));
        forecast.look(seconds(4), items(12));
        assert_eq!(forecast.items_done(), Some(90));
        forecast.note_here(items(400));
        assert_eq!(forecast.items_done(), Some(100));
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
