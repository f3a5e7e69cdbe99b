//! The journal of a process: facts about a run that no cursor holds, such as skipped entries of the
//! source and replayed or rejected writes.
//!
//! Each process keeps a file beside the segments, and the receipt adds up all of them. Skipped
//! entries are written when a page is read, before any cursor moves over them, so a kill loses
//! none. Where items may be missing because of a skipped entry, a page whose entries cannot be
//! written is not used.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use shardwright_connectors::{RESULT_MODE, open_regular_with, sync_folder};
use shardwright_engine::random;
use shardwright_process::KeyText;
use shardwright_worker::connector::{SkipReason, SkipReport, SkipReports};
use shardwright_worker::{Observer, WorkerEvent};

/// Entries of a reason that each process writes one by one; it counts the rest.
const NAMED_MAX: u64 = 10_000;
/// Unreadable entries that the receipt names.
pub(crate) const UNCOVERED_MAX: usize = 1_000;

/// Why an entry of the source was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// It could not be read.
    Unreadable,
    /// Its path is too long.
    TooLong,
    /// It vanished before it was read.
    Vanished,
    /// It is a symbolic link.
    Symlink,
    /// It is a socket, a pipe or a device.
    Special,
    /// It excludes items, but belongs to another user.
    ForeignRules,
    /// It is a symbolic link to itself or to a folder around it.
    Loop,
}

impl Why {
    /// The reason to report; none for what is never an item.
    pub const fn of(kind: SkipReason) -> Option<Self> {
        match kind {
            SkipReason::Unreadable => Some(Self::Unreadable),
            SkipReason::TooLong => Some(Self::TooLong),
            SkipReason::Vanished => Some(Self::Vanished),
            SkipReason::Symlink => Some(Self::Symlink),
            SkipReason::Special => Some(Self::Special),
            SkipReason::ForeignRules => Some(Self::ForeignRules),
            SkipReason::Loop => Some(Self::Loop),
            // Files of the run itself, and placeholders.
            SkipReason::State | SkipReason::FolderMarker => None,
        }
    }

    /// Whether items may be missing because of it.
    pub(crate) const fn is_uncovered(self) -> bool {
        matches!(self, Self::Unreadable | Self::TooLong)
    }

    /// The reason as text.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Unreadable => "could not be read",
            Self::TooLong => "path too long",
            Self::Vanished => "vanished before it was read",
            Self::Symlink => "symbolic link",
            Self::Special => "special file",
            Self::ForeignRules => "rules of another user",
            Self::Loop => "link to a folder around it",
        }
    }
}

/// A line of a journal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Entry<'a> {
    PassedOver {
        why: Why,
        #[serde(borrow)]
        key: KeyText<'a>,
        detail: Option<String>,
    },
    /// Skipped entries without lines of their own.
    Uncounted { why: Why, count: u64 },
    /// Retries of an item that was parked.
    Retried { count: u64 },
    /// A retried write took effect once.
    Replayed,
    /// A late write was rejected.
    Refused,
}

/// The journal of this process. It passes all events on.
pub struct ProcessJournal {
    path: PathBuf,
    state: Mutex<State>,
    next: Arc<dyn Observer>,
}

#[derive(Default)]
struct State {
    file: Option<File>,
    /// Whether the last line may be incomplete.
    is_cut: bool,
    named: BTreeMap<Why, u64>,
}

impl ProcessJournal {
    /// A journal in a file of `folder`, both created at the first entry.
    pub fn new(folder: PathBuf, next: Arc<dyn Observer>) -> Arc<Self> {
        let path = folder.join(format!("{PREFIX}{:016x}.jsonl", random()));
        Arc::new(Self { path, state: Mutex::default(), next })
    }

    /// The path of the file.
    pub fn path(&self) -> &PathBuf {
        &self.path
    }

