//! Estimates how much of a run is done, and how long the rest takes.
//!
//! Two models predict the rest: one counts items, one counts bytes. Each measurement first checks
//! what both models predicted for the time since the last one. The estimate weighs them by how well
//! they did, and becomes a range while they are unsure. Nothing here reads a clock.

use std::time::Duration;

/// The shortest and the longest half-life of earlier measurements. In between, it grows with the
/// run, so that a long run has a steady estimate.
const HALF_LIFE: [f64; 2] = [5.0, 120.0];
/// Measurements closer together are one, because the speed of a few items is chance.
const TICK_SECONDS: f64 = 0.2;
/// Half the width of the range, relative to the estimate, from which a range is shown.
const UNSURE: f64 = 0.2;
/// The logarithm of the largest error of one prediction that counts.
const ERROR_MAX: f64 = 3.0;
/// A pause is a stall only if it is longer than this, and than [`STALL_FACTOR`] times the longest
/// pause before it.
const STALL_MIN: Duration = Duration::from_secs(10);
const STALL_FACTOR: u32 = 4;

/// A number of items and bytes, where known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) items: Option<u64>,
    pub(crate) bytes: Option<u64>,
}

/// The time that the rest of the run takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeLeft {
    /// The amount or the speed is not known yet.
    Unknown,
    /// Nothing is left but to write the results.
    Nothing,
    /// One figure, of at least a second.
    About(Duration),
    /// A range, where the models differ or have seen too little.
    Between(Duration, Duration),
    /// Nothing was done for this time, which is unusual for the run.
    Stalled(Duration),
}

/// The forecast of a run, in all processes together. Items that this process has finished since the
/// last measurement count as done, although they are not committed yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Forecast {
    total: Amount,
    left: Amount,
    /// The amount that this process has done.
    own: Amount,
    /// The amount that was done before this process started, from the first measurement.
    before: Option<Amount>,
    /// The largest amount that was returned as done. What is done never falls.
    most_done: Amount,
    /// Items that the run works on at a time.
    slots: u64,
    items: Model,
    bytes: Model,
    /// The last measurement that showed progress, and what was done by then.
    last: Option<(Duration, Amount)>,
    progress_at: Option<Duration>,
    longest_pause: Duration,
}

/// The speed in one unit, and how well it predicted so far.
#[derive(Clone, Copy, Debug, Default)]
struct Model {
    /// Decayed sums of the amount and of the time that it took.
    done: f64,
    seconds: f64,
    /// Decayed sum of the squared errors of predictions, as logarithms, and of their weights.
    errors: f64,
    weight: f64,
}

impl Model {
    fn speed(&self) -> Option<f64> {
        (self.done > 0.0 && self.seconds > 0.0).then(|| self.done / self.seconds)
    }

    /// Adds a measurement: an amount, and the time that it took. `kept` is what is left of the
    /// weight of earlier ones.
    ///
    /// No measurement lowers the speed by more than half, so that one pause does not turn minutes
    /// into days.
    fn add(&mut self, done: f64, seconds: f64, kept: f64) {
        let known = self.speed();
        if let Some(speed) = known {
            let predicted = (done / speed).max(1e-9);
            let error = (predicted / seconds).ln().clamp(-ERROR_MAX, ERROR_MAX);
            self.errors = self.errors.mul_add(kept, error * error);
            self.weight = self.weight.mul_add(kept, 1.0);
        }
        self.done = self.done.mul_add(kept, done);
        self.seconds = self.seconds.mul_add(kept, seconds);
        if let Some(known) = known.filter(|known| self.done < known / 2.0 * self.seconds) {
            self.seconds = 2.0 * self.done / known;
        }
    }

    /// The mean squared error of a prediction.
    fn error(&self) -> f64 {
        // Before the first check, predictions are expected to be wrong by about a half.
        (self.errors + 0.25) / (self.weight + 1.0)
    }
}

impl Forecast {
    pub(crate) fn new(total: Amount, slots: usize) -> Self {
        Self { total, left: total, slots: slots as u64, ..Self::default() }
    }

    /// Sets the amount of the whole run, and keeps what was measured.
    pub(crate) fn set_total(&mut self, total: Amount) {
        (self.total, self.left) = (total, total);
    }

