//! The state of a run at one moment, and its words.

use std::time::Duration;

use serde_json::{Value, json};
use shardwright_jobs::readable::{readable_bytes, readable_time};

use super::forecast::{Amount, TimeLeft, percent};
use crate::width::grouped;

/// The state of a run at one moment, as this process knows it.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) elapsed: Duration,
    /// What is done of the whole run, in all processes, where it can be counted.
    pub(crate) done: Amount,
    pub(crate) total: Amount,
    /// What this process has done.
    pub(crate) own_items: u64,
    pub(crate) own_bytes: u64,
    pub(crate) items_per_second: f64,
    pub(crate) bytes_per_second: f64,
    pub(crate) left: TimeLeft,
    /// Why nothing is done at the moment, if it is known.
    pub(crate) why_idle: Option<String>,
    pub(crate) failed: u64,
    pub(crate) retries: u64,
    pub(crate) skipped: u64,
    pub(crate) lost: u64,
    pub(crate) workers: Vec<WorkerState>,
}

/// What a worker does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WorkerState {
    Starting,
    Paused,
    /// It has no shard.
    Waiting,
    /// It has a shard, and no item in progress.
    Between,
    /// It processes an item, or a batch that begins with the item.
    Busy {
        item: String,
        time: Duration,
        attempt: u32,
        /// Further items in progress.
        more: usize,
    },
}

impl Snapshot {
    /// The time left in words.
    pub(crate) fn left_text(&self) -> Option<String> {
        match self.left {
            TimeLeft::Unknown => None,
            TimeLeft::Nothing => Some("writing the results".to_owned()),
            TimeLeft::About(time) => Some(format!("about {} left", short(time, Rounding::Up))),
            TimeLeft::Between(low, high) => Some(format!("{} left", span(low, high))),
            TimeLeft::Stalled(time) => {
                let why = self.why_idle.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
                Some(format!("stalled for {}{why}", readable_time(time)))
            }
        }
    }

    /// What went wrong so far, as counts.
    pub(crate) fn troubles(&self) -> String {
        let counts = [
            (self.failed, "failed"),
            (self.retries, "retries"),
            (self.lost, "leases lost"),
            (self.skipped, "skipped"),
        ];
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        let texts: Vec<String> =
            counts.map(|(count, what)| format!("{} {what}", grouped(*count))).collect();
        texts.join(", ")
    }

    /// The whole state on one line.
    pub(crate) fn summary(&self) -> String {
        let mut parts = Vec::new();
        match (self.done.items, self.total.items) {
            (Some(done), Some(total)) => {
                if let Some(percent) = percent(done, total) {
                    let (done, total) = (grouped(done), grouped(total));
                    parts.push(format!("{percent} % of items ({done} of {total})"));
                }
            }
            _ => parts.push(format!("{} items here", grouped(self.own_items))),
        }
        match (self.done.bytes, self.total.bytes) {
            (Some(done), Some(total)) => {
                if let Some(percent) = percent(done, total) {
                    let total = readable_bytes(total);
                    parts.push(format!("{percent} % of bytes (of {total})"));
                }
            }
            _ if self.total.items.is_some() => {}
            _ => parts.push(readable_bytes(self.own_bytes)),
        }
        parts.push(rate(self.items_per_second));
        parts.push(readable_time(self.elapsed));
        parts.extend(self.left_text());
        let troubles = self.troubles();
        parts.extend((!troubles.is_empty()).then_some(troubles));
        parts.join(", ")
    }

    /// The state as JSON.
    pub(crate) fn json(&self) -> Value {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let (left_ms, stalled_ms) = match self.left {
            TimeLeft::Unknown => (Value::Null, None),
            TimeLeft::Nothing => (json!([0, 0]), None),
            TimeLeft::About(time) => (json!([ms(time), ms(time)]), None),
            TimeLeft::Between(low, high) => (json!([ms(low), ms(high)]), None),
            TimeLeft::Stalled(time) => (Value::Null, Some(ms(time))),
        };
        json!({
            "event": "progress", "elapsed_ms": ms(self.elapsed),
            "items_done": self.done.items, "items_total": self.total.items,
            "bytes_done": self.done.bytes, "bytes_total": self.total.bytes,
            "items_here": self.own_items, "bytes_here": self.own_bytes,
            "items_per_second": self.items_per_second, "left_ms": left_ms,
            "stalled_ms": stalled_ms, "why": self.why_idle, "failed": self.failed,
            "retries": self.retries, "skipped": self.skipped,
        })
    }
}

