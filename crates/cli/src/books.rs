//! What is known of a run that no cursor says: what was passed over in the source, and what was
//! repeated or refused.
//!
//! Each process keeps a file beside the segments, and whoever writes the receipt adds all of them
//! up. A process that is killed has written down what it met before its cursors moved over it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use shardwright_worker::connector::{Notice, NoticeKind, Notices};
use shardwright_worker::process::KeyText;
use shardwright_worker::{Observer, WorkerEvent};

/// How many things of a kind each process writes down one by one; the others it counts.
const NAMED_MAX: u64 = 10_000;
/// How many of the things that could not be read the receipt names.
pub(crate) const UNCOVERED_MAX: usize = 1_000;

/// Why something in the source was passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Why {
    Unreadable,
    TooLong,
    Vanished,
    Symlink,
    Special,
    /// There were too many in one place to say.
    Other,
}

impl Why {
    /// The reason to be told, if somebody might miss it.
    pub(crate) const fn of(kind: NoticeKind) -> Option<Self> {
        match kind {
            NoticeKind::Unreadable => Some(Self::Unreadable),
            NoticeKind::TooLong => Some(Self::TooLong),
            NoticeKind::Vanished => Some(Self::Vanished),
            NoticeKind::Symlink => Some(Self::Symlink),
            NoticeKind::Special => Some(Self::Special),
            // Our own, or nothing at all.
            NoticeKind::State | NoticeKind::FolderMarker => None,
        }
    }

    /// Whether items may be missing because of it.
    pub(crate) const fn is_uncovered(self) -> bool {
        matches!(self, Self::Unreadable | Self::TooLong)
    }

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Unreadable => "could not be read",
            Self::TooLong => "too long a path",
            Self::Vanished => "gone before it was looked at",
            Self::Symlink => "symbolic link",
            Self::Special => "no file",
            Self::Other => "for other reasons",
        }
    }
}

/// A line of the books.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Entry<'a> {
    PassedOver {
        why: Why,
        #[serde(borrow)]
        key: KeyText<'a>,
        detail: Option<String>,
    },
    /// More of them, not named.
    Uncounted { why: Why, count: u64 },
    /// An item that was set aside had been tried again.
    Retried { count: u64 },
    /// A write that was repeated took effect once.
    Replayed,
    /// A write came too late and was refused.
    Refused,
}

/// Keeps this process's books, and passes everything on.
pub(crate) struct Books {
    path: PathBuf,
    state: Mutex<State>,
    next: Arc<dyn Observer>,
}

#[derive(Default)]
struct State {
    file: Option<File>,
    named: BTreeMap<Why, u64>,
}

impl Books {
    /// Books in a file of `folder`, which is made when there is something to write.
    pub(crate) fn new(folder: PathBuf, next: Arc<dyn Observer>) -> Arc<Self> {
        let path = folder.join(format!("{PREFIX}{:016x}.jsonl", fastrand::u64(..)));
        Arc::new(Self { path, state: Mutex::default(), next })
    }

    fn write(&self, state: &mut State, entry: &Entry<'_>) {
        // Without books the work goes on: they say nothing of what is done.
        let _unwritten = self.try_write(state, entry);
    }

    fn try_write(&self, state: &mut State, entry: &Entry<'_>) -> std::io::Result<()> {
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        let file = match &mut state.file {
            Some(file) => file,
            none => {
                if let Some(folder) = self.path.parent() {
                    fs::create_dir_all(folder)?;
                }
                none.insert(File::options().append(true).create(true).open(&self.path)?)
            }
        };
        file.write_all(&line)
    }