    /// Writes the skipped entries of a page, and returns whether items may be missing because of
    /// them. If so, a failure to write is an error.
    pub(crate) fn record_skipped(&self, skipped: &SkipReports) -> io::Result<bool> {
        let mut state = self.state();
        let (mut lines, mut uncounted, mut is_uncovered) = (Vec::new(), BTreeMap::new(), false);
        for (reason, count) in skipped.more_of_each() {
            if let Some(why) = Why::of(reason) {
                uncounted.insert(why, count);
            }
        }
        for SkipReport { key, reason, detail } in skipped.kept() {
            let Some(why) = Why::of(*reason) else { continue };
            is_uncovered |= why.is_uncovered();
            let named = state.named.entry(why).or_default();
            *named += 1;
            if *named > NAMED_MAX {
                *uncounted.entry(why).or_default() += 1;
                continue;
            }
            let entry = Entry::PassedOver { why, key: KeyText::new(key), detail: detail.clone() };
            add_line(&mut lines, &entry)?;
        }
        for (why, count) in uncounted {
            add_line(&mut lines, &Entry::Uncounted { why, count })?;
        }
        let written = self.append(&mut state, &lines, is_uncovered);
        if is_uncovered { written.map(|()| true) } else { Ok(false) }
    }

    fn note(&self, entry: &Entry<'_>) {
        let mut line = Vec::new();
        // These entries do not concern what is done, so a failure to write them is ignored.
        let written = add_line(&mut line, entry);
        let _unwritten = written.and_then(|()| self.append(&mut self.state(), &line, false));
    }

    fn append(&self, state: &mut State, lines: &[u8], is_durable: bool) -> io::Result<()> {
        let State { file, is_cut, .. } = state;
        if lines.is_empty() {
            return Ok(());
        }
        let file = match file {
            Some(file) => file,
            none => none.insert(self.open()?),
        };
        let mut write = || {
            if *is_cut {
                file.write_all(b"\n")?;
            }
            file.write_all(lines)?;
            if is_durable { file.sync_data() } else { Ok(()) }
        };
        let written = write();
        *is_cut = written.is_err();
        written
    }

