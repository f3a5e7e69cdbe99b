//! The lines at the end of a run: failures first, then what was done, and what to type next.

use std::time::Duration;

use shardwright_jobs::readable::{readable_bytes, readable_time};
use shardwright_jobs::receipt::Receipt;

use super::snapshot::rate;
use crate::width::grouped;

/// Failed and unread items that are listed, of each kind.
pub(crate) const LISTED_MAX: usize = 5;

/// What a run has come to.
pub(crate) struct Ending<'a> {
    pub(crate) receipt: &'a Receipt,
    pub(crate) how: How,
    pub(crate) is_scan: bool,
    /// Whether the size of an item has a meaning, unlike that of a row.
    pub(crate) has_sizes: bool,
    /// What this process has done.
    pub(crate) here: Here,
    /// Lines about the content of the results.
    pub(crate) content: &'a [String],
}

/// How the work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// This process worked on the run to its end.
    Done,
    /// Nothing was left to do when this process started.
    DoneBefore,
}

/// What one process has done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Here {
    pub(crate) items: u64,
    pub(crate) bytes: u64,
    pub(crate) elapsed: Duration,
}

impl Ending<'_> {
    /// All lines.
    pub(crate) fn lines(&self) -> Vec<String> {
        let (receipt, mut lines) = (self.receipt, self.trouble());
        lines.push(self.title());
        lines.extend(self.content.iter().cloned());
        if let Some(time) = self.time() {
            lines.push(format!("time     {time}"));
        }
        let notes = receipt.notes();
        if !notes.is_empty() {
            lines.push(format!("note     {}", notes.join("; ")));
        }
        lines.push(format!("results  {}", receipt.results.file));
        lines.extend(self.next());
        lines
    }

    /// The lines about failed and unread items, and what to type.
    pub(crate) fn trouble_only(&self) -> Vec<String> {
        let mut lines = self.trouble();
        if !lines.is_empty() {
            lines.extend(self.next());
        }
        lines
    }

    fn trouble(&self) -> Vec<String> {
        let receipt = self.receipt;
        let mut lines = Vec::new();
        list(&mut lines, "failed", receipt.failures(), receipt.parked.len() as u64);
        if receipt.failed > 0 {
            let failed = counted(receipt.failed, "item", "items");
            lines.push(format!("failed: {failed}; the results contain the errors"));
        }
        list(&mut lines, "unread", receipt.unread_entries(), receipt.unread());
        lines
    }

    fn title(&self) -> String {
        let Self { receipt, how, .. } = self;
        let failed = receipt.parked.len() as u64 + receipt.failed;
        let mut except = Vec::new();
        if failed > 0 {
            except.push(counted(failed, "failed item", "failed items"));
        }
        if receipt.unread() > 0 {
            except.push(counted(receipt.unread(), "unread entry", "unread entries"));
        }
        let already = if *how == How::DoneBefore { "already " } else { "" };
        let except = match except.is_empty() {
            true => String::new(),
            false => format!(", except for {}", except.join(" and ")),
        };
        let mut amount = counted(receipt.keys, "item", "items");
        if self.has_sizes {
            amount.push_str(&format!(", {}", readable_bytes(receipt.bytes)));
        }
        format!("run {} is {already}done{except}: {amount}", receipt.name)
    }

    /// The time and the speed of this process, or the time that the run took.
    fn time(&self) -> Option<String> {
        let Here { items, bytes, elapsed } = self.here;
        if self.how == How::DoneBefore || items == 0 {
            let took = self.receipt.ended_at_ms?.checked_sub(self.receipt.started_at_ms)?;
            return Some(readable_time(Duration::from_millis(took)));
        }
        let seconds = elapsed.as_secs_f64().max(1e-3);
        let part = if items < self.receipt.keys {
            format!(" for {} here", counted(items, "item", "items"))
        } else {
            String::new()
        };
        #[expect(clippy::cast_precision_loss, reason = "a speed need not be exact")]
        let (items, bytes) = (items as f64 / seconds, bytes as f64 / seconds);
        let time = if seconds < 9.95 { format!("{seconds:.1} s") } else { readable_time(elapsed) };
        let mut line = format!("{time}{part}, {}", rate(items));
        if self.has_sizes {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "shown")]
            line.push_str(&format!(", {}/s", readable_bytes(bytes as u64)));
        }
        Some(line)
    }

    /// What to type next.
    fn next(&self) -> Vec<String> {
        let (name, has_parked) = (&self.receipt.name, !self.receipt.parked.is_empty());
        match (has_parked, self.how) {
            // The store holds no rules. Repeating the scan starts it over.
            (true, _) if self.is_scan => vec![format!("next     shardwright parked {name}")],
            (true, _) => vec![
                format!("next     shardwright parked {name}          # list all failures"),
                format!("         shardwright retry --parked {name}  # retry them"),
            ],
            (false, How::DoneBefore) => {
                vec!["next     add --fresh to run it again".to_owned()]
            }
            (false, How::Done) => vec![format!("next     shardwright verify {name}")],
        }
    }
}

