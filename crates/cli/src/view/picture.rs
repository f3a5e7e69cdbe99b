//! The live view of a run, line by line: bars, times, and a line per worker.

use std::time::Duration;

use shardwright_jobs::readable::{readable_bytes, readable_time};

use super::forecast::percent;
use super::snapshot::{Snapshot, WorkerState, rate};
use crate::width::{fitted, grouped, start_of, width};

/// The shortest and the longest bar.
const BAR_COLUMNS: [usize; 2] = [8, 60];
/// Eighths of a column.
const PARTS: [char; 8] =
    [' ', '\u{258f}', '\u{258e}', '\u{258d}', '\u{258c}', '\u{258b}', '\u{258a}', '\u{2589}'];
const FULL: char = '\u{2588}';
const EMPTY: char = '\u{2591}';
/// Lines for workers, at most.
const WORKERS_MAX: usize = 32;

/// The terminal that a picture is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Canvas {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
    pub(crate) has_colours: bool,
    /// Whether block characters can be shown.
    pub(crate) has_blocks: bool,
}

impl Canvas {
    /// The lines that show a run, each narrower than the terminal, and fewer than its rows.
    pub(crate) fn draw(&self, now: &Snapshot) -> Vec<String> {
        let mut lines: Vec<String> = self.bars(now).into_iter().chain([self.times(now)]).collect();
        // The row above keeps the last message in sight.
        let room = self.rows.saturating_sub(lines.len() + 1).min(WORKERS_MAX);
        let count = now.workers.len();
        let shown = if count > room { room.saturating_sub(1) } else { count };
        let workers = now.workers.iter().enumerate().take(shown);
        lines.extend(workers.map(|(number, worker)| self.worker(number, worker)));
        if count > shown && room > 0 {
            lines.push(start_of(&format!("     and {} more workers", count - shown), self.room()));
        }
        lines
    }

    /// The columns of a line. A full row wraps on some terminals.
    fn room(&self) -> usize {
        self.columns.saturating_sub(1)
    }

