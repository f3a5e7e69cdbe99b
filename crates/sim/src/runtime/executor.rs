//! One thread, a virtual clock, and tasks that run in an order drawn from the seed.

use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};

use crate::rng::Rng;

/// The id of a task.
pub(crate) type TaskId = u64;

type BoxedTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The owner of a task. A task ends with its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskOwner {
    /// A process, by its number.
    Process(usize),
    /// Messages in flight between processes and the store.
    Network,
}

/// The tasks' handle of the clock and the executor.
#[derive(Clone)]
pub(crate) struct Clockwork {
    shared: Arc<Shared>,
}

struct Shared {
    now_us: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next_task: TaskId,
    next_timer: u64,
    /// Runnable tasks, in the order in which they were woken.
    ready: Vec<TaskId>,
    spawned: Vec<(TaskId, TaskOwner, BoxedTask)>,
    timers: BTreeMap<(u64, u64), Waker>,
    current: Option<TaskId>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent after every statement.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clockwork {
    pub(crate) fn new(now_us: u64) -> Self {
        let shared = Shared { now_us: AtomicU64::new(now_us), state: Mutex::default() };
        Self { shared: Arc::new(shared) }
    }

    pub(crate) fn now_us(&self) -> u64 {
        self.shared.now_us.load(Ordering::Relaxed)
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.now_us() / 1_000
    }

    /// The running task.
    pub(crate) fn current(&self) -> Option<TaskId> {
        self.shared.lock().current
    }

    pub(crate) fn spawn(
        &self,
        home: TaskOwner,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> TaskId {
        let mut state = self.shared.lock();
        state.next_task += 1;
        let id = state.next_task;
        state.spawned.push((id, home, Box::pin(task)));
        id
    }

    pub(crate) async fn sleep_us(&self, duration_us: u64) {
        let until = self.now_us().saturating_add(duration_us);
        let mut timer = Timer { shared: Arc::clone(&self.shared), key: None };
        poll_fn(|context| timer.poll(until, context)).await;
    }

    /// The output of a future, or none if it takes longer than the limit.
    pub(crate) async fn within<T>(
        &self,
        limit_us: u64,
        future: impl Future<Output = T>,
    ) -> Option<T> {
        let mut future = pin!(future);
        let mut limit = pin!(self.sleep_us(limit_us));
        poll_fn(|context| {
            if let Poll::Ready(value) = future.as_mut().poll(context) {
                return Poll::Ready(Some(value));
            }
            limit.as_mut().poll(context).map(|()| None)
        })
        .await
    }
}

/// A wait until a time.
struct Timer {
    shared: Arc<Shared>,
    key: Option<(u64, u64)>,
}

impl Timer {
    fn poll(&mut self, until: u64, context: &Context<'_>) -> Poll<()> {
        let now = self.shared.now_us.load(Ordering::Relaxed);
        let mut state = self.shared.lock();
        if let Some(key) = self.key.take() {
            state.timers.remove(&key);
        }
        if now >= until {
            return Poll::Ready(());
        }
        state.next_timer += 1;
        let key = (until, state.next_timer);
        state.timers.insert(key, context.waker().clone());
        self.key = Some(key);
        Poll::Pending
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            // The waker is dropped after the lock, because it may be the last of its task.
            let _waker = self.shared.lock().timers.remove(&key);
        }
    }
}

struct Wakeup {
    id: TaskId,
    shared: Weak<Shared>,
    queued: AtomicBool,
}

impl Wake for Wakeup {
    fn wake(self: Arc<Self>) {
        if let Some(shared) = self.shared.upgrade()
            && !self.queued.swap(true, Ordering::Relaxed)
        {
            shared.lock().ready.push(self.id);
        }
    }
}

struct Task {
    home: TaskOwner,
    future: BoxedTask,
    wakeup: Arc<Wakeup>,
}

/// Runs tasks.
pub(crate) struct Executor {
    clockwork: Clockwork,
    tasks: BTreeMap<TaskId, Task>,
    /// Paused processes.
    paused: BTreeSet<usize>,
}

impl Executor {
    pub(crate) fn new(clockwork: Clockwork) -> Self {
        Self { clockwork, tasks: BTreeMap::new(), paused: BTreeSet::new() }
    }