    fn open(&self) -> io::Result<File> {
        let Some(folder) = self.path.parent() else { return Err(io::ErrorKind::NotFound.into()) };
        fs::create_dir_all(folder)?;
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(RESULT_MODE);
        let file = open_regular_with(&self.path, &options)?;
        sync_folder(folder)?;
        Ok(file)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn add_line(lines: &mut Vec<u8>, entry: &Entry<'_>) -> io::Result<()> {
    serde_json::to_writer(&mut *lines, entry)?;
    lines.push(b'\n');
    Ok(())
}

impl Observer for ProcessJournal {
    fn event(&self, slot: usize, event: WorkerEvent<'_>) {
        match event {
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

/// Prefix of the file names of journals.
pub(crate) const PREFIX: &str = "books-";

/// Whether a file name is that of a journal.
pub(crate) fn is_name(name: &str) -> bool {
    name.starts_with(PREFIX) && name.ends_with(".jsonl")
}

/// The sum of the journals of all processes.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) skipped: BTreeMap<Why, u64>,
    pub(crate) uncovered: Vec<Uncovered>,
    pub(crate) retries: u64,
    pub(crate) replays: u64,
    pub(crate) refused: u64,
    /// Known entries, because an entry that is read twice is reported twice.
    met: BTreeSet<(Why, [u8; 16])>,
}

/// An entry of the source below which no item was processed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Uncovered {
    pub(crate) key: KeyText<'static>,
    pub(crate) why: Why,
    pub(crate) detail: Option<String>,
}

impl Tally {
    /// Adds the journal of one process.
    pub(crate) fn add(&mut self, journal: &[u8]) {
        for line in journal.split(|byte| *byte == b'\n') {
            // A kill may have cut the last line.
            if let Ok(entry) = serde_json::from_slice::<Entry<'_>>(line) {
                self.count(entry);
            }
        }
    }

    fn count(&mut self, entry: Entry<'_>) {
        match entry {
            Entry::PassedOver { why, key, detail } => {
                let bytes = key.to_bytes().unwrap_or_default();
                let mut digest = [0; 16];
                blake3::Hasher::new().update(&bytes).finalize_xof().fill(&mut digest);
                if !self.met.insert((why, digest)) {
                    return;
                }
                *self.skipped.entry(why).or_default() += 1;
                if why.is_uncovered() && self.uncovered.len() < UNCOVERED_MAX {
                    let key = key.into_owned();
                    self.uncovered.push(Uncovered { key, why, detail });
                }
            }
            Entry::Uncounted { why, count } => {
                *self.skipped.entry(why).or_default() += count;
            }
            Entry::Retried { count } => self.retries += count,
            Entry::Replayed => self.replays += 1,
            Entry::Refused => self.refused += 1,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;
    use std::process::Command;

    use shardwright_connectors::TreeConnector;
    use shardwright_worker::connector::{Connector as _, PageLimit, Position};

    use super::*;

    /// The skipped entries of a folder.
    async fn skipped(folder: &Path) -> SkipReports {
        let tree = TreeConnector::open(folder.to_owned()).await.unwrap();
        let ranges = tree.initial_ranges(1).await.unwrap();
        let page = tree.page(&ranges[0], &Position::start(), PageLimit::default()).await.unwrap();
        page.skipped
    }

    /// Makes a folder whose path is too long to be opened.
    pub(crate) fn make_too_deep(folder: &Path) {
        let script = "for level in $(seq 20); do mkdir $1 && cd -P $1 || exit 1; done";
        let mut shell = Command::new("bash");
        shell.args(["-c", script, "bash", &"d".repeat(250)]).current_dir(folder);
        assert!(shell.status().unwrap().success());
    }

    #[tokio::test]
    async fn unreadable_entries_are_named_beside_many_others() {
        let source = tempfile::tempdir().unwrap();
        for number in 0..300 {
            std::os::unix::fs::symlink("x", source.path().join(format!("{number}"))).unwrap();
        }
        make_too_deep(source.path());
        let folder = tempfile::tempdir().unwrap();
        let journal = ProcessJournal::new(folder.path().join("journal"), Arc::new(()));
        assert!(journal.record_skipped(&skipped(source.path()).await).unwrap());
        let mut tally = Tally::default();
        tally.add(&fs::read(journal.path()).unwrap());
        let expected = BTreeMap::from([(Why::TooLong, 1), (Why::Symlink, 300)]);
        assert_eq!((tally.skipped, tally.uncovered.len()), (expected, 1));
    }

    #[tokio::test]
    async fn a_required_entry_that_cannot_be_written_is_an_error() {
        let source = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("x", source.path().join("link")).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let in_the_way = folder.path().join("journal");
        fs::write(&in_the_way, "").unwrap();
        let journal = ProcessJournal::new(in_the_way.clone(), Arc::new(()));
        assert!(!journal.record_skipped(&skipped(source.path()).await).unwrap());
        make_too_deep(source.path());
        let met = skipped(source.path()).await;
        assert!(journal.record_skipped(&met).is_err());
        fs::remove_file(&in_the_way).unwrap();
        assert!(journal.record_skipped(&met).unwrap());
    }

    #[tokio::test]
    async fn pipe_in_place_of_a_journal_is_not_waited_for() {
        let source = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("x", source.path().join("link")).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let journal = ProcessJournal::new(folder.path().join("journal"), Arc::new(()));
        fs::create_dir(folder.path().join("journal")).unwrap();
        let path = journal.path();
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
        assert!(!journal.record_skipped(&skipped(source.path()).await).unwrap());
    }

    #[test]
    fn repeated_entries_count_once_and_cut_lines_not_at_all() {
        let entry = |key: &'static [u8], why| {
            let entry = Entry::PassedOver { why, key: KeyText::new(key), detail: None };
            serde_json::to_string(&entry).unwrap() + "\n"
        };
        let one = entry(b"a/", Why::Unreadable) + &entry(b"l\xff", Why::Symlink);
        let refused = serde_json::to_string(&Entry::Refused).unwrap() + "\n";
        let more =
            serde_json::to_string(&Entry::Uncounted { why: Why::Vanished, count: 7 }).unwrap();
        let other = one.clone() + &refused + &more + "\n{\"kind\":\"refu";
        let mut tally = Tally::default();
        tally.add(one.as_bytes());
        tally.add(other.as_bytes());
        let expected = [(Why::Unreadable, 1), (Why::Symlink, 1), (Why::Vanished, 7)];
        assert_eq!(tally.skipped, BTreeMap::from(expected));
        assert_eq!((tally.refused, tally.uncovered.len()), (1, 1));
    }
}
