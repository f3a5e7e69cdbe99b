//! A value with change notifications.
//!
//! It works like `tokio::sync::watch`, except that receivers wake up in the order in which they
//! began to wait. tokio's order is random, so a simulation would not be reproducible from its seed.

use std::fmt;
use std::ops::Deref;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use tokio::sync::Notify;

struct Shared<T> {
    now: RwLock<Versioned<T>>,
    senders: AtomicUsize,
    changed: Notify,
}

struct Versioned<T> {
    value: T,
    version: u64,
}

/// Changes the value. Clones change the same value.
pub struct Sender<T>(Arc<Shared<T>>);

/// Reads the value. Each receiver tracks the version that it has seen.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    seen: u64,
}

/// The current value, locked against changes.
pub struct Ref<'a, T>(RwLockReadGuard<'a, Versioned<T>>);

/// All senders are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("all senders of the value are dropped")]
pub struct Closed;

/// Returns a sender and a receiver that has seen the initial value.
pub fn channel<T>(value: T) -> (Sender<T>, Receiver<T>) {
    let sender = Sender::new(value);
    let receiver = sender.subscribe();
    (sender, receiver)
}

impl<T> Shared<T> {
    fn look(&self) -> RwLockReadGuard<'_, Versioned<T>> {
        // The value is consistent after every statement, unless a change panicked halfway.
        self.now.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Sender<T> {
    /// Creates a value without receivers.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self(Arc::new(Shared {
            now: RwLock::new(Versioned { value, version: 0 }),
            senders: AtomicUsize::new(1),
            changed: Notify::new(),
        }))
    }

    /// Creates a receiver that has seen the current value.
    #[must_use]
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver { shared: Arc::clone(&self.0), seen: self.0.look().version }
    }

    /// The value as it is now.
    #[must_use]
    pub fn borrow(&self) -> Ref<'_, T> {
        Ref(self.0.look())
    }

    /// Changes the value, and wakes the receivers if `change` returns true.
    pub fn send_if_modified(&self, change: impl FnOnce(&mut T) -> bool) -> bool {
        {
            let mut now = self.0.now.write().unwrap_or_else(PoisonError::into_inner);
            if !change(&mut now.value) {
                return false;
            }
            now.version += 1;
        }
        self.0.changed.notify_waiters();
        true
    }

    /// Changes the value, and wakes the receivers.
    pub fn send_modify(&self, change: impl FnOnce(&mut T)) {
        self.send_if_modified(|value| {
            change(value);
            true
        });
    }

    /// Replaces the value, wakes the receivers, and returns the previous value.
    pub fn send_replace(&self, mut value: T) -> T {
        self.send_modify(|now| std::mem::swap(now, &mut value));
        value
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.senders.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.0.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.changed.notify_waiters();
        }
    }
}

impl<T> Receiver<T> {
    /// The value as it is now.
    #[must_use]
    pub fn borrow(&self) -> Ref<'_, T> {
        Ref(self.shared.look())
    }

    /// The current value, which counts as seen.
    pub fn borrow_and_update(&mut self) -> Ref<'_, T> {
        let now = self.shared.look();
        self.seen = now.version;
        Ref(now)
    }

    /// Whether the value has changed since it was seen.
    pub fn has_changed(&self) -> Result<bool, Closed> {
        if self.is_closed() {
            return Err(Closed);
        }
        Ok(self.shared.look().version != self.seen)
    }

    /// Waits until the value has changed since it was seen. It counts as seen then.
    pub async fn changed(&mut self) -> Result<(), Closed> {
        let Self { shared, seen } = self;
        loop {
            // Changes from here on wake this receiver.
            let mut changed = pin!(shared.changed.notified());
            changed.as_mut().enable();
            let is_closed = shared.senders.load(Ordering::Acquire) == 0;
            let version = shared.look().version;
            if version != *seen {
                *seen = version;
                return Ok(());
            }
            if is_closed {
                return Err(Closed);
            }
            changed.await;
        }
    }

    /// Waits until the value satisfies `is_wanted`. It may do so at once.
    pub async fn wait_for(
        &mut self,
        mut is_wanted: impl FnMut(&T) -> bool,
    ) -> Result<Ref<'_, T>, Closed> {
        while !is_wanted(&self.borrow_and_update()) {
            self.changed().await?;
        }
        Ok(self.borrow())
    }

    fn is_closed(&self) -> bool {
        self.shared.senders.load(Ordering::Acquire) == 0
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), seen: self.seen }
    }
}

