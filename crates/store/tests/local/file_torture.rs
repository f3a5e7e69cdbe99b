//! Processes that write as fast as they can and are killed, and logs that are truncated and
//! overwritten.
//!
//! Each child logs what it is about to commit and what was acknowledged. Always: every acknowledged
//! commit is recovered, and every recovered commit was attempted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use shardwright_store::file::{FileOpenError, FileOptions, FileStore};
use shardwright_store::{
    Commit, CommitError, Expect, FaultKind, Key, Revision, ScanFrom, Store, StoreRange, Versioned,
};
use tempfile::TempDir;

use crate::processes::{Chance, Log, Part, Role, TIMEOUT, block_on};

const CHILDREN: u64 = 3;
const TASKS: u64 = 4;
const KEYS: u64 = 5;

/// Short logs, so that they are checkpointed all the time.
fn options() -> FileOptions {
    FileOptions { log_pages: 40, ..FileOptions::default() }
}

/// Runs the role of a child that writes until it is killed.
pub(crate) fn write(role: Role) {
    let Role { folder, argument, log, .. } = role;
    let (store, log) = (Arc::new(FileStore::open(&folder, options()).unwrap()), Arc::new(log));
    block_on(async move {
        let tasks = (0..TASKS).map(|task| {
            let (store, log) = (Arc::clone(&store), Arc::clone(&log));
            tokio::spawn(async move { write_for_ever(&store, &log, argument, task).await })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
    });
}

/// Writes increasing numbers to a few keys of its own. `argument` is the round and the child.
async fn write_for_ever(store: &FileStore, log: &Log, argument: u64, task: u64) {
    let (round, child) = (argument / CHILDREN, argument % CHILDREN);
    let names: Vec<String> = (0..KEYS).map(|key| format!("{child}/{task}/{key}")).collect();
    let keys: Vec<Key> = names.iter().map(|name| Key::from(name.clone())).collect();
    let mut found = store.load(&keys).await.unwrap().values;
    for number in 0_usize.. {
        let at = number % names.len();
        let value = round * 1_000_000_000 + u64::try_from(number).unwrap();
        let expect = found[at].as_ref().map_or(Expect::Absent, |it| Expect::At(it.revision));
        // Some values are larger than a page.
        let weight = if number.is_multiple_of(17) { 9_000 } else { 60 };
        let text = format!("{value} {}", "x".repeat(weight));
        let commit = Commit::builder().expect(keys[at].clone(), expect);
        let commit = commit.put(keys[at].clone(), text).build().unwrap();
        log.line(&format!("try {} {value}", names[at]));
        match store.commit(commit).await {
            Ok(revision) => {
                log.line(&format!("done {} {value} {revision}", names[at]));
                found[at] = Some(Versioned::new("".into(), revision, None));
            }
            Err(CommitError::NotApplied(fault)) if fault.kind == FaultKind::Busy => {
                log.line(&format!("refused {} {value}", names[at]));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// What children have logged about one key, the latest last.
#[derive(Clone, Default)]
struct Story {
    attempted: BTreeSet<u64>,
    done: Vec<(u64, u64)>,
}

#[derive(Clone, Default)]
struct Stories(BTreeMap<String, Story>);

impl Stories {
    fn read(&mut self, lines: &[String]) {
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            let story = self.0.entry(words[1].to_owned()).or_default();
            let value: u64 = words[2].parse().unwrap();
            match words[0] {
                "try" => drop(story.attempted.insert(value)),
                "done" => story.done.push((value, words[3].parse().unwrap())),
                "refused" => drop(story.attempted.remove(&value)),
                other => panic!("{other}"),
            }
        }
    }

    /// Acknowledged ⊆ recovered ⊆ attempted, up to a revision.
    fn check(&self, recovered: &Recovered, up_to: Revision, context: &str) {
        for (name, story) in &self.0 {
            let known = story.done.iter().rev().find(|(_, revision)| *revision <= up_to.get());
            let found = recovered.entries.get(name);
            match (known, found) {
                (None, None) => {}
                (Some(known), None) => panic!("{context}: {name} {known:?} is lost"),
                (known, Some((value, revision))) => {
                    assert!(story.attempted.contains(value), "{context}: {name} {value}: whence?");
                    assert!(*revision <= up_to.get(), "{context}: {name} is from the future");
                    let (last, at) = known.copied().unwrap_or_default();
                    assert!(*value >= last && *revision >= at, "{context}: {name} went back");
                    let acknowledged = story.done.iter().find(|(done, _)| done == value);
                    assert!(acknowledged.is_none_or(|(_, at)| at == revision), "{context}: {name}");
                }
            }
        }
        let strangers = recovered.entries.keys().find(|name| !self.0.contains_key(*name));
        assert_eq!(strangers, None, "{context}");
    }
}

/// The contents of a store: for each name, the number of the value and its revision.
struct Recovered {
    revision: Revision,
    entries: BTreeMap<String, (u64, u64)>,
}

fn recovered(folder: &Path) -> Result<Recovered, FileOpenError> {
    let store = FileStore::open(folder, options())?;
    let verdict: String = rusqlite::Connection::open(store.path())
        .unwrap()
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(verdict, "ok");
    let page = block_on(store.scan(&StoreRange::prefix(""), ScanFrom::first(1_000))).unwrap();
    assert!(page.next.is_none());
    let entries = page.entries.iter().map(|(key, found)| {
        let text = std::str::from_utf8(&found.value).unwrap();
        let value = text.split(' ').next().unwrap().parse().unwrap();
        (key.to_string(), (value, found.revision.get()))
    });
    Ok(Recovered { revision: page.revision, entries: entries.collect() })
}

fn start(folder: &Path, logs: &Path, round: u64) -> Vec<Part> {
    let child = |child| {
        let log = logs.join(format!("{round}-{child}"));
        Part::start("write", folder, &log, round * CHILDREN + child)
    };
    (0..CHILDREN).map(child).collect()
}

fn torture(place: &Path, rounds: u64, seed: u64) {
    let (folder, logs) = (TempDir::new_in(place).unwrap(), TempDir::new_in(place).unwrap());
    let mut stories = Stories::default();
    let mut chance = Chance(seed);
    for round in 0..rounds {
        let mut children = start(folder.path(), logs.path(), round);
        // Waits until all three are writing, and then for a random time.
        for child in &mut children {
            child.wait_for_lines("done", 2 + chance.below(30));
        }
        while let Some(mut child) = pick(&mut children, &mut chance) {
            child.kill();
            if chance.below(3) == 0 {
                // The others continue.
                for other in &mut children {
                    let now = other.lines().iter().filter(|line| line.starts_with("done")).count();
                    other.wait_for_lines("done", now + 3);
                }
            }
            stories.read(&child.lines());
        }
        let recovered = recovered(folder.path()).unwrap();
        stories.check(&recovered, recovered.revision, &format!("round {round}"));
    }
}

fn pick<T>(from: &mut Vec<T>, chance: &mut Chance) -> Option<T> {
    (!from.is_empty()).then(|| from.swap_remove(chance.below(from.len())))
}

#[test]
fn acknowledged_commits_survive_300_crashes() {
    // The effects of a process crash do not depend on the disk. A fast disk gives more crashes.
    let memory = Path::new("/dev/shm");
    let ordinary = std::env::temp_dir();
    let (fast, slow) = if memory.is_dir() { (memory, 20) } else { (ordinary.as_path(), 0) };
    torture(fast, 300 - slow, 1);
    torture(&ordinary, slow, 2);
}

/// A store as a crash would leave it, and its log of commits.
struct Image {
    folder: TempDir,
    stories: Stories,
}

fn take_image(seed: u64) -> Image {
    let (folder, logs) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let mut chance = Chance(seed);
    let mut children = start(folder.path(), logs.path(), 0);
    for child in &mut children {
        child.wait_for_lines("done", 20 + chance.below(60));
    }
    for child in &mut children {
        child.pause();
    }
    let mut stories = Stories::default();
    for child in &children {
        stories.read(&child.lines());
    }
    // This process does not use the store, so it may open the files.
    let image = TempDir::new().unwrap();
    copy(folder.path(), image.path());
    Image { folder: image, stories }
}

fn copy(from: &Path, to: &Path) {
    for name in ["state.db", "state.db-wal"] {
        fs::copy(from.join(name), to.join(name)).unwrap();
    }
}

/// Where the last commit in a log ends.
fn end_of_last_commit(log: &[u8]) -> usize {
    const HEADER: usize = 32;
    const FRAME_HEADER: usize = 24;
    if log.len() < HEADER {
        return log.len();
    }
    let page = usize::try_from(u32::from_be_bytes(log[8..12].try_into().unwrap())).unwrap();
    let mut end = HEADER;
    for (at, frame) in log[HEADER..].chunks_exact(FRAME_HEADER + page).enumerate() {
        if frame[8..16] != log[16..24] {
            break;
        }
        if frame[4..8] != [0; 4] {
            end = HEADER + (at + 1) * (FRAME_HEADER + page);
        }
    }
    end
}

impl Image {
    /// The same files, with a change to one.
    fn with(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> (TempDir, PathBuf) {
        let folder = TempDir::new().unwrap();
        copy(self.folder.path(), folder.path());
        let path = folder.path().join(name);
        let mut bytes = fs::read(&path).unwrap();
        change(&mut bytes);
        fs::write(&path, bytes).unwrap();
        (folder, path)
    }

    fn log(&self) -> Vec<u8> {
        fs::read(self.folder.path().join("state.db-wal")).unwrap()
    }

    /// Checks that every acknowledged commit is recovered.
    fn is_whole(&self, folder: &Path, context: &str) {
        let recovered = recovered(folder).unwrap();
        self.stories.check(&recovered, Revision::new(u64::MAX), context);
    }

    /// Checks that the contents are a prefix of the commits, or that the file is refused.
    fn is_prefix_or_refused(&self, folder: &Path, context: &str) -> bool {
        match recovered(folder) {
            Ok(recovered) => {
                self.stories.check(&recovered, recovered.revision, context);
                true
            }
            Err(error) => {
                assert!(error.to_string().contains("state.db"), "{context}: {error}");
                false
            }
        }
    }
}

fn scribble(bytes: &mut [u8], from: usize, chance: &mut Chance) {
    let at = from + chance.below(bytes.len() - from);
    let end = bytes.len().min(at + 1 + chance.below(600));
    for byte in &mut bytes[at..end] {
        *byte ^= u8::try_from(1 + chance.below(255)).unwrap();
    }
}

#[test]
fn damage_after_the_last_commit_loses_nothing() {
    for seed in 0..4 {
        let image = take_image(seed);
        let mut chance = Chance(seed);
        let end = end_of_last_commit(&image.log());
        image.is_whole(image.with("state.db-wal", |_| {}).0.path(), "untouched");
        let (cut, _) = image.with("state.db-wal", |log| log.truncate(end));
        image.is_whole(cut.path(), "cut after the last commit");
        for round in 0..5 {
            let (scribbled, _) = image.with("state.db-wal", |log| {
                log.truncate(end + chance.below(log.len() - end + 1));
                log.extend((0..1 + chance.below(9_000)).map(|_| 0));
                scribble(log, end, &mut chance);
            });
            let context = format!("seed {seed}, scribbled after the last commit, {round}");
            image.is_whole(scribbled.path(), &context);
        }
    }
}

#[test]
fn damage_before_the_last_commit_leaves_a_prefix_or_is_refused() {
    let (mut prefixes, mut refusals) = (0, 0);
    let mut count = |taken: bool| *(if taken { &mut prefixes } else { &mut refusals }) += 1;
    for seed in 10..16 {
        let image = take_image(seed);
        let mut chance = Chance(seed);
        for round in 0..12 {
            let context = format!("seed {seed}, round {round}");
            let (cut, _) =
                image.with("state.db-wal", |log| log.truncate(chance.below(log.len() + 1)));
            count(image.is_prefix_or_refused(cut.path(), &format!("{context}, log cut")));
            let (scribbled, _) = image.with("state.db-wal", |log| {
                if !log.is_empty() {
                    scribble(log, 0, &mut chance);
                }
            });
            count(image.is_prefix_or_refused(scribbled.path(), &format!("{context}, log")));
            let (scribbled, _) = image.with("state.db", |file| scribble(file, 0, &mut chance));
            count(image.is_prefix_or_refused(scribbled.path(), &format!("{context}, database")));
            let (cut, _) =
                image.with("state.db", |file| file.truncate(chance.below(file.len() + 1)));
            count(image.is_prefix_or_refused(cut.path(), &format!("{context}, database cut")));
        }
        let (without, log) = image.with("state.db-wal", |_| {});
        fs::remove_file(log).unwrap();
        count(image.is_prefix_or_refused(without.path(), "without the log"));
    }
    // Both must occur, or the test proves nothing.
    assert!(prefixes > 20 && refusals > 20, "{prefixes} prefixes, {refusals} refusals");
}

#[test]
fn a_paused_process_makes_others_time_out() {
    let (folder, logs) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let mut child = Part::start("write", folder.path(), &logs.path().join("child"), 0);
    child.wait_for_lines("done", 10);
    let timeout = Duration::from_millis(300);
    let store = FileStore::open(folder.path(), FileOptions { timeout, ..options() }).unwrap();
    let put = |name: String| {
        let key = Key::from(name);
        let commit = Commit::builder().expect(key.clone(), Expect::Absent).put(key, "");
        block_on(store.commit(commit.build().unwrap()))
    };
    // It stops at a random point. Sometimes it holds the write lock or the database.
    let (mut passed, mut refused) = (0, 0);
    let deadline = Instant::now() + TIMEOUT;
    for round in 0..40 {
        child.pause();
        let begin = Instant::now();
        match put(format!("{round}")) {
            Ok(_) => passed += 1,
            Err(CommitError::NotApplied(fault)) => {
                assert_eq!(fault.kind, FaultKind::Busy, "{fault}");
                refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
        assert!(begin.elapsed() < TIMEOUT);
        assert!(block_on(store.load(&[Key::from("0/0/0")])).is_ok(), "reads work");
        child.resume();
        let now = child.lines().len();
        child.wait_for_lines("", now + 5);
        if refused > 0 && passed > 0 || Instant::now() > deadline {
            break;
        }
    }
    put("last".to_owned()).unwrap();
    assert!(refused > 0, "{passed} passed");
}