    /// Sets the amount that is left at a time since the start.
    pub(crate) fn set_left(&mut self, at: Duration, left: Amount) {
        self.left = left;
        self.total.items = larger(self.total.items, left.items);
        self.total.bytes = larger(self.total.bytes, left.bytes);
        // The own amount may be committed already. It is subtracted so that it counts once.
        self.before.get_or_insert_with(|| Amount {
            items: done_before(self.total.items, left.items, self.own.items),
            bytes: done_before(self.total.bytes, left.bytes, self.own.bytes),
        });
        let (before, done) = (self.most_done, self.done());
        if self.last.is_some() && done != before {
            self.note_progress(at);
        }
        self.measure(at, done);
    }

    /// Sets the amount that this process has done by a time since the start.
    pub(crate) fn set_own(&mut self, at: Duration, own: Amount) {
        if own != self.own {
            self.own = own;
            self.note_progress(at);
        }
    }

    fn note_progress(&mut self, at: Duration) {
        if let Some(before) = self.progress_at {
            self.longest_pause = self.longest_pause.max(at.saturating_sub(before));
        }
        self.progress_at = Some(at);
    }

    /// Checks the predictions, and updates the speeds.
    #[expect(clippy::cast_precision_loss, reason = "a speed need not be exact")]
    fn measure(&mut self, at: Duration, done: Amount) {
        let Some((since, before)) = self.last else {
            self.last = Some((at, done));
            return;
        };
        let more = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?));
        let (items, bytes) = (more(done.items, before.items), more(done.bytes, before.bytes));
        let seconds = at.saturating_sub(since).as_secs_f64();
        // A measurement without progress does not count: a single item may be slow.
        if seconds < TICK_SECONDS || (items.unwrap_or(0) == 0 && bytes.unwrap_or(0) == 0) {
            return;
        }
        let [least, most] = HALF_LIFE;
        let half_life = (at.as_secs_f64() / 4.0).clamp(least, most);
        let kept = 0.5_f64.powf(seconds / half_life);
        if let Some(items) = items {
            self.items.add(items as f64, seconds, kept);
        }
        if let Some(bytes) = bytes {
            self.bytes.add(bytes as f64, seconds, kept);
        }
        self.last = Some((at, done));
    }

    /// The amount of the whole run, where known.
    pub(crate) const fn total(&self) -> Amount {
        self.total
    }

    /// The amount that is done. It never falls.
    pub(crate) fn done(&mut self) -> Amount {
        let Self { total, left, own, before, .. } = *self;
        let before = before.unwrap_or_default();
        let done =
            |total: Option<u64>, left: Option<u64>, own: Option<u64>, before: Option<u64>| {
                let own = own.zip(before).map_or(0, |(own, before)| own.saturating_add(before));
                let total = total?;
                Some(total.saturating_sub(left?).max(own).min(total))
            };
        let items = done(total.items, left.items, own.items, before.items);
        let bytes = done(total.bytes, left.bytes, own.bytes, before.bytes);
        self.most_done = Amount {
            items: items.map(|items| items.max(self.most_done.items.unwrap_or_default())),
            bytes: bytes.map(|bytes| bytes.max(self.most_done.bytes.unwrap_or_default())),
        };
        self.most_done
    }

    /// The items and the bytes per second, where they are known.
    pub(crate) fn speeds(&self) -> (Option<f64>, Option<f64>) {
        (self.items.speed(), self.bytes.speed())
    }

    /// The time since the last progress, seen from `now`.
    pub(crate) fn idle_at(&self, now: Duration) -> Duration {
        now.saturating_sub(self.progress_at.unwrap_or_default())
    }

    /// The time left, seen from `now`.
    pub(crate) fn left_at(&mut self, now: Duration) -> TimeLeft {
        let (done, idle) = (self.done(), self.idle_at(now));
        let left_of = |total: Option<u64>, done: Option<u64>| Some(total?.saturating_sub(done?));
        let items = left_of(self.total.items, done.items);
        let bytes = left_of(self.total.bytes, done.bytes);
        if items == Some(0) {
            return TimeLeft::Nothing;
        }
        let is_stalled = self.progress_at.is_some()
            && idle > STALL_MIN.max(self.longest_pause.saturating_mul(STALL_FACTOR));
        if is_stalled {
            return TimeLeft::Stalled(idle);
        }
        let by_items = items.and_then(|items| self.by_items(items));
        let by_bytes = bytes.zip(self.bytes.speed()).map(|(bytes, speed)| in_units(bytes) / speed);
        let Some((seconds, spread)) = self.weigh(by_items, by_bytes) else {
            return TimeLeft::Unknown;
        };
        // Between two items the time passes, but no item is finished before it is.
        let next = seconds / in_units(items.unwrap_or(u64::MAX)).max(1.0);
        let idle = idle.as_secs_f64();
        let overdue = (idle - next).max(0.0);
        let seconds = seconds - idle.min(next) + overdue / 2.0;
        range(seconds, spread)
    }

    /// The estimate by items. The last items run side by side: half of them is done on average, and
    /// the slowest takes longest.
    fn by_items(&self, items: u64) -> Option<f64> {
        let speed = self.items.speed()?;
        let last = items.min(self.slots.max(1));
        let (all, last) = (in_units(items - last), in_units(last));
        let item_seconds = in_units(self.slots.max(1)) / speed;
        Some(all / speed + item_seconds * last / (last + 1.0))
    }

    /// The weighted estimate of both models, and its error relative to it.
    fn weigh(&self, by_items: Option<f64>, by_bytes: Option<f64>) -> Option<(f64, f64)> {
        let mut known = [(by_items, &self.items), (by_bytes, &self.bytes)]
            .into_iter()
            .filter_map(|(seconds, model)| Some((seconds?, model)));
        let (first, model) = known.next()?;
        let Some((second, other)) = known.next() else {
            return Some((first, (model.error() / (model.weight + 1.0)).sqrt()));
        };
        let (one, two) =
            (1.0 / (model.error() + 1e-3).powi(2), 1.0 / (other.error() + 1e-3).powi(2));
        let share = one / (one + two);
        let seconds = first.mul_add(share, second * (1.0 - share));
        let apart =
            share.mul_add((first - seconds).powi(2), (1.0 - share) * (second - seconds).powi(2));
        let noise = share.mul_add(
            model.error() / (model.weight + 1.0),
            (1.0 - share) * other.error() / (other.weight + 1.0),
        );
        Some((seconds, (apart / (seconds * seconds).max(1e-9) + noise).sqrt()))
    }
}