impl<T> Deref for Ref<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T: fmt::Debug> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sender").field(&*self.borrow()).finish()
    }
}

impl<T: fmt::Debug> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Receiver").field(&*self.borrow()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::sync::Mutex;
    use std::task::{Context, Poll, Wake, Waker};

    use super::*;

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn receiver_wakes_up_for_changes_and_for_the_end() {
        let (sender, mut receiver) = channel(1);
        assert_eq!(receiver.has_changed(), Ok(false));
        assert_eq!(sender.send_replace(2), 1);
        assert_eq!(receiver.has_changed(), Ok(true));
        assert_eq!(poll(pin!(receiver.changed())), Poll::Ready(Ok(())));
        {
            let mut waiting = pin!(receiver.changed());
            assert_eq!(poll(waiting.as_mut()), Poll::Pending);
            assert!(!sender.send_if_modified(|_| false));
            assert_eq!(poll(waiting.as_mut()), Poll::Pending);
            sender.clone().send_modify(|value| *value += 1);
            assert_eq!(poll(waiting.as_mut()), Poll::Ready(Ok(())));
        }
        assert_eq!(*receiver.borrow_and_update(), 3);
        let mut waiting = pin!(receiver.changed());
        assert_eq!(poll(waiting.as_mut()), Poll::Pending);
        drop(sender);
        assert_eq!(poll(waiting.as_mut()), Poll::Ready(Err(Closed)));
    }

    #[test]
    fn last_change_is_seen_before_the_end() {
        let (sender, mut receiver) = channel(1);
        sender.send_replace(2);
        drop(sender);
        assert_eq!(poll(pin!(receiver.changed())), Poll::Ready(Ok(())));
        assert_eq!(poll(pin!(receiver.changed())), Poll::Ready(Err(Closed)));
        assert_eq!(receiver.has_changed(), Err(Closed));
    }

    #[test]
    fn wait_for_accepts_the_current_value() {
        let (sender, mut receiver) = channel(1);
        {
            let mut waiting = pin!(receiver.wait_for(|value| *value == 3));
            assert!(poll(waiting.as_mut()).is_pending());
            sender.send_replace(2);
            assert!(poll(waiting.as_mut()).is_pending());
            sender.send_replace(3);
            assert!(matches!(poll(waiting.as_mut()), Poll::Ready(Ok(value)) if *value == 3));
        }
        drop(sender);
        assert!(matches!(poll(pin!(receiver.wait_for(|it| *it == 3))), Poll::Ready(Ok(_))));
        assert!(matches!(poll(pin!(receiver.wait_for(|it| *it == 4))), Poll::Ready(Err(Closed))));
    }

    struct Recorder(usize, Arc<Mutex<Vec<usize>>>);

    impl Wake for Recorder {
        fn wake(self: Arc<Self>) {
            self.1.lock().unwrap().push(self.0);
        }
    }

    #[test]
    fn receivers_wake_up_in_the_order_of_waiting() {
        let (sender, receiver) = channel(0);
        let woken = Arc::new(Mutex::new(Vec::new()));
        let mut receivers: Vec<_> = (0..40).map(|_| receiver.clone()).collect();
        let mut waiting: Vec<_> = receivers.iter_mut().map(|one| Box::pin(one.changed())).collect();
        for (name, waits) in waiting.iter_mut().enumerate() {
            let waker = Waker::from(Arc::new(Recorder(name, Arc::clone(&woken))));
            assert!(waits.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        sender.send_replace(1);
        assert_eq!(*woken.lock().unwrap(), (0..40).collect::<Vec<_>>());
    }
}