/// Adds the first of some entries, and the number of the others.
fn list(lines: &mut Vec<String>, what: &str, entries: impl Iterator<Item = String>, count: u64) {
    lines.extend(entries.take(LISTED_MAX).map(|entry| format!("{what}: {entry}")));
    let more = count.saturating_sub(LISTED_MAX as u64);
    if more > 0 {
        lines.push(format!("{what}: and {} more", grouped(more)));
    }
}

/// A number with its noun.
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(count), if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn receipt(parked: usize, failed: u64, unread: u64) -> Receipt {
        let item = |number: usize| {
            json!({
                "shard": "1", "after": null, "end": "z", "reason": "TooManyErrors",
                "detail": format!("{number}.jpg: exit code 9: reading\nno such table\n"),
            })
        };
        let entry = json!({ "key": "secret", "why": "unreadable", "detail": "permission denied" });
        let receipt = json!({
            "version": 1, "run": "7", "name": "photos", "source": "/data", "fingerprint": "f",
            "listed_at_ms": null, "command": ["cat"], "cursor": "completed",
            "started_at_ms": 1_000, "ended_at_ms": 91_000, "keys": 1_200, "bytes": 14_100_000,
            "retries": 0, "replays_absorbed": 0, "stale_writes_refused": 0, "failed": failed,
            "acquired": 8, "splits": 0,
            "coverage": {
                "start": "", "end": "", "ranges": [], "gaps": 0, "overlaps": 0, "done": 0,
            },
            "parked": (0..parked).map(item).collect::<Vec<_>>(),
            "skipped": if unread > 0 { json!({ "unreadable": unread }) } else { json!({}) },
            "uncovered": vec![entry; usize::try_from(unread.min(9)).unwrap()],
            "results": {
                "file": "/out/results.jsonl", "keys": 1_200, "elsewhere": 0, "bytes": 9,
                "blake3": "00",
            },
        });
        serde_json::from_value(receipt).unwrap()
    }

    fn lines(receipt: &Receipt, how: How) -> Vec<String> {
        let here = Here { items: 1_200, bytes: 14_100_000, elapsed: Duration::from_secs(16) };
        Ending { receipt, how, is_scan: false, has_sizes: true, here, content: &[] }.lines()
    }

    #[test]
    fn run_without_trouble_ends_with_a_few_lines() {
        assert_eq!(
            lines(&receipt(0, 0, 0), How::Done),
            [
                "run photos is done: 1,200 items, 14.1 MB",
                "time     16 s, 75/s, 881 kB/s",
                "results  /out/results.jsonl",
                "next     shardwright verify photos",
            ]
        );
        assert_eq!(
            lines(&receipt(0, 0, 0), How::DoneBefore),
            [
                "run photos is already done: 1,200 items, 14.1 MB",
                "time     1 min 30 s",
                "results  /out/results.jsonl",
                "next     add --fresh to run it again",
            ]
        );
    }

    #[test]
    fn failures_come_first_and_what_to_type_last() {
        let lines = lines(&receipt(12, 0, 1), How::Done);
        assert_eq!(lines[0], "failed: 0.jpg: exit code 9: no such table");
        assert_eq!(lines[5], "failed: and 7 more");
        assert_eq!(lines[6], "unread: secret: permission denied");
        let title =
            "run photos is done, except for 12 failed items and 1 unread entry: 1,200 items";
        assert!(lines[7].starts_with(title), "{}", lines[7]);
        assert!(lines[lines.len() - 2].contains("shardwright parked photos"), "{lines:?}");
        assert!(lines[lines.len() - 1].contains("shardwright retry --parked photos"), "{lines:?}");
    }

    #[test]
    fn failures_in_the_results_are_counted() {
        let lines = lines(&receipt(0, 3, 0), How::Done);
        assert_eq!(lines[0], "failed: 3 items; the results contain the errors");
        assert!(lines[1].starts_with("run photos is done, except for 3 failed items: "));
    }

    #[test]
    fn part_of_a_resumed_run_is_named() {
        let receipt = receipt(0, 0, 0);
        let here = Here { items: 40, bytes: 0, elapsed: Duration::from_millis(2_000) };
        let (how, receipt) = (How::Done, &receipt);
        let ending = Ending { receipt, how, is_scan: false, has_sizes: false, here, content: &[] };
        let lines = ending.lines();
        assert_eq!(lines[0], "run photos is done: 1,200 items");
        assert_eq!(lines[1], "time     2.0 s for 40 items here, 20/s");
        assert!(ending.trouble_only().is_empty());
    }
}
