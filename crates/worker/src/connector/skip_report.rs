//! Reports on what a connector skipped: entries of the source that are not items.

use std::collections::BTreeMap;

use bytes::Bytes;

/// Reports kept per page and reason; the rest are counted.
const KEPT: u64 = 256;

/// An entry of the source that was skipped.
///
/// Reading a page again reports the same entries again, and each range that reaches into a folder
/// reports it. Key and reason identify duplicates.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SkipReport {
    /// A key, which may exceed the limit, or a folder's key with its `/`.
    pub key: Bytes,
    /// Why it was skipped.
    pub reason: SkipReason,
    /// The operating system's message, if there was one.
    pub detail: Option<String>,
}

/// Why an entry was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SkipReason {
    /// Listed, but gone or replaced by something else when it was opened.
    Vanished,
    /// Reading it failed.
    Unreadable,
    /// A symbolic link that is not followed, or leads nowhere.
    Symlink,
    /// A socket, a pipe or a device.
    Special,
    /// Its key or path exceeds the limit; nothing below it was read.
    TooLong,
    /// Part of the state of a run.
    State,
    /// A placeholder for a folder in an object store.
    FolderMarker,
    /// A file of another user with rules, which do not apply.
    ForeignRules,
    /// A symbolic link to itself or to a folder around it.
    Loop,
}

/// The skip reports of one page: the first of each reason, and a count per reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkipReports {
    kept: Vec<SkipReport>,
    counts: BTreeMap<SkipReason, u64>,
}

impl SkipReports {
    /// The kept reports, in the order of the walk.
    #[must_use]
    pub fn kept(&self) -> &[SkipReport] {
        &self.kept
    }

    /// How many entries were counted without a report.
    #[must_use]
    pub fn more(&self) -> u64 {
        self.more_of_each().map(|(_, count)| count).sum()
    }

    /// How many entries were counted without a report, per reason; zeros are left out.
    pub fn more_of_each(&self) -> impl Iterator<Item = (SkipReason, u64)> + '_ {
        let more = self.counts.iter().map(|(reason, count)| (*reason, count.saturating_sub(KEPT)));
        more.filter(|(_, count)| *count > 0)
    }

    /// Whether nothing was skipped.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Adds a report; beyond a limit per reason it is only counted.
    pub fn add(&mut self, key: &[u8], reason: SkipReason, detail: Option<String>) {
        let count = self.counts.entry(reason).or_default();
        *count += 1;
        if *count <= KEPT {
            self.kept.push(SkipReport { key: Bytes::copy_from_slice(key), reason, detail });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_keeps_some_reports_per_reason_and_counts_the_rest() {
        let mut skipped = SkipReports::default();
        for _ in 0..KEPT + 3 {
            skipped.add(b"a", SkipReason::Symlink, None);
        }
        skipped.add(b"b", SkipReason::Unreadable, None);
        assert_eq!((skipped.kept().len() as u64, skipped.more()), (KEPT + 1, 3));
        assert_eq!(skipped.kept().last().unwrap().reason, SkipReason::Unreadable);
        let expected = [(SkipReason::Symlink, 3)];
        assert_eq!(skipped.more_of_each().collect::<Vec<_>>(), expected);
    }
}
