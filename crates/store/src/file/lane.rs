//! The way to the writer.
//!
//! If nobody is in the way, a job is done at once, by whoever brings it: no thread, no waiting but
//! for the disk. If another process is writing, or somebody has locked the database, the job waits
//! in a queue that a thread of its own works off, and is refused when it has waited for too long.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use super::writer::{Job, Writer};
use super::{Setup, door};
use crate::batch::{BatchEngine, BatchSize, CommitBatch};
use crate::error::{Fault, FaultKind};

/// Bounds of a batch: what is in one transaction should not keep others waiting for long.
const BATCH_COMMITS: usize = 1_024;
const BATCH_OPERATIONS: usize = 16_384;
const BATCH_BYTES: usize = 8 * 1_024 * 1_024;

/// Brings jobs to the writer.
#[derive(Debug)]
pub(super) struct Lane {
    setup: Arc<Setup>,
    writer: Mutex<Writer>,
    room: Mutex<Room>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Room {
    waiting: VecDeque<Waiting>,
    /// Whether the thread has something to do; then nobody goes past it.
    is_busy: bool,
    has_thread: bool,
    is_closed: bool,
    /// Whether nobody waits for the end of the thread any more: it leaves the store itself.
    thread_leaves: bool,
}

#[derive(Debug)]
struct Waiting {
    job: Job,
    deadline: Instant,
}

impl Lane {
    pub(super) fn new(setup: Arc<Setup>, writer: Writer) -> Self {
        let (writer, room) = (Mutex::new(writer), Mutex::default());
        Self { setup, writer, room, changed: Condvar::new() }
    }

    /// Does a job, now or later.
    pub(super) fn submit(self: &Arc<Self>, job: Job) {
        let deadline = Instant::now() + self.setup.patience;
        let is_busy = {
            let room = self.room();
            room.is_busy || room.is_closed
        };
        if is_busy {
            return self.queue(Waiting { job, deadline });
        }
        let mut writer = match self.writer.try_lock() {
            Ok(writer) => writer,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return self.queue(Waiting { job, deadline }),
        };
        match writer.turn.try_take() {
            Ok(true) => {}
            Ok(false) => {
                drop(writer);
                return self.queue(Waiting { job, deadline });
            }
            Err(error) => return job.refuse(self.lock_failed(error)),
        }
        let given_back = writer.run(job, Duration::ZERO);
        self.give_back_turn(&writer);
        drop(writer);
        if let Some(job) = given_back {
            self.queue(Waiting { job, deadline });
        }
    }

    /// Refuses the jobs that have waited for too long.
    pub(super) fn refuse_overdue(&self) {
        let now = Instant::now();
        let overdue: VecDeque<_> = {
            let mut room = self.room();
            let waiting = std::mem::take(&mut room.waiting);
            let (overdue, waiting) = waiting.into_iter().partition(|one| one.deadline <= now);
            room.waiting = waiting;
            overdue
        };
        for waiting in overdue {
            waiting.job.refuse(self.busy());
        }
    }

    pub(super) fn is_waited_for(&self) -> bool {
        self.room().is_busy
    }

    /// Ends the thread, refuses what waits, and waits for what is being written. Tells whether
    /// nothing is written any more.
    pub(super) fn close(&self, patience: Duration) -> bool {
        let waiting = {
            let mut room = self.room();
            room.is_closed = true;
            std::mem::take(&mut room.waiting)
        };
        self.changed.notify_all();
        for waiting in waiting {
            waiting.job.refuse(super::interrupted());
        }
        let has_thread = |room: &mut Room| room.has_thread;
        let ended = self.changed.wait_timeout_while(self.room(), patience, has_thread);
        let mut room = ended.unwrap_or_else(PoisonError::into_inner).0;
        if room.has_thread {
            // It still waits for another process. When it ends, it closes the connections and
            // leaves.
            room.thread_leaves = true;
            return false;
        }
        drop(room);
        self.writer.try_lock().is_ok_and(|mut writer| {
            writer.close();
            true
        })
    }