    fn passed_over(&self, notices: &Notices) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut uncounted: BTreeMap<Why, u64> = BTreeMap::new();
        if notices.more() > 0 {
            uncounted.insert(Why::Other, notices.more());
        }
        for Notice { key, kind, detail } in notices.kept() {
            let Some(why) = Why::of(*kind) else { continue };
            let named = state.named.entry(why).or_default();
            *named += 1;
            if *named > NAMED_MAX {
                *uncounted.entry(why).or_default() += 1;
                continue;
            }
            let entry = Entry::PassedOver { why, key: KeyText::new(key), detail: detail.clone() };
            self.write(&mut state, &entry);
        }
        for (why, count) in uncounted {
            self.write(&mut state, &Entry::Uncounted { why, count });
        }
    }

    fn note(&self, entry: &Entry<'_>) {
        self.write(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner), entry);
    }
}

impl Observer for Books {
    fn event(&self, slot: usize, event: WorkerEvent<'_>) {
        match event {
            WorkerEvent::Noticed { notices } => self.passed_over(notices),
            WorkerEvent::Replayed { .. } => self.note(&Entry::Replayed),
            WorkerEvent::Refused { .. } => self.note(&Entry::Refused),
            WorkerEvent::Parked { retries: retries @ 1.., .. } => {
                self.note(&Entry::Retried { count: retries.into() });
            }
            _ => {}
        }
        self.next.event(slot, event);
    }
}

/// What the names of books begin with.
pub(crate) const PREFIX: &str = "books-";

/// The books of all processes, added up.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) passed_over: BTreeMap<Why, u64>,
    pub(crate) uncovered: Vec<Uncovered>,
    pub(crate) retries: u64,
    pub(crate) replays: u64,
    pub(crate) refused: u64,
    /// What was met already: a place that is read twice is told twice.
    met: BTreeSet<(Why, [u8; 16])>,
}

/// A place in the source of which nothing is covered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Uncovered {
    pub(crate) key: KeyText<'static>,
    pub(crate) why: Why,
    pub(crate) detail: Option<String>,
}

impl Tally {
    /// Adds the books of one process.
    pub(crate) fn add(&mut self, books: &[u8]) {
        for line in books.split(|byte| *byte == b'\n') {
            // The last line of a process that was killed may be cut.
            if let Ok(entry) = serde_json::from_slice::<Entry<'_>>(line) {
                self.enter(entry);
            }
        }
    }

    fn enter(&mut self, entry: Entry<'_>) {
        match entry {
            Entry::PassedOver { why, key, detail } => {
                let bytes = key.to_bytes().unwrap_or_default();
                let mut digest = [0; 16];
                blake3::Hasher::new().update(&bytes).finalize_xof().fill(&mut digest);
                if !self.met.insert((why, digest)) {
                    return;
                }
                *self.passed_over.entry(why).or_default() += 1;
                if why.is_uncovered() && self.uncovered.len() < UNCOVERED_MAX {
                    let key = key.into_owned();
                    self.uncovered.push(Uncovered { key, why, detail });
                }
            }
            Entry::Uncounted { why, count } => {
                *self.passed_over.entry(why).or_default() += count;
            }
            Entry::Retried { count } => self.retries += count,
            Entry::Replayed => self.replays += 1,
            Entry::Refused => self.refused += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_several_met_is_counted_once_and_a_cut_line_not_at_all() {
        let entry = |key: &'static [u8], why| {
            let entry = Entry::PassedOver { why, key: KeyText::new(key), detail: None };
            serde_json::to_string(&entry).unwrap() + "\n"
        };
        let one = entry(b"a/", Why::Unreadable) + &entry(b"l\xff", Why::Symlink);
        let refused = serde_json::to_string(&Entry::Refused).unwrap() + "\n";
        let more = serde_json::to_string(&Entry::Uncounted { why: Why::Other, count: 7 }).unwrap();
        let other = one.clone() + &refused + &more + "\n{\"kind\":\"refu";
        let mut tally = Tally::default();
        tally.add(one.as_bytes());
        tally.add(other.as_bytes());
        let expected = [(Why::Unreadable, 1), (Why::Symlink, 1), (Why::Other, 7)];
        assert_eq!(tally.passed_over, BTreeMap::from(expected));
        assert_eq!((tally.refused, tally.uncovered.len()), (1, 1));
    }
}
