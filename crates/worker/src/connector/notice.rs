//! What a connector met that is no item, and that somebody should know of.

use std::collections::BTreeMap;

use bytes::Bytes;

/// How many notices of each kind are kept word for word of one page. Many of one kind hide none of
/// another.
const KEPT: u64 = 256;

/// Something that was passed over.
///
/// A page that is read again gives its notices again, and a folder that several ranges reach into
/// may be reported by each of them; key and kind tell what is the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Notice {
    /// Where: a key, one that is too long to be one, or a folder's key with its `/`.
    pub key: Bytes,
    /// What about it.
    pub kind: NoticeKind,
    /// The system's own words, where it gave any.
    pub detail: Option<String>,
}

/// Why something was passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoticeKind {
    /// It was listed and was gone, or something else, when it was looked at.
    Vanished,
    /// It may not be read, or cannot.
    Unreadable,
    /// A symbolic link; links are not followed.
    Symlink,
    /// A socket, a pipe or a device.
    Special,
    /// Its key or path is longer than may be; nothing in or behind it was looked at.
    TooLong,
    /// It belongs to the state of a run.
    State,
    /// A placeholder for a folder in an object store.
    FolderMarker,
}

/// The notices of one page: the first of each kind, and how many there were of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notices {
    kept: Vec<Notice>,
    counts: BTreeMap<NoticeKind, u64>,
}

impl Notices {
    /// The notices that were kept, in the order they were met.
    #[must_use]
    pub fn kept(&self) -> &[Notice] {
        &self.kept
    }

    /// How many there were beside those that were kept.
    #[must_use]
    pub fn more(&self) -> u64 {
        self.more_of_each().map(|(_, count)| count).sum()
    }

    /// How many there were of each kind beside those that were kept, where there were any.
    pub fn more_of_each(&self) -> impl Iterator<Item = (NoticeKind, u64)> + '_ {
        let more = self.counts.iter().map(|(kind, count)| (*kind, count.saturating_sub(KEPT)));
        more.filter(|(_, count)| *count > 0)
    }

    /// Whether there was none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Adds a notice, kept word for word if there are few of its kind.
    pub fn add(&mut self, key: &[u8], kind: NoticeKind, detail: Option<String>) {
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        if *count <= KEPT {
            self.kept.push(Notice { key: Bytes::copy_from_slice(key), kind, detail });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_keeps_some_notices_of_each_kind_and_counts_the_others() {
        let mut notices = Notices::default();
        for _ in 0..KEPT + 3 {
            notices.add(b"a", NoticeKind::Symlink, None);
        }
        notices.add(b"b", NoticeKind::Unreadable, None);
        assert_eq!((notices.kept().len() as u64, notices.more()), (KEPT + 1, 3));
        assert_eq!(notices.kept().last().unwrap().kind, NoticeKind::Unreadable);
        let expected = [(NoticeKind::Symlink, 3)];
        assert_eq!(notices.more_of_each().collect::<Vec<_>>(), expected);
    }
}
