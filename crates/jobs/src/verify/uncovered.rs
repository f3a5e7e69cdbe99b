//! What cannot be read of the source now, beside what the receipt says could not be.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt as _;

use serde_json::{Map, Value};
use shardwright_worker::connector::{SkipReason, SkipReports};

use super::Findings;
use super::results::KeyJson;
use crate::description::{Description, path_of};
use crate::readable::readable;
use crate::source::Source;

/// So many places are remembered one by one; the others are counted.
const PLACES_MAX: usize = 10_000;

/// What a receipt says could not be read.
#[derive(Debug, Default)]
pub(super) struct Admitted {
    keys: BTreeSet<Vec<u8>>,
    /// How many places it counts and does not name.
    unnamed: u64,
}

impl Admitted {
    pub(super) fn by(receipt: &Map<String, Value>) -> Self {
        let listed = receipt.get("uncovered").and_then(Value::as_array).into_iter().flatten();
        let key = |place: &Value| {
            let key: KeyJson = serde_json::from_value(place.get("key")?.clone()).ok()?;
            key.bytes()
        };
        let keys: BTreeSet<Vec<u8>> = listed.filter_map(key).collect();
        let passed_over = receipt.get("passed_over");
        let count = |why| passed_over.and_then(|it| it.get(why)).and_then(Value::as_u64);
        let counted: u64 = ["unreadable", "too_long"].into_iter().filter_map(count).sum();
        Self { unnamed: counted.saturating_sub(keys.len() as u64), keys }
    }
}

/// Places that cannot be read now, and of which a receipt does not say that they could not be.
#[derive(Debug)]
pub(super) struct Unread<'a> {
    admitted: &'a Admitted,
    places: BTreeSet<Vec<u8>>,
    more: u64,
}

impl<'a> Unread<'a> {
    pub(super) const fn new(admitted: &'a Admitted) -> Self {
        Self { admitted, places: BTreeSet::new(), more: 0 }
    }

    /// Notes what was passed over, unless it says nothing of the run.
    pub(super) fn meet(&mut self, skipped: &SkipReports, is_excused: impl Fn(&[u8]) -> bool) {
        for report in skipped.kept().iter().filter(|report| may_hide_items(report.reason)) {
            if self.admitted.keys.contains(report.key.as_ref()) || is_excused(&report.key) {
                continue;
            }
            if self.places.len() < PLACES_MAX {
                self.places.insert(report.key.to_vec());
            } else {
                self.more += 1;
            }
        }
        let more = skipped.more_of_each().filter(|(kind, _)| may_hide_items(*kind));
        self.more += more.map(|(_, count)| count).sum::<u64>();
    }

    /// Notes that there is a result of something that is not seen now. Whoever wrote it could read
    /// the place in which it was.
    pub(super) fn had_result(&mut self, key: &[u8]) {
        let up_to = (Bound::Unbounded, Bound::Included(key));
        let Some(place) = self.places.range::<[u8], _>(up_to).next_back() else { return };
        if place == key || place.ends_with(b"/") && key.starts_with(place) {
            let place = place.clone();
            self.places.remove(&place);
        }
    }

    /// Tells of more places than the receipt counts.
    pub(super) fn tell(&self, findings: &mut Findings) {
        if self.places.len() as u64 + self.more <= self.admitted.unnamed {
            return;
        }
        for place in &self.places {
            let place = readable(place);
            findings.add(format!("{place} cannot be read, and the receipt does not say so"));
        }
        if self.more > 0 {
            let more = self.more;
            findings.add(format!("{more} more places cannot be read than the receipt says"));
        }
    }
}

const fn may_hide_items(kind: SkipReason) -> bool {
    matches!(kind, SkipReason::Unreadable | SkipReason::TooLong)
}

/// When a place of a tree was changed, or the nearest above it that can be looked at.
pub(super) fn changed_at_ms(description: &Description, key: &[u8]) -> Option<u64> {
    let Source::Tree { path, .. } = &description.source else { return None };
    let place = path_of(path).join(OsStr::from_bytes(key));
    let seen = place.ancestors().find_map(|place| std::fs::symlink_metadata(place).ok());
    seen.as_ref().map(super::listing::changed_ms)
}