    fn adopt_spawned(&mut self) {
        let spawned = std::mem::take(&mut self.clockwork.shared.lock().spawned);
        for (id, home, future) in spawned {
            let shared = Arc::downgrade(&self.clockwork.shared);
            let wakeup = Arc::new(Wakeup { id, shared, queued: AtomicBool::new(false) });
            Arc::clone(&wakeup).wake();
            self.tasks.insert(id, Task { home, future, wakeup });
        }
    }

    /// Runs one random runnable task. Returns false if there is none.
    pub(crate) fn run_one(&mut self, rng: &mut Rng) -> bool {
        self.adopt_spawned();
        let Some(id) = self.pick(rng) else { return false };
        let Some(task) = self.tasks.get_mut(&id) else { return true };
        task.wakeup.queued.store(false, Ordering::Relaxed);
        self.clockwork.shared.lock().current = Some(id);
        let waker = Waker::from(Arc::clone(&task.wakeup));
        let polled = task.future.as_mut().poll(&mut Context::from_waker(&waker));
        self.clockwork.shared.lock().current = None;
        if polled.is_ready() {
            drop(self.tasks.remove(&id));
        }
        true
    }

    fn pick(&self, rng: &mut Rng) -> Option<TaskId> {
        let is_paused = |id: &TaskId| {
            let home = self.tasks.get(id).map(|task| task.home);
            matches!(home, Some(TaskOwner::Process(index)) if self.paused.contains(&index))
        };
        let mut state = self.clockwork.shared.lock();
        let able: Vec<usize> = (0..state.ready.len())
            .filter(|place| state.ready.get(*place).is_some_and(|id| !is_paused(id)))
            .collect();
        let place = *rng.pick(&able)?;
        Some(state.ready.remove(place))
    }

    /// Advances to the first of some moments or of the timers, if that is later than now.
    pub(crate) fn advance_to_first(&mut self, moments: impl IntoIterator<Item = Option<u64>>) {
        let moments = moments.into_iter().chain([self.next_timer_us()]).flatten();
        let now_us = self.clockwork.now_us();
        self.advance_to(moments.min().unwrap_or(now_us).max(now_us));
    }

    /// When the next timer fires.
    fn next_timer_us(&self) -> Option<u64> {
        self.clockwork.shared.lock().timers.keys().next().map(|(at, _)| *at)
    }

    /// Advances the clock, and wakes the tasks whose timers are due.
    pub(crate) fn advance_to(&mut self, now_us: u64) {
        self.clockwork.shared.now_us.fetch_max(now_us, Ordering::Relaxed);
        loop {
            let waker = {
                let mut state = self.clockwork.shared.lock();
                let due = state.timers.first_entry().filter(|first| first.key().0 <= now_us);
                due.map(|due| due.remove())
            };
            match waker {
                Some(waker) => waker.wake(),
                None => return,
            }
        }
    }

    pub(crate) fn pause(&mut self, process: usize, is_paused: bool) {
        if is_paused {
            self.paused.insert(process);
        } else {
            self.paused.remove(&process);
        }
    }

    /// Drops all tasks of a process.
    pub(crate) fn kill(&mut self, process: usize) {
        self.adopt_spawned();
        let is_its = |task: &Task| task.home == TaskOwner::Process(process);
        let ended: Vec<TaskId> =
            self.tasks.iter().filter(|(_, task)| is_its(task)).map(|(id, _)| *id).collect();
        for id in ended {
            drop(self.tasks.remove(&id));
        }
        self.paused.remove(&process);
    }

