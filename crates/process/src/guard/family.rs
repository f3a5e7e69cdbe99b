//! The guards of this process, and the thread that kills what lost guards leave.
//!
//! Becoming the parent of orphans is a property of the whole process. So is the set of guards: a
//! part of the program that kills orphans must spare the guards of all other parts.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};

use rustix::process::{getpid, set_child_subreaper};
use tokio::sync::watch;

use super::descendants::{Identity, current_descendants, kill_descendants};

/// The guards of this process.
pub(super) static FAMILY: Family =
    Family { spared: Mutex::new(BTreeSet::new()), reaper: OnceLock::new() };

pub(super) struct Family {
    /// Guards, and processes that are not of a program. Locked while a guard is started.
    spared: Mutex<BTreeSet<Identity>>,
    /// Present if orphans of killed guards become children of this process.
    reaper: OnceLock<Reaper>,
}

impl Family {
    pub(super) fn spared(&self) -> MutexGuard<'_, BTreeSet<Identity>> {
        self.spared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes this process the parent of orphans, at the first call.
    pub(super) fn adopt_orphans(&'static self) -> io::Result<()> {
        let mut spared = self.spared();
        if self.reaper.get().is_some() {
            return Ok(());
        }
        set_child_subreaper(Some(getpid()))?;
        // Not the programs below guards that run already.
        let others = current_descendants(&spared);
        let reaper = Reaper::start(|| kill_descendants(|| self.spared().clone()))?;
        spared.extend(others);
        // The lock is held, so no other call has set it.
        let _set = self.reaper.set(reaper);
        Ok(())
    }

    /// Forgets a guard, and requests the end of its orphans if they are adopted.
    pub(super) fn lose(&self, guard: &Identity) {
        self.spared().remove(guard);
        if let Some(reaper) = self.reaper.get() {
            reaper.request();
        }
    }

    /// Waits until the orphans of all lost guards have ended, or cannot be killed in time.
    pub(super) async fn swept(&self) {
        if let Some(reaper) = self.reaper.get() {
            reaper.done().await;
        }
    }
}

/// A thread that sweeps on request.
struct Reaper {
    counts: Arc<Counts>,
    thread: Thread,
}

/// Requests so far, and how many of them a sweep has answered.
struct Counts {
    requested: AtomicU64,
    done: watch::Sender<u64>,
}

impl Reaper {
    /// Starts the thread. It lives as long as the process.
    fn start(mut sweep: impl FnMut() + Send + 'static) -> io::Result<Self> {
        let counts = Arc::new(Counts { requested: AtomicU64::new(0), done: watch::Sender::new(0) });
        let own = Arc::clone(&counts);
        let work = move || {
            loop {
                let requested = own.requested.load(Ordering::SeqCst);
                if requested == *own.done.borrow() {
                    thread::park();
                } else {
                    sweep();
                    own.done.send_replace(requested);
                }
            }
        };
        let thread = thread::Builder::new().name("sw-reaper".to_owned()).spawn(work)?;
        Ok(Self { counts, thread: thread.thread().clone() })
    }

    /// Requests a sweep that begins after this call.
    fn request(&self) {
        self.counts.requested.fetch_add(1, Ordering::SeqCst);
        self.thread.unpark();
    }

    /// Waits until all requests so far are answered.
    async fn done(&self) {
        let requested = self.counts.requested.load(Ordering::SeqCst);
        let mut done = self.counts.done.subscribe();
        // The sender is never dropped.
        let _done = done.wait_for(|done| *done >= requested).await;
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::mpsc;

    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn requests_do_not_wait_for_a_sweep_and_each_is_followed_by_one() {
        let (begin, begun) = mpsc::channel();
        let (release, released) = mpsc::channel();
        let reaper = Reaper::start(move || {
            begin.send(()).unwrap();
            released.recv().unwrap();
        });
        let reaper = reaper.unwrap();
        assert!(reaper.done().now_or_never().is_some(), "nothing is requested");
        reaper.request();
        begun.recv().unwrap();
        // A sweep runs, and may have overlooked what these requests are for.
        reaper.request();
        reaper.request();
        let mut done = pin!(reaper.done());
        assert!(done.as_mut().now_or_never().is_none());
        release.send(()).unwrap();
        begun.recv().unwrap();
        assert!(done.as_mut().now_or_never().is_none());
        release.send(()).unwrap();
        done.await;
    }
}
