//! A value that changes, and those who wait for it to.
//!
//! It is what `tokio::sync::watch` is, with one difference: whoever waits is woken in the order in
//! which the waiting began. There the order is random, to spare many threads a lock, and so a
//! simulated run with the same seed would not be the same run.

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

/// Whoever changes the value. Clones change the same one.
pub struct Sender<T>(Arc<Shared<T>>);

/// Whoever looks at the value. Each remembers by itself what it has seen.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    seen: u64,
}

/// The value of this moment. It cannot change while this is kept.
pub struct Ref<'a, T>(RwLockReadGuard<'a, Versioned<T>>);

/// Nobody is left who could change the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nobody is left who could change the value")]
pub struct Closed;

/// A value, whoever changes it, and somebody who has seen it.
pub fn channel<T>(value: T) -> (Sender<T>, Receiver<T>) {
    let sender = Sender::new(value);
    let receiver = sender.subscribe();
    (sender, receiver)
}

impl<T> Shared<T> {
    fn look(&self) -> RwLockReadGuard<'_, Versioned<T>> {
        // What is inside is whole after every statement, unless whoever changed it panicked in the
        // middle; then it is whatever was left.
        self.now.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Sender<T> {
    /// A value that nobody looks at yet.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self(Arc::new(Shared {
            now: RwLock::new(Versioned { value, version: 0 }),
            senders: AtomicUsize::new(1),
            changed: Notify::new(),
        }))
    }

    /// Somebody who has seen the value as it is now.
    #[must_use]
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver { shared: Arc::clone(&self.0), seen: self.0.look().version }
    }

    /// The value as it is now.
    #[must_use]
    pub fn borrow(&self) -> Ref<'_, T> {
        Ref(self.0.look())
    }

    /// Changes the value, and tells everybody if `change` says that it did.
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

    /// Changes the value, and tells everybody.
    pub fn send_modify(&self, change: impl FnOnce(&mut T)) {
        self.send_if_modified(|value| {
            change(value);
            true
        });
    }

    /// Puts another value in place, tells everybody, and gives back the one before.
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

    /// The value as it is now, which counts as seen.
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
            // Whoever changes the value from here on is heard.
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

    /// Waits until the value is as wanted, which it may be already.
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
    fn who_waits_hears_of_every_change_since_it_looked_and_of_the_end() {
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
    fn the_last_change_is_seen_before_the_end_is() {
        let (sender, mut receiver) = channel(1);
        sender.send_replace(2);
        drop(sender);
        assert_eq!(poll(pin!(receiver.changed())), Poll::Ready(Ok(())));
        assert_eq!(poll(pin!(receiver.changed())), Poll::Ready(Err(Closed)));
        assert_eq!(receiver.has_changed(), Err(Closed));
    }

    #[test]
    fn what_is_wanted_may_be_there_already() {
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

    struct Named(usize, Arc<Mutex<Vec<usize>>>);

    impl Wake for Named {
        fn wake(self: Arc<Self>) {
            self.1.lock().unwrap().push(self.0);
        }
    }

    #[test]
    fn those_who_wait_are_woken_in_the_order_in_which_they_came() {
        let (sender, receiver) = channel(0);
        let woken = Arc::new(Mutex::new(Vec::new()));
        let mut receivers: Vec<_> = (0..40).map(|_| receiver.clone()).collect();
        let mut waiting: Vec<_> = receivers.iter_mut().map(|one| Box::pin(one.changed())).collect();
        for (name, waits) in waiting.iter_mut().enumerate() {
            let waker = Waker::from(Arc::new(Named(name, Arc::clone(&woken))));
            assert!(waits.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        sender.send_replace(1);
        assert_eq!(*woken.lock().unwrap(), (0..40).collect::<Vec<_>>());
    }
}