    fn queue(self: &Arc<Self>, waiting: Waiting) {
        let mut room = self.room();
        if room.is_closed {
            drop(room);
            return waiting.job.refuse(super::interrupted());
        }
        room.is_busy = true;
        // Whoever looks after sessions comes again and again, and one look ends all that are over.
        // So only one of them is ahead of those who are waited for.
        let is_look = |job: &Job| matches!(job, Job::EndSessions);
        if is_look(&waiting.job) && room.waiting.iter().any(|other| is_look(&other.job)) {
            return;
        }
        room.waiting.push_back(waiting);
        if !room.has_thread {
            let lane = Arc::clone(self);
            let name = "shardwright-file-writer".to_owned();
            let work = move || {
                lane.work();
                let mut room = lane.room();
                room.has_thread = false;
                let leaves = room.thread_leaves;
                drop(room);
                lane.changed.notify_all();
                if leaves {
                    door::leave(&lane.setup);
                }
            };
            room.has_thread = thread::Builder::new().name(name).spawn(work).is_ok();
        }
        let stuck = if room.has_thread {
            None
        } else {
            room.is_busy = false;
            room.waiting.pop_back()
        };
        drop(room);
        self.changed.notify_all();
        if let Some(waiting) = stuck {
            waiting.job.refuse(Fault::new(FaultKind::Busy, "no thread can be started"));
        }
    }

    /// What the thread does: takes turns with other processes, one job at a time.
    fn work(&self) {
        loop {
            let mut room = self.room();
            while room.waiting.is_empty() && !room.is_closed {
                room.is_busy = false;
                room = self.changed.wait(room).unwrap_or_else(PoisonError::into_inner);
            }
            let closed = room.is_closed;
            drop(room);
            let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
            if closed {
                return writer.close();
            }
            let taken = writer.turn.take();
            // Only now, so that it could be refused in the meantime.
            let Some(Waiting { job, deadline }) = self.room().waiting.pop_front() else {
                if taken.is_ok() {
                    self.give_back_turn(&writer);
                }
                continue;
            };
            if let Err(error) = taken {
                job.refuse(self.lock_failed(error));
                continue;
            }
            let given_back = writer.run(job, deadline.saturating_duration_since(Instant::now()));
            self.give_back_turn(&writer);
            drop(writer);
            if let Some(job) = given_back {
                job.refuse(self.busy());
            }
        }
    }

    fn give_back_turn(&self, writer: &Writer) {
        // It cannot fail on a file that is open, and ends with the file if it does.
        let _failed = writer.turn.give_back();
    }

    fn busy(&self) -> Fault {
        let path = self.setup.path.display();
        let message = format!("others were writing to {path} for {:?}", self.setup.patience);
        Fault::new(FaultKind::Busy, message)
    }

    fn lock_failed(&self, error: std::io::Error) -> Fault {
        let message = format!("the lock files beside {} cannot be used", self.setup.path.display());
        Fault::new(FaultKind::Other, message).because(error)
    }

    fn room(&self) -> MutexGuard<'_, Room> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BatchEngine for Lane {
    fn fits(&self, size: &BatchSize) -> bool {
        size.commits <= BATCH_COMMITS
            && size.operations <= BATCH_OPERATIONS
            && size.bytes <= BATCH_BYTES
    }

    fn in_flight(&self) -> usize {
        1
    }

    fn decides_in_start(&self) -> bool {
        true
    }

    fn start(self: &Arc<Self>, batch: CommitBatch) {
        self.submit(Job::Commits(batch));
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use rusqlite::Connection;
    use tempfile::TempDir;

    use super::super::locks::{Locks, try_lock};
    use super::super::{FileOptions, FileStore};
    use super::*;
    use crate::commit::{Commit, Expect};
    use crate::key::Key;
    use crate::store::Store as _;

    fn open(folder: &Path) -> FileStore {
        FileStore::open(folder, FileOptions::default()).unwrap()
    }

    fn create(name: &'static str) -> Commit {
        let key = Key::from(name);
        Commit::builder().expect(key.clone(), Expect::Absent).put(key, "").build().unwrap()
    }

    fn at_once<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            std::task::Poll::Ready(output) => output,
            std::task::Poll::Pending => panic!("it waits"),
        }
    }

    fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !is_so() {
            assert!(Instant::now() < deadline, "{what}");
            thread::yield_now();
        }
    }

    /// A store whose thread has taken a commit and waits for somebody's tool to let it write.
    fn in_flight(folder: &Path) -> (FileStore, Connection) {
        let store = open(folder);
        at_once(store.commit(create("first"))).unwrap();
        let tool = Connection::open(store.path()).unwrap();
        tool.execute_batch("BEGIN IMMEDIATE").unwrap();
        let mut commit = Box::pin(store.commit(create("second")));
        assert!(commit.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let lane = Arc::clone(store.inner.batcher.engine());
        wait_until("the thread takes nothing", || {
            let room = lane.room();
            room.has_thread && room.waiting.is_empty()
        });
        drop(commit);
        (store, tool)
    }

    fn is_used(folder: &Path) -> bool {
        let users = Locks::new(folder.join("locks")).file("users").unwrap();
        !try_lock(&users).unwrap()
    }

    #[test]
    fn only_one_look_after_sessions_waits() {
        let folder = TempDir::new().unwrap();
        let (store, tool) = in_flight(folder.path());
        let lane = Arc::clone(store.inner.batcher.engine());
        let looks = || {
            let room = lane.room();
            room.waiting.iter().filter(|one| matches!(one.job, Job::EndSessions)).count()
        };
        for _ in 0..50 {
            lane.submit(Job::EndSessions);
        }
        assert_eq!(looks(), 1);
        // Somebody whose answer is waited for comes after one of them, and not after fifty.
        let mut session = Box::pin(store.open_session(Duration::from_secs(60)));
        assert!(session.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(lane.room().waiting.len(), 2);
        tool.execute_batch("ROLLBACK").unwrap();
        wait_until("what waits is never done", || {
            session.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
        });
        // And it is no longer one who waits: the next can.
        tool.execute_batch("BEGIN IMMEDIATE").unwrap();
        let mut other = Box::pin(store.open_session(Duration::from_secs(60)));
        assert!(other.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        wait_until("the thread takes nothing", || lane.room().waiting.is_empty());
        lane.submit(Job::EndSessions);
        assert_eq!(looks(), 1);
        tool.execute_batch("ROLLBACK").unwrap();
    }

    #[test]
    fn closing_waits_for_what_is_being_written() {
        for _ in 0..5 {
            let folder = TempDir::new().unwrap();
            let (store, tool) = in_flight(folder.path());
            let closing = thread::spawn(move || drop(store));
            tool.execute_batch("ROLLBACK").unwrap();
            closing.join().unwrap();
            wait_until("the thread never ends", || !is_used(folder.path()));
            let store = open(folder.path());
            let found = at_once(store.load(&[Key::from("second")])).unwrap();
            let second = found.values[0].as_ref().expect("it was being written").revision;
            let third = at_once(store.commit(create("third"))).unwrap();
            assert!(third > second, "revision {second} was given out twice");
        }
    }

    #[test]
    fn who_still_writes_is_still_a_user_when_the_store_was_dropped() {
        let folder = TempDir::new().unwrap();
        let (store, tool) = in_flight(folder.path());
        drop(store);
        assert!(is_used(folder.path()));
        // Somebody comes in the meantime, and is not the first.
        let other = open(folder.path());
        tool.execute_batch("ROLLBACK").unwrap();
        let second = [Key::from("second")];
        wait_until("it is never written", || {
            at_once(other.load(&second)).unwrap().values[0].is_some()
        });
        let written = at_once(other.load(&second)).unwrap().revision;
        drop(other);
        wait_until("the thread never ends", || !is_used(folder.path()));
        let again = open(folder.path());
        assert!(at_once(again.commit(create("third"))).unwrap() > written);
    }

    #[test]
    fn who_still_writes_when_the_store_was_dropped_closes_it_in_the_end() {
        let folder = TempDir::new().unwrap();
        let (store, tool) = in_flight(folder.path());
        let lane = Arc::clone(store.inner.batcher.engine());
        drop(store);
        tool.execute_batch("ROLLBACK").unwrap();
        wait_until("the thread never ends", || Arc::strong_count(&lane) == 1);
        let closed = tool.query_row("SELECT closed FROM store", [], |row| row.get(0));
        assert_eq!(closed, Ok(true));
        assert!(!is_used(folder.path()));
    }
}