/// An estimate in whole seconds, rounded up: never zero while something is left.
fn range(seconds: f64, spread: f64) -> TimeLeft {
    let whole = |seconds: f64| {
        let time = Duration::try_from_secs_f64(seconds.max(0.0).ceil());
        time.ok().map(|time| time.max(Duration::from_secs(1)))
    };
    let (low, high) = (seconds / (1.0 + spread), seconds * (1.0 + spread));
    let (Some(about), Some(low), Some(high)) = (whole(seconds), whole(low), whole(high)) else {
        return TimeLeft::Unknown;
    };
    let is_wide = high.saturating_sub(low) >= Duration::from_secs(2);
    if spread > UNSURE && is_wide { TimeLeft::Between(low, high) } else { TimeLeft::About(about) }
}

#[expect(clippy::cast_precision_loss, reason = "an estimate need not be exact")]
const fn in_units(amount: u64) -> f64 {
    amount as f64
}

fn larger(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    Some(one?.max(other?))
}

fn done_before(total: Option<u64>, left: Option<u64>, own: Option<u64>) -> Option<u64> {
    Some(total?.saturating_sub(left?).saturating_sub(own.unwrap_or_default()))
}

/// The percentage that is done, rounded down.
pub(crate) fn percent(done: u64, total: u64) -> Option<u64> {
    (u128::from(done.min(total)) * 100)
        .checked_div(u128::from(total))
        .and_then(|percent| u64::try_from(percent).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(items: u64) -> Amount {
        Amount { items: Some(items), bytes: None }
    }

    fn both(items: u64, bytes: u64) -> Amount {
        Amount { items: Some(items), bytes: Some(bytes) }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// The middle of an estimate, in seconds.
    fn middle(left: TimeLeft) -> f64 {
        match left {
            TimeLeft::About(time) => time.as_secs_f64(),
            TimeLeft::Between(low, high) => (low.as_secs_f64() * high.as_secs_f64()).sqrt(),
            TimeLeft::Unknown | TimeLeft::Nothing | TimeLeft::Stalled(_) => {
                panic!("no estimate: {left:?}")
            }
        }
    }

    /// A run of 1,000 items, ten per second, after 50 seconds.
    fn halfway() -> Forecast {
        let mut forecast = Forecast::new(items(1_000), 1);
        for second in 0..=50 {
            forecast.set_left(seconds(second), items(1_000 - second * 10));
        }
        forecast
    }

    /// Items with a size in bytes and a duration in seconds, done one after the other on each of
    /// some slots, and measured every two seconds. Returns the mean relative error of the estimate
    /// after a tenth of the time.
    fn mean_error(work: &[(u64, f64)], slots: usize) -> f64 {
        let mut ends: Vec<(f64, u64)> = Vec::new();
        let mut free = vec![0.0_f64; slots];
        for (bytes, takes) in work {
            free.sort_by(f64::total_cmp);
            free[0] += takes;
            ends.push((free[0], *bytes));
        }
        ends.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (end, bytes) = (ends.last().unwrap().0, work.iter().map(|(bytes, _)| bytes).sum());
        let mut forecast = Forecast::new(both(work.len() as u64, bytes), slots);
        let (mut errors, mut count, mut at) = (0.0, 0.0, 0.0);
        while at < end {
            let left = ends.iter().filter(|(ended, _)| *ended > at);
            let (items, bytes) = left.fold((0, 0), |sum, (_, it)| (sum.0 + 1, sum.1 + it));
            let now = Duration::from_secs_f64(at);
            forecast.set_left(now, both(items, bytes));
            if at > end / 10.0 {
                let predicted = middle(forecast.left_at(now));
                errors += (predicted - (end - at)).abs() / (end - at).max(5.0);
                count += 1.0;
            }
            at += 2.0;
        }
        errors / count
    }

    #[test]
    fn steady_run_ends_at_the_estimated_time() {
        let mut forecast = halfway();
        assert_eq!(forecast.done(), items(500));
        assert_eq!(forecast.left_at(seconds(50)), TimeLeft::About(seconds(50)));
    }

    #[test]
    fn slow_item_barely_changes_the_estimate() {
        let mut forecast = halfway();
        for second in 51..=650 {
            forecast.set_left(seconds(second), items(500));
        }
        assert_eq!(forecast.left_at(seconds(650)), TimeLeft::Stalled(seconds(600)));
        forecast.set_left(seconds(651), items(499));
        let left = middle(forecast.left_at(seconds(651)));
        assert!(left <= 105.0, "{left:?}");
    }

    #[test]
    fn only_an_unusual_pause_is_a_stall() {
        let mut forecast = Forecast::new(items(100), 1);
        let is_stalled = |forecast: &mut Forecast, at| {
            matches!(forecast.left_at(seconds(at)), TimeLeft::Stalled(_))
        };
        forecast.set_left(seconds(0), items(100));
        assert_eq!(forecast.left_at(seconds(3_000)), TimeLeft::Unknown);
        // Each item takes a minute.
        for minute in 1..5 {
            forecast.set_left(seconds(minute * 60), items(100 - minute));
        }
        assert!(!is_stalled(&mut forecast, 240 + 239));
        assert!(is_stalled(&mut forecast, 240 + 241));
        let mut quick = halfway();
        assert!(!is_stalled(&mut quick, 60) && is_stalled(&mut quick, 61));
    }

    #[test]
    fn estimate_follows_the_model_that_predicted_better() {
        let mut random = fastrand::Rng::with_seed(1);
        let sizes: Vec<u64> = (0..2_000).map(|_| 10_u64.pow(random.u32(1..7))).collect();
        let by_bytes: Vec<_> = sizes.iter().map(|bytes| (*bytes, *bytes as f64 / 2e5)).collect();
        let by_items: Vec<_> = sizes.iter().map(|bytes| (*bytes, 0.2)).collect();
        for (what, work, most) in [("bytes", by_bytes, 0.25), ("items", by_items, 0.05)] {
            let error = mean_error(&work, 4);
            assert!(error < most, "{what}: {error}");
        }
    }

    #[test]
    fn first_estimates_are_ranges_and_later_ones_figures() {
        let mut forecast = Forecast::new(both(1_000, 1_000_000), 2);
        forecast.set_left(seconds(0), both(1_000, 1_000_000));
        assert_eq!(forecast.left_at(seconds(0)), TimeLeft::Unknown);
        forecast.set_left(seconds(1), both(990, 900_000));
        let TimeLeft::Between(low, high) = forecast.left_at(seconds(1)) else { panic!() };
        assert!(low < seconds(30) && high > seconds(50), "{low:?} {high:?}");
        for second in 2..=80 {
            forecast.set_left(seconds(second), both(1_000 - second * 10, 900_000 - second * 9_000));
        }
        let left = forecast.left_at(seconds(80));
        assert!(matches!(left, TimeLeft::About(_)), "{left:?}");
    }

    #[test]
    fn time_left_is_never_zero_while_work_is_left() {
        let mut random = fastrand::Rng::with_seed(2);
        for _ in 0..200 {
            let (mut left, mut bytes, slots) = (random.u64(1..500), 0, random.usize(1..9));
            let mut forecast = Forecast::new(both(left, 0), slots);
            let mut at = Duration::ZERO;
            while left > 0 {
                at += Duration::from_millis(random.u64(1..20_000));
                forecast.set_own(at, both(random.u64(0..9), bytes));
                forecast.set_left(at, both(left, random.u64(0..1_000)));
                let shown = forecast.left_at(at + Duration::from_millis(random.u64(0..9_000)));
                let is_honest = match shown {
                    TimeLeft::About(time) => time >= seconds(1),
                    TimeLeft::Between(low, high) => low >= seconds(1) && high > low,
                    TimeLeft::Stalled(time) => time >= seconds(1),
                    TimeLeft::Unknown => true,
                    // The own items may be all that is left.
                    TimeLeft::Nothing => forecast.done().items == forecast.total().items,
                };
                assert!(is_honest, "{left} {shown:?}");
                left -= random.u64(0..=left.min(40));
                bytes += 1;
            }
            forecast.set_left(at, both(0, 0));
            assert_eq!(forecast.left_at(at), TimeLeft::Nothing);
        }
    }

    #[test]
    fn overdue_item_does_not_count_down_to_nothing() {
        let mut forecast = Forecast::new(items(10), 1);
        for second in 0..=9 {
            forecast.set_left(seconds(second), items(10 - second));
        }
        let shown = [9, 12, 15, 18].map(|at| middle(forecast.left_at(seconds(at))));
        assert!(shown.is_sorted() && shown[3] >= 3.0, "{shown:?}");
    }

    #[test]
    fn uncommitted_own_items_count_once() {
        let mut forecast = Forecast::new(items(100), 1);
        // Twenty items are committed, of which five may be this process's own.
        forecast.set_own(seconds(0), items(5));
        forecast.set_left(seconds(0), items(80));
        assert_eq!(forecast.done(), items(20));
        forecast.set_own(seconds(1), items(37));
        assert_eq!(forecast.done(), items(52));
        // Other processes are faster. Then the amount left grows, and what is done stays.
        forecast.set_left(seconds(2), items(10));
        assert_eq!(forecast.done(), items(90));
        forecast.set_left(seconds(4), items(12));
        assert_eq!(forecast.done(), items(90));
        forecast.set_own(seconds(5), items(400));
        assert_eq!(forecast.done(), items(100));
    }

    #[test]
    fn total_grows_with_the_amount_left() {
        let mut forecast = Forecast::new(items(10), 1);
        forecast.set_left(seconds(1), items(20));
        assert_eq!((forecast.done(), forecast.total()), (items(0), items(20)));
        forecast.set_left(seconds(2), items(5));
        assert_eq!(forecast.done(), items(15));
    }

    #[test]
    fn uncountable_source_has_no_estimate() {
        let mut forecast = Forecast::new(Amount::default(), 1);
        forecast.set_left(seconds(1), Amount::default());
        forecast.set_left(seconds(2), items(7));
        assert_eq!(forecast.done(), Amount::default());
        assert_eq!(forecast.left_at(seconds(2)), TimeLeft::Unknown);
    }

    #[test]
    fn percentages_are_rounded_down() {
        let shown = [(0, 7), (999, 1_000), (5, 5), (9, 5)].map(|(done, all)| percent(done, all));
        assert_eq!(shown, [Some(0), Some(99), Some(100), Some(100)]);
        assert_eq!(percent(0, 0), None);
        assert_eq!(percent(u64::MAX, u64::MAX), Some(100));
    }
}
