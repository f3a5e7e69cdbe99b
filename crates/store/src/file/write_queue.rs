//! The queue in front of the writer.
//!
//! If the database is free, a task runs at once on the caller's thread and waits only for the disk.
//! If another process writes, or a tool has locked the database, the task waits in a queue for a
//! separate thread, and is refused after a timeout.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use super::writer::{WriteTask, Writer};
use super::{Setup, users};
use crate::batch::{BatchEngine, BatchSize, CommitBatch};
use crate::error::{Fault, FaultKind};

/// Bounds of a batch, so that one transaction does not delay other processes for long.
const BATCH_COMMITS: usize = 1_024;
const BATCH_OPERATIONS: usize = 16_384;
const BATCH_BYTES: usize = 8 * 1_024 * 1_024;

/// Passes tasks to the writer.
#[derive(Debug)]
pub(super) struct WriteQueue {
    setup: Arc<Setup>,
    writer: Mutex<Writer>,
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    waiting: VecDeque<Waiting>,
    /// Whether the thread has something to do. Then no task overtakes the queue.
    is_busy: bool,
    has_thread: bool,
    is_closed: bool,
    /// Whether closing has timed out. Then the thread itself leaves the users.
    thread_leaves: bool,
}

#[derive(Debug)]
struct Waiting {
    task: WriteTask,
    deadline: Instant,
}

impl WriteQueue {
    pub(super) fn new(setup: Arc<Setup>, writer: Writer) -> Self {
        let (writer, state) = (Mutex::new(writer), Mutex::default());
        Self { setup, writer, state, changed: Condvar::new() }
    }

    /// Runs a task, now or later.
    pub(super) fn submit(self: &Arc<Self>, task: WriteTask) {
        let deadline = Instant::now() + self.setup.timeout;
        let is_busy = {
            let state = self.state();
            state.is_busy || state.is_closed
        };
        if is_busy {
            return self.enqueue(Waiting { task, deadline });
        }
        let mut writer = match self.writer.try_lock() {
            Ok(writer) => writer,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return self.enqueue(Waiting { task, deadline }),
        };
        match writer.write_lock.try_acquire() {
            Ok(true) => {}
            Ok(false) => {
                drop(writer);
                return self.enqueue(Waiting { task, deadline });
            }
            Err(error) => return task.refuse(self.lock_failed(error)),
        }
        let given_back = writer.run(task, Duration::ZERO);
        self.release(&writer);
        drop(writer);
        if let Some(task) = given_back {
            self.enqueue(Waiting { task, deadline });
        }
    }

    /// Refuses the tasks whose deadline has passed.
    pub(super) fn refuse_overdue(&self) {
        let now = Instant::now();
        let overdue: VecDeque<_> = {
            let mut state = self.state();
            let waiting = std::mem::take(&mut state.waiting);
            let (overdue, waiting) = waiting.into_iter().partition(|one| one.deadline <= now);
            state.waiting = waiting;
            overdue
        };
        for waiting in overdue {
            waiting.task.refuse(self.busy());
        }
    }

    pub(super) fn is_waited_for(&self) -> bool {
        self.state().is_busy
    }

    /// Ends the thread, refuses the waiting tasks, and waits for a write in progress. Returns false
    /// if that write is still not done.
    pub(super) fn close(&self, timeout: Duration) -> bool {
        let waiting = {
            let mut state = self.state();
            state.is_closed = true;
            std::mem::take(&mut state.waiting)
        };
        self.changed.notify_all();
        for waiting in waiting {
            waiting.task.refuse(super::interrupted());
        }
        let has_thread = |state: &mut QueueState| state.has_thread;
        let ended = self.changed.wait_timeout_while(self.state(), timeout, has_thread);
        let mut state = ended.unwrap_or_else(PoisonError::into_inner).0;
        if state.has_thread {
            // The thread still waits for another process. When it ends, it closes the connections
            // and leaves the users.
            state.thread_leaves = true;
            return false;
        }
        drop(state);
        self.writer.try_lock().is_ok_and(|mut writer| {
            writer.close();
            true
        })
    }

    fn enqueue(self: &Arc<Self>, waiting: Waiting) {
        let mut state = self.state();
        if state.is_closed {
            drop(state);
            return waiting.task.refuse(super::interrupted());
        }
        state.is_busy = true;
        // Maintenance submits this task regularly, and one task ends all expired sessions. So at
        // most one of them is queued ahead of callers.
        let is_look = |task: &WriteTask| matches!(task, WriteTask::EndSessions);
        if is_look(&waiting.task) && state.waiting.iter().any(|other| is_look(&other.task)) {
            return;
        }
        state.waiting.push_back(waiting);
        if !state.has_thread {
            let queue = Arc::clone(self);
            let name = "shardwright-file-writer".to_owned();
            let work = move || {
                queue.work();
                let mut state = queue.state();
                state.has_thread = false;
                let leaves = state.thread_leaves;
                drop(state);
                queue.changed.notify_all();
                if leaves {
                    users::leave(&queue.setup);
                }
            };
            state.has_thread = thread::Builder::new().name(name).spawn(work).is_ok();
        }
        let stuck = if state.has_thread {
            None
        } else {
            state.is_busy = false;
            state.waiting.pop_back()
        };
        drop(state);
        self.changed.notify_all();
        if let Some(waiting) = stuck {
            waiting.task.refuse(Fault::new(FaultKind::Busy, "no thread can be started"));
        }
    }