    /// Drops one task.
    pub(crate) fn end(&mut self, id: TaskId) {
        self.adopt_spawned();
        drop(self.tasks.remove(&id));
    }
}

/// The scheduled acts of a director, in order of time.
pub(crate) struct Agenda<T> {
    entries: BTreeMap<(u64, u64), T>,
    next: u64,
}

impl<T> Default for Agenda<T> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), next: 0 }
    }
}

impl<T> Agenda<T> {
    pub(crate) fn schedule(&mut self, at_us: u64, what: T) {
        self.next += 1;
        self.entries.insert((at_us, self.next), what);
    }

    /// When the next entry is due.
    pub(crate) fn next_us(&self) -> Option<u64> {
        self.entries.keys().next().map(|(at_us, _)| *at_us)
    }

    /// Takes the next entry, if it is due.
    pub(crate) fn take_due(&mut self, now_us: u64) -> Option<T> {
        let due = self.entries.first_entry().filter(|first| first.key().0 <= now_us);
        due.map(|due| due.remove())
    }

    /// Takes all entries, due or not.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = T> + use<T> {
        std::mem::take(&mut self.entries).into_values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(executor: &mut Executor, rng: &mut Rng) {
        loop {
            if executor.run_one(rng) {
                continue;
            }
            match executor.next_timer_us() {
                Some(at) => executor.advance_to(at),
                None => return,
            }
        }
    }

    fn story(seed: u64) -> Vec<(u64, u64)> {
        let clockwork = Clockwork::new(0);
        let mut executor = Executor::new(clockwork.clone());
        let seen = Arc::new(Mutex::new(Vec::new()));
        for name in 0..5_u64 {
            let (seen, clock) = (Arc::clone(&seen), clockwork.clone());
            clockwork.spawn(TaskOwner::Network, async move {
                for round in 0..3 {
                    clock.sleep_us(10 * round).await;
                    seen.lock().unwrap().push((clock.now_us(), name));
                }
            });
        }
        run(&mut executor, &mut Rng::new(seed));
        Arc::into_inner(seen).unwrap().into_inner().unwrap()
    }

    #[test]
    fn seed_determines_the_order_of_tasks() {
        assert_eq!(story(1), story(1));
        assert_ne!(story(1), story(2));
        assert!(story(3).array_windows().all(|[one, other]| one.0 <= other.0));
    }

    #[test]
    fn killed_process_stops_and_paused_process_resumes() {
        let clockwork = Clockwork::new(0);
        let mut executor = Executor::new(clockwork.clone());
        let seen = Arc::new(Mutex::new(Vec::new()));
        for process in 0..3 {
            let (seen, clock) = (Arc::clone(&seen), clockwork.clone());
            clockwork.spawn(TaskOwner::Process(process), async move {
                clock.sleep_us(10).await;
                seen.lock().unwrap().push((process, clock.now_us()));
            });
        }
        let mut rng = Rng::new(1);
        executor.pause(1, true);
        while executor.run_one(&mut rng) {}
        executor.kill(0);
        executor.advance_to(50);
        while executor.run_one(&mut rng) {}
        executor.pause(1, false);
        executor.advance_to(60);
        run(&mut executor, &mut rng);
        assert_eq!(*seen.lock().unwrap(), [(2, 50), (1, 70)]);
    }

    #[test]
    fn future_beyond_its_limit_is_abandoned() {
        let clockwork = Clockwork::new(0);
        let mut executor = Executor::new(clockwork.clone());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (out, clock) = (Arc::clone(&seen), clockwork.clone());
        clockwork.spawn(TaskOwner::Network, async move {
            let quick = clock.within(10, clock.sleep_us(5)).await;
            let slow = clock.within(10, clock.sleep_us(50)).await;
            out.lock().unwrap().push((quick, slow, clock.now_us()));
        });
        run(&mut executor, &mut Rng::new(1));
        assert_eq!(*seen.lock().unwrap(), [(Some(()), None, 15)]);
    }
}