    /// A line for items and one for bytes.
    fn bars(&self, now: &Snapshot) -> Vec<String> {
        let mut lines = Vec::new();
        let speed = rate(now.items_per_second);
        lines.push(match (now.done.items, now.total.items) {
            (Some(done), Some(total)) => {
                let amount = format!("{} of {}", grouped(done), grouped(total));
                self.bar("items", done, total, &amount, &speed)
            }
            _ => {
                let done = grouped(now.own_items);
                start_of(&format!("items  {done} done here, total unknown  {speed}"), self.room())
            }
        });
        if let (Some(done), Some(total @ 1..)) = (now.done.bytes, now.total.bytes) {
            let amount = format!("{} of {}", readable_bytes(done), readable_bytes(total));
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "shown")]
            let speed = readable_bytes(now.bytes_per_second.max(0.0) as u64);
            lines.push(self.bar("bytes", done, total, &amount, &format!("{speed}/s")));
        }
        lines
    }

    fn bar(&self, what: &str, done: u64, total: u64, amount: &str, speed: &str) -> String {
        let percent = percent(done, total).unwrap_or(100);
        let text = format!(" {percent:>3} %  {amount}  {speed}");
        // Both bars have the same length, whatever is beside them.
        let [least, most] = BAR_COLUMNS;
        let columns = (self.columns / 2).saturating_sub(12).clamp(least, most);
        let line = format!("{what}  {}", self.filled(done, total, columns));
        let line = format!("{line}{text}");
        if width(&line) > self.room() { start_of(&line, self.room()) } else { line }
    }

    fn filled(&self, done: u64, total: u64, columns: usize) -> String {
        let eighths = u128::from(done.min(total)) * (columns as u128) * 8;
        let eighths = eighths.checked_div(u128::from(total)).unwrap_or(0);
        let eighths = usize::try_from(eighths).unwrap_or(usize::MAX);
        let (full, part) = ((eighths / 8).min(columns), eighths % 8);
        let has_part = part > 0 && full < columns;
        let rest = columns - full - usize::from(has_part);
        if !self.has_blocks {
            let (tip, rest) = if full < columns { (">", columns - full - 1) } else { ("", 0) };
            return format!("[{}{tip}{}]", "=".repeat(full), " ".repeat(rest));
        }
        let mut bar = String::from(FULL).repeat(full);
        if has_part {
            bar.extend(PARTS.get(part));
        }
        let rest = String::from(EMPTY).repeat(rest);
        format!("{}{}", self.coloured("36", &bar), self.coloured("2", &rest))
    }

    /// The line with times and troubles.
    fn times(&self, now: &Snapshot) -> String {
        let mut line = format!("{} elapsed", readable_time(now.elapsed));
        if let Some(left) = now.left_text() {
            line.push_str(", ");
            line.push_str(&left);
        }
        let troubles = now.troubles();
        if troubles.is_empty() {
            return start_of(&line, self.room());
        }
        let troubles = format!(", {troubles}");
        let line = start_of(&line, self.room().saturating_sub(width(&troubles)).max(24));
        let colour = if now.failed > 0 { "31" } else { "33" };
        start_of(&format!("{line}{}", self.coloured(colour, &troubles)), self.room())
    }

    fn worker(&self, number: usize, worker: &WorkerState) -> String {
        let (time, text) = match worker {
            WorkerState::Starting => (String::new(), "starting".to_owned()),
            WorkerState::Paused => (String::new(), "paused".to_owned()),
            WorkerState::Waiting => (String::new(), "waiting for a shard".to_owned()),
            WorkerState::Between => (String::new(), "between items".to_owned()),
            WorkerState::Busy { item, time, attempt, more } => {
                let again = if *attempt > 1 { format!("try {attempt}  ") } else { String::new() };
                let more = if *more > 0 { format!("  and {more} more") } else { String::new() };
                let around = 15 + width(&again) + width(&more);
                let item = fitted(item, self.room().saturating_sub(around));
                (clock(*time), format!("{again}{item}{more}"))
            }
        };
        start_of(&format!("{number:>3}  {time:>8}  {text}"), self.room())
    }

    fn coloured(&self, colour: &str, text: &str) -> String {
        if self.has_colours && !text.is_empty() {
            format!("\x1b[{colour}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// The time on an item: with tenths while it is short.
fn clock(time: Duration) -> String {
    let (seconds, tenths) = (time.as_secs(), time.subsec_millis() / 100);
    match seconds {
        ..10 => format!("{seconds}.{tenths} s"),
        10..60 => format!("{seconds} s"),
        60..3_600 => format!("{}:{:02} min", seconds / 60, seconds % 60),
        _ => format!("{}:{:02} h", seconds / 3_600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::super::forecast::{Amount, TimeLeft};
    use super::super::snapshot::tests::snapshot;
    use super::*;

    fn canvas(columns: usize, rows: usize) -> Canvas {
        Canvas { columns, rows, has_colours: false, has_blocks: true }
    }

    fn busy(item: &str) -> WorkerState {
        let time = Duration::from_millis(4_230);
        WorkerState::Busy { item: item.to_owned(), time, attempt: 1, more: 0 }
    }

    fn with_workers(workers: Vec<WorkerState>) -> Snapshot {
        Snapshot { workers, ..snapshot() }
    }

    #[test]
    fn picture_of_a_run_in_eighty_columns() {
        let retried = WorkerState::Busy {
            item: "b".into(),
            time: Duration::from_secs(75),
            attempt: 2,
            more: 3,
        };
        let now = with_workers(vec![busy("photos/IMG_0148.jpg"), retried, WorkerState::Waiting]);
        assert_eq!(
            canvas(80, 24).draw(&now),
            [
                "items  ███████████████▋░░░░░░░░░░░░  56 %  1,234 of 2,200  77/s",
                "bytes  ███████████████▌░░░░░░░░░░░░  55 %  14.1 MB of 25.3 MB  880 kB/s",
                "16 s elapsed, 12 to 20 s left, 3 failed, 5 retries",
                "  0     4.2 s  photos/IMG_0148.jpg",
                "  1  1:15 min  try 2  b  and 3 more",
                "  2            waiting for a shard",
            ]
        );
    }

    #[test]
    fn bar_without_block_characters_is_plain_text() {
        let plain = Canvas { has_blocks: false, ..canvas(80, 24) };
        let lines = plain.draw(&snapshot());
        assert!(lines[0].starts_with("items  [===============>"), "{}", lines[0]);
        assert!(lines.iter().all(|line| line.is_ascii()));
    }

    #[test]
    fn finished_bar_is_full_and_an_empty_one_is_empty() {
        let full = |done, total| canvas(80, 24).filled(done, total, 10);
        assert_eq!(full(0, 7), "░░░░░░░░░░");
        assert_eq!(full(7, 7), "██████████");
        assert_eq!(full(999, 1_000), "█████████▉");
        assert_eq!(full(9, 7), "██████████");
    }

    #[test]
    fn lines_fit_into_any_terminal() {
        let hostile = "\u{65e5}\u{672c}\u{8a9e}".repeat(100);
        let workers: Vec<_> = (0..100).map(|_| busy(&hostile)).collect();
        let stalled = Snapshot {
            left: TimeLeft::Stalled(Duration::from_secs(12)),
            why_idle: Some("x".repeat(300)),
            ..with_workers(workers)
        };
        let uncounted = Snapshot { total: Amount::default(), ..stalled.clone() };
        for (columns, rows) in [(1, 1), (20, 3), (40, 10), (80, 24), (200, 50), (500, 100)] {
            for has_colours in [false, true] {
                let canvas = Canvas { has_colours, ..canvas(columns, rows) };
                for now in [&stalled, &uncounted] {
                    let lines = canvas.draw(now);
                    let widest = lines.iter().map(|line| width(line)).max().unwrap();
                    assert!(widest < columns, "{columns}: {widest}");
                    assert!(lines.len() < rows.max(4), "{rows}: {}", lines.len());
                }
            }
        }
    }

    #[test]
    fn workers_that_do_not_fit_are_counted() {
        let now = with_workers(vec![WorkerState::Between; 30]);
        let lines = canvas(80, 14).draw(&now);
        assert_eq!(lines.len(), 13);
        assert_eq!(lines.last().unwrap(), "     and 21 more workers");
    }

    #[test]
    fn colours_are_left_out_without_support() {
        let lines = canvas(80, 24).draw(&snapshot()).join("\n");
        assert!(!lines.contains('\x1b'), "{lines}");
        let coloured = Canvas { has_colours: true, ..canvas(80, 24) };
        assert!(coloured.draw(&snapshot()).join("\n").contains("\x1b[31m, 3 failed"));
    }
}
