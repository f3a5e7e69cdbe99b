//! Unreadable entries of the source, compared with those in the receipt.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt as _;

use serde_json::{Map, Value};
use shardwright_worker::connector::{SkipReason, SkipReports};

use super::Findings;
use super::results::KeyJson;
use crate::description::Description;
use crate::readable::readable;

/// Most unreadable entries that are kept. The rest are counted.
const ENTRIES_MAX: usize = 10_000;

/// The unreadable entries that a receipt reports.
#[derive(Debug, Default)]
pub(super) struct Admitted {
    keys: BTreeSet<Vec<u8>>,
    /// Entries that it counts without naming them.
    unnamed: u64,
}

impl Admitted {
    pub(super) fn by(receipt: &Map<String, Value>) -> Self {
        let listed = receipt.get("uncovered").and_then(Value::as_array).into_iter().flatten();
        let key = |entry: &Value| {
            let key: KeyJson = serde_json::from_value(entry.get("key")?.clone()).ok()?;
            key.bytes()
        };
        let keys: BTreeSet<Vec<u8>> = listed.filter_map(key).collect();
        let skipped = receipt.get("skipped");
        let count = |why| skipped.and_then(|it| it.get(why)).and_then(Value::as_u64);
        let counted: u64 = ["unreadable", "too_long"].into_iter().filter_map(count).sum();
        Self { unnamed: counted.saturating_sub(keys.len() as u64), keys }
    }
}

/// Entries that cannot be read now, and that the receipt does not report.
#[derive(Debug)]
pub(super) struct Unread<'a> {
    admitted: &'a Admitted,
    entries: BTreeSet<Vec<u8>>,
    more: u64,
}

impl<'a> Unread<'a> {
    pub(super) const fn new(admitted: &'a Admitted) -> Self {
        Self { admitted, entries: BTreeSet::new(), more: 0 }
    }

    /// Adds skipped entries, except those that are excused.
    pub(super) fn add(&mut self, skipped: &SkipReports, is_excused: impl Fn(&[u8]) -> bool) {
        for report in skipped.kept().iter().filter(|report| may_hide_items(report.reason)) {
            if self.admitted.keys.contains(report.key.as_ref()) || is_excused(&report.key) {
                continue;
            }
            if self.entries.len() < ENTRIES_MAX {
                self.entries.insert(report.key.to_vec());
            } else {
                self.more += 1;
            }
        }
        let more = skipped.more_of_each().filter(|(kind, _)| may_hide_items(*kind));
        self.more += more.map(|(_, count)| count).sum::<u64>();
    }

    /// Removes the entry of a key that has a result: the run could read it.
    pub(super) fn had_result(&mut self, key: &[u8]) {
        let up_to = (Bound::Unbounded, Bound::Included(key));
        let Some(entry) = self.entries.range::<[u8], _>(up_to).next_back() else { return };
        if entry == key || entry.ends_with(b"/") && key.starts_with(entry) {
            let entry = entry.clone();
            self.entries.remove(&entry);
        }
    }

    /// Reports the entries, if there are more than the receipt counts.
    pub(super) fn report(&self, findings: &mut Findings) {
        if self.entries.len() as u64 + self.more <= self.admitted.unnamed {
            return;
        }
        for entry in &self.entries {
            let entry = readable(entry);
            findings.add(format!("{entry} cannot be read, but the receipt does not report it"));
        }
        if self.more > 0 {
            let more = self.more;
            findings.add(format!("{more} more entries cannot be read than the receipt reports"));
        }
    }
}

const fn may_hide_items(kind: SkipReason) -> bool {
    matches!(kind, SkipReason::Unreadable | SkipReason::TooLong)
}

/// The change time of an entry of a tree, or of the nearest folder above it that can be read.
pub(super) fn changed_at_ms(description: &Description, key: &[u8]) -> Option<u64> {
    let path = description.source.root()?.join(OsStr::from_bytes(key));
    let seen = path.ancestors().find_map(|path| std::fs::symlink_metadata(path).ok());
    seen.as_ref().map(super::listing::changed_ms)
}