    /// The loop of the thread: it takes turns with other processes, one task at a time.
    fn work(&self) {
        loop {
            let mut state = self.state();
            while state.waiting.is_empty() && !state.is_closed {
                state.is_busy = false;
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            let closed = state.is_closed;
            drop(state);
            let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
            if closed {
                return writer.close();
            }
            let taken = writer.write_lock.acquire();
            // Taken only now, so that the task could time out in the meantime.
            let Some(Waiting { task, deadline }) = self.state().waiting.pop_front() else {
                if taken.is_ok() {
                    self.release(&writer);
                }
                continue;
            };
            if let Err(error) = taken {
                task.refuse(self.lock_failed(error));
                continue;
            }
            let given_back = writer.run(task, deadline.saturating_duration_since(Instant::now()));
            self.release(&writer);
            drop(writer);
            if let Some(task) = given_back {
                task.refuse(self.busy());
            }
        }
    }

    fn release(&self, writer: &Writer) {
        // Unlocking an open file cannot fail. If it did, closing the file would unlock it.
        let _failed = writer.write_lock.release();
    }

    fn busy(&self) -> Fault {
        let Setup { path, locks, timeout, .. } = &*self.setup;
        let message =
            format!("{} kept {} locked for {timeout:?}", locks.writers(path), path.display());
        Fault::new(FaultKind::Busy, message)
    }

    fn lock_failed(&self, error: std::io::Error) -> Fault {
        let message = format!("the lock files beside {} cannot be used", self.setup.path.display());
        Fault::new(FaultKind::Other, message).because(error)
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BatchEngine for WriteQueue {
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
        self.submit(WriteTask::Commits(batch));
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
            std::task::Poll::Pending => panic!("the call waits"),
        }
    }

    fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !is_so() {
            assert!(Instant::now() < deadline, "{what}");
            thread::yield_now();
        }
    }

    /// A store whose thread holds a commit and waits for a tool to unlock the database.
    fn in_flight(folder: &Path) -> (FileStore, Connection) {
        let store = open(folder);
        at_once(store.commit(create("first"))).unwrap();
        let tool = Connection::open(store.path()).unwrap();
        tool.execute_batch("BEGIN IMMEDIATE").unwrap();
        let mut commit = Box::pin(store.commit(create("second")));
        assert!(commit.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let queue = Arc::clone(store.inner.batcher.engine());
        wait_until("the thread takes no task", || {
            let state = queue.state();
            state.has_thread && state.waiting.is_empty()
        });
        drop(commit);
        (store, tool)
    }

    fn is_used(folder: &Path) -> bool {
        let users = Locks::new(folder.join("locks")).file("users").unwrap();
        !try_lock(&users).unwrap()
    }

    #[test]
    fn only_one_check_of_sessions_is_queued() {
        let folder = TempDir::new().unwrap();
        let (store, tool) = in_flight(folder.path());
        let queue = Arc::clone(store.inner.batcher.engine());
        let looks = || {
            let state = queue.state();
            state.waiting.iter().filter(|one| matches!(one.task, WriteTask::EndSessions)).count()
        };
        for _ in 0..50 {
            queue.submit(WriteTask::EndSessions);
        }
        assert_eq!(looks(), 1);
        // A caller waits behind one of them, not behind fifty.
        let mut session = Box::pin(store.open_session(Duration::from_secs(60)));
        assert!(session.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(queue.state().waiting.len(), 2);
        tool.execute_batch("ROLLBACK").unwrap();
        wait_until("the queue is never empty", || {
            session.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
        });
        // It is no longer queued, so the next one can be.
        tool.execute_batch("BEGIN IMMEDIATE").unwrap();
        let mut other = Box::pin(store.open_session(Duration::from_secs(60)));
        assert!(other.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        wait_until("the thread takes no task", || queue.state().waiting.is_empty());
        queue.submit(WriteTask::EndSessions);
        assert_eq!(looks(), 1);
        tool.execute_batch("ROLLBACK").unwrap();
    }

    #[test]
    fn closing_waits_for_a_write_in_progress() {
        for _ in 0..5 {
            let folder = TempDir::new().unwrap();
            let (store, tool) = in_flight(folder.path());
            let closing = thread::spawn(move || drop(store));
            tool.execute_batch("ROLLBACK").unwrap();
            closing.join().unwrap();
            wait_until("the thread never ends", || !is_used(folder.path()));
            let store = open(folder.path());
            let found = at_once(store.load(&[Key::from("second")])).unwrap();
            let second = found.values[0].as_ref().expect("the write was in progress").revision;
            let third = at_once(store.commit(create("third"))).unwrap();
            assert!(third > second, "revision {second} was given out twice");
        }
    }

    #[test]
    fn a_thread_that_still_writes_stays_a_user() {
        let folder = TempDir::new().unwrap();
        let (store, tool) = in_flight(folder.path());
        drop(store);
        assert!(is_used(folder.path()));
        // Another process opens the store meanwhile, and is not the first.
        let other = open(folder.path());
        tool.execute_batch("ROLLBACK").unwrap();
        let second = [Key::from("second")];
        wait_until("the commit is never written", || {
            at_once(other.load(&second)).unwrap().values[0].is_some()
        });
        let written = at_once(other.load(&second)).unwrap().revision;
        drop(other);
        wait_until("the thread never ends", || !is_used(folder.path()));
        let again = open(folder.path());
        assert!(at_once(again.commit(create("third"))).unwrap() > written);
    }

    #[test]
    fn a_thread_that_still_writes_closes_the_store_at_its_end() {
        let folder = TempDir::new().unwrap();
        let (store, tool) = in_flight(folder.path());
        let queue = Arc::clone(store.inner.batcher.engine());
        drop(store);
        tool.execute_batch("ROLLBACK").unwrap();
        wait_until("the thread never ends", || Arc::strong_count(&queue) == 1);
        let closed = tool.query_row("SELECT closed FROM store", [], |row| row.get(0));
        assert_eq!(closed, Ok(true));
        assert!(!is_used(folder.path()));
    }
}