/// Items per second, with a decimal where there are few.
pub(crate) fn rate(per_second: f64) -> String {
    let decimals = if per_second > 0.0 && per_second < 9.95 { 1 } else { 0 };
    format!("{per_second:.decimals$}/s")
}

enum Rounding {
    Down,
    Up,
}

/// A time in one unit, with two digits or so.
fn short(time: Duration, rounding: Rounding) -> String {
    let (count, unit) = in_unit(time, rounding);
    format!("{count} {unit}")
}

fn in_unit(time: Duration, rounding: Rounding) -> (u64, &'static str) {
    let seconds = time.as_secs();
    let (size, unit) = match seconds {
        ..90 => (1, "s"),
        90..5_400 => (60, "min"),
        5_400..129_600 => (3_600, "h"),
        _ => (86_400, "d"),
    };
    let count = match rounding {
        Rounding::Down => seconds / size,
        Rounding::Up => seconds.div_ceil(size),
    };
    (count.max(1), unit)
}

/// A range of times.
fn span(low: Duration, high: Duration) -> String {
    let ((low, low_unit), (high, high_unit)) =
        (in_unit(low, Rounding::Down), in_unit(high, Rounding::Up));
    if low_unit == high_unit {
        format!("{low} to {high} {high_unit}")
    } else {
        format!("{low} {low_unit} to {high} {high_unit}")
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn snapshot() -> Snapshot {
        Snapshot {
            elapsed: Duration::from_secs(16),
            done: Amount { items: Some(1_234), bytes: Some(14_100_000) },
            total: Amount { items: Some(2_200), bytes: Some(25_300_000) },
            own_items: 1_234,
            own_bytes: 14_100_000,
            items_per_second: 77.1,
            bytes_per_second: 880_000.0,
            left: TimeLeft::Between(Duration::from_secs(12), Duration::from_secs(20)),
            why_idle: None,
            failed: 3,
            retries: 5,
            skipped: 0,
            lost: 0,
            workers: Vec::new(),
        }
    }

    #[test]
    fn summary_has_percentages_speed_and_time() {
        let expected = "56 % of items (1,234 of 2,200), 55 % of bytes (of 25.3 MB), 77/s, 16 s, \
                        12 to 20 s left, 3 failed, 5 retries";
        assert_eq!(snapshot().summary(), expected);
        let uncounted = Snapshot {
            done: Amount::default(),
            total: Amount::default(),
            left: TimeLeft::Unknown,
            failed: 0,
            retries: 0,
            ..snapshot()
        };
        assert_eq!(uncounted.summary(), "1,234 items here, 14.1 MB, 77/s, 16 s");
    }

    #[test]
    fn stall_names_its_reason() {
        let stalled = Snapshot {
            left: TimeLeft::Stalled(Duration::from_secs(12)),
            why_idle: Some("store not answering".to_owned()),
            ..snapshot()
        };
        assert_eq!(stalled.left_text().unwrap(), "stalled for 12 s: store not answering");
        let unknown = Snapshot { why_idle: None, ..stalled };
        assert_eq!(unknown.left_text().unwrap(), "stalled for 12 s");
    }

    #[test]
    fn times_left_have_one_unit_where_they_can() {
        let span = |low, high| span(Duration::from_secs(low), Duration::from_secs(high));
        assert_eq!(span(12, 20), "12 to 20 s");
        assert_eq!(span(40, 170), "40 s to 3 min");
        assert_eq!(span(130, 290), "2 to 5 min");
        assert_eq!(span(5_000, 9_000), "83 min to 3 h");
        let shown = [1, 89, 90, 3_599, 5_400, 200_000].map(Duration::from_secs);
        let shown = shown.map(|time| short(time, Rounding::Up));
        assert_eq!(shown, ["1 s", "89 s", "2 min", "60 min", "2 h", "3 d"]);
    }

    #[test]
    fn json_has_the_same_state() {
        let value = snapshot().json();
        assert_eq!(value["items_done"], 1_234);
        assert_eq!(value["left_ms"], json!([12_000, 20_000]));
        assert_eq!(value["stalled_ms"], Value::Null);
    }

    #[test]
    fn slow_rates_have_a_decimal() {
        assert_eq!([0.0, 0.31, 9.9, 77.1].map(rate), ["0/s", "0.3/s", "9.9/s", "77/s"]);
    }
}
