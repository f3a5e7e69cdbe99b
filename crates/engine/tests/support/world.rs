//! A simulated environment on one thread. The test moves its clock and runs its tasks, in the order
//! of their wake-ups.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use shardwright_contracts::{BoxFuture, Env, LogicalTime};

use super::ManualClock;

/// Shorter pauses only yield: back-offs, and pauses before a watch is opened again. The clock does
/// not move for them.
const SHORT: Duration = Duration::from_secs(1);
/// Timeout for stores with threads of their own.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Clock, tasks and randomness of one test.
#[derive(Clone)]
pub(crate) struct World {
    inner: Arc<Inner>,
}

struct Inner {
    clock: ManualClock,
    /// Offset of the wall clock.
    wall_clock_offset_ms: AtomicI64,
    tasks: Mutex<Vec<Task>>,
    sleepers: Mutex<Vec<Waker>>,
    rng: Mutex<fastrand::Rng>,
}

struct Task {
    future: Pin<Box<dyn Future<Output = ()> + Send>>,
    woken: Arc<WakeUp>,
}

/// Records a wake-up, and unparks the thread.
struct WakeUp {
    is_pending: AtomicBool,
    thread: Thread,
}

impl WakeUp {
    fn new() -> Arc<Self> {
        Arc::new(Self { is_pending: AtomicBool::new(true), thread: std::thread::current() })
    }

    fn take(&self) -> bool {
        self.is_pending.swap(false, Ordering::SeqCst)
    }
}

impl Wake for WakeUp {
    fn wake(self: Arc<Self>) {
        self.is_pending.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let inner = Inner {
            clock: ManualClock::default(),
            wall_clock_offset_ms: AtomicI64::new(0),
            tasks: Mutex::default(),
            sleepers: Mutex::default(),
            rng: Mutex::new(fastrand::Rng::with_seed(seed)),
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

    /// Sets the wall clock, but not the monotonic clock.
    pub(crate) fn set_wall_clock_offset(&self, millis: i64) {
        self.inner.wall_clock_offset_ms.store(millis, Ordering::Relaxed);
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

    /// Runs a future to completion, and tasks only while it waits.
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let wake_up = WakeUp::new();
        let waker = Waker::from(Arc::clone(&wake_up));
        let mut future = pin!(future);
        let mut idle_since: Option<Instant> = None;
        loop {
            if wake_up.take()
                && let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker))
            {
                return result;
            }
            if self.run_woken() || wake_up.is_pending.load(Ordering::SeqCst) {
                idle_since = None;
                continue;
            }
            // The thread may be unparked without progress, so the timeout counts the time without
            // progress.
            let idle = idle_since.get_or_insert_with(Instant::now).elapsed();
            assert!(idle < TIMEOUT, "no task can make progress");
            std::thread::park_timeout(TIMEOUT - idle);
        }
    }

    /// Runs a future until it ends or makes no progress. Then drops it, like a crash.
    pub(crate) fn run_or_drop<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        self.run_until_stuck(future.as_mut())
    }

    /// Runs a future until it ends or makes no progress.
    pub(crate) fn run_until_stuck<T>(
        &self,
        mut future: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        let wake_up = WakeUp::new();
        let waker = Waker::from(Arc::clone(&wake_up));
        loop {
            if wake_up.take()
                && let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker))
            {
                return Some(result);
            }
            if !self.run_woken() && !wake_up.is_pending.load(Ordering::SeqCst) {
                return None;
            }
        }
    }
}

/// Polls two futures to completion, in an order that the seed decides.
pub(crate) async fn race<A, B>(
    seed: u64,
    one: impl Future<Output = A>,
    other: impl Future<Output = B>,
) -> (A, B) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let (mut a, mut b) = (None, None);
    let mut rng = fastrand::Rng::with_seed(seed);
    std::future::poll_fn(move |context| {
        if a.is_none() && (b.is_some() || rng.bool()) {
            if let Poll::Ready(done) = one.as_mut().poll(context) {
                a = Some(done);
            }
        } else if b.is_none()
            && let Poll::Ready(done) = other.as_mut().poll(context)
        {
            b = Some(done);
        }
        match (a.take(), b.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            (left, right) => {
                (a, b) = (left, right);
                context.waker().wake_by_ref();
                Poll::Pending
            }
        }
    })
    .await
}

impl Env for World {
    fn wall_clock(&self) -> LogicalTime {
        let off_ms = self.inner.wall_clock_offset_ms.load(Ordering::Relaxed);
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
        let task = Task { future: task, woken: WakeUp::new() };
        self.inner.tasks.lock().unwrap().push(task);
    }

    fn random(&self) -> u64 {
        self.inner.rng.lock().unwrap().u64(..)
    }
}
