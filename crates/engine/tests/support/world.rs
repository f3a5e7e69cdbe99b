//! A world on one thread: its clock stands still until the test moves it, and its tasks run when
//! the test lets them, in the order in which they were woken.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use shardwright_contracts::{BoxFuture, Env, LogicalTime};

use super::ManualClock;

/// Whoever waits for less than this only lets others go first: back-offs, and pauses before a
/// watch is set up again. The clock does not move for them.
const SHORT: Duration = Duration::from_secs(1);
/// How long a store with threads of its own may take before the test gives up.
const PATIENCE: Duration = Duration::from_secs(30);

/// Time, tasks and chance of one test.
#[derive(Clone)]
pub(crate) struct World {
    inner: Arc<Inner>,
}

struct Inner {
    clock: ManualClock,
    /// How far the calendar is off.
    calendar_off_ms: AtomicI64,
    tasks: Mutex<Vec<Task>>,
    sleepers: Mutex<Vec<Waker>>,
    chance: Mutex<fastrand::Rng>,
}

struct Task {
    future: Pin<Box<dyn Future<Output = ()> + Send>>,
    woken: Arc<Alarm>,
}

/// Remembers that somebody rang, and wakes the thread that may be asleep.
struct Alarm {
    rung: AtomicBool,
    thread: Thread,
}

impl Alarm {
    fn new() -> Arc<Self> {
        Arc::new(Self { rung: AtomicBool::new(true), thread: std::thread::current() })
    }

    fn take(&self) -> bool {
        self.rung.swap(false, Ordering::SeqCst)
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.rung.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let inner = Inner {
            clock: ManualClock::default(),
            calendar_off_ms: AtomicI64::new(0),
            tasks: Mutex::default(),
            sleepers: Mutex::default(),
            chance: Mutex::new(fastrand::Rng::with_seed(seed)),
        };
        Self { inner: Arc::new(inner) }
    }

    pub(crate) fn clock(&self) -> &ManualClock {
        &self.inner.clock
    }

    pub(crate) fn now(&self) -> LogicalTime {
        LogicalTime::from_millis(self.inner.clock.millis())
    }

    pub(crate) fn advance(&self, millis: u64) {
        self.inner.clock.advance(millis);
        for sleeper in std::mem::take(&mut *self.inner.sleepers.lock().unwrap()) {
            sleeper.wake();
        }
    }

    /// Sets the calendar, and leaves alone the clock that does not jump.
    pub(crate) fn set_calendar_off(&self, millis: i64) {
        self.inner.calendar_off_ms.store(millis, Ordering::Relaxed);
    }

    /// Runs tasks until all of them wait for something.
    pub(crate) fn run_tasks(&self) {
        while self.run_woken() {}
    }

    fn run_woken(&self) -> bool {
        let mut progress = false;
        // A task may spawn others, so none is polled while the list is locked.
        let mut tasks = std::mem::take(&mut *self.inner.tasks.lock().unwrap());
        tasks.retain_mut(|task| {
            if !task.woken.take() {
                return true;
            }
            progress = true;
            let waker = Waker::from(Arc::clone(&task.woken));
            task.future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending()
        });
        let mut spawned = self.inner.tasks.lock().unwrap();
        tasks.append(&mut spawned);
        *spawned = tasks;
        progress
    }

    /// Runs a future to its end, and tasks only while it waits.
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let alarm = Alarm::new();
        let waker = Waker::from(Arc::clone(&alarm));
        let mut future = pin!(future);
        let mut idle_since: Option<Instant> = None;
        loop {
            if alarm.take()
                && let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker))
            {
                return result;
            }
            if self.run_woken() || alarm.rung.load(Ordering::SeqCst) {
                idle_since = None;
                continue;
            }
            // The thread may be woken for what is long done, so what counts is how long nothing
            // has happened.
            let idle = idle_since.get_or_insert_with(Instant::now).elapsed();
            assert!(idle < PATIENCE, "everybody waits, and nothing can happen any more");
            std::thread::park_timeout(PATIENCE - idle);
        }
    }

    /// Runs a future until it ends or nothing can happen any more; then it is dropped, like one
    /// whose process dies.
    pub(crate) fn run_or_drop<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        self.run_until_stuck(future.as_mut())
    }

    /// Runs a future until it ends or nothing can happen any more.
    pub(crate) fn run_until_stuck<T>(
        &self,
        mut future: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        let alarm = Alarm::new();
        let waker = Waker::from(Arc::clone(&alarm));
        loop {
            if alarm.take()
                && let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker))
            {
                return Some(result);
            }
            if !self.run_woken() && !alarm.rung.load(Ordering::SeqCst) {
                return None;
            }
        }
    }
}

impl Env for World {
    fn wall_clock(&self) -> LogicalTime {
        let off_ms = self.inner.calendar_off_ms.load(Ordering::Relaxed);
        LogicalTime::from_millis(self.inner.clock.millis().saturating_add_signed(off_ms))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.inner.clock.millis())
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let world = self.clone();
        Box::pin(async move {
            let mut rounds = 0;
            let until = world.monotonic().saturating_add(duration);
            std::future::poll_fn(|context| {
                rounds += 1;
                if world.monotonic() >= until || (duration < SHORT && rounds > 1) {
                    return Poll::Ready(());
                }
                if duration < SHORT {
                    context.waker().wake_by_ref();
                } else {
                    world.inner.sleepers.lock().unwrap().push(context.waker().clone());
                }
                Poll::Pending
            })
            .await;
        })
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        let task = Task { future: task, woken: Alarm::new() };
        self.inner.tasks.lock().unwrap().push(task);
    }

    fn random(&self) -> u64 {
        self.inner.chance.lock().unwrap().u64(..)
    }
}
