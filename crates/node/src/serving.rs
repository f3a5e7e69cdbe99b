//! How long a node may serve.
//!
//! A node serves while its session surely lives. When this is uncertain, all running calls are
//! cancelled, before another node can claim its shards. If the session turns out to be alive, the
//! node serves again. Otherwise it joins with a new session.

use std::sync::{Arc, PoisonError, RwLock};

use shardwright_engine::watch;

/// Whether a node may serve, checked for every call.
pub(crate) trait MayServe: Send + Sync {
    fn may_serve(&self) -> bool;
}

impl<F: Fn() -> bool + Send + Sync> MayServe for F {
    fn may_serve(&self) -> bool {
        self()
    }
}

/// Valid until the node stops serving for the first time.
#[derive(Clone)]
pub(crate) struct ServingToken {
    breaks: watch::Receiver<u64>,
    at: u64,
}

/// Whether a node may serve during one session.
pub(crate) struct ServingPeriod {
    /// `None` once it has ended, because the callback keeps the session alive.
    may_serve: RwLock<Option<Arc<dyn MayServe>>>,
    /// How often all calls were cancelled.
    breaks: watch::Sender<u64>,
}

impl ServingPeriod {
    pub(crate) fn new(may_serve: Arc<dyn MayServe>) -> Self {
        Self { may_serve: RwLock::new(Some(may_serve)), breaks: watch::Sender::new(0) }
    }

    pub(crate) fn may_serve(&self) -> bool {
        let may_serve = self.may_serve.read().unwrap_or_else(PoisonError::into_inner);
        may_serve.as_ref().is_some_and(|one| one.may_serve())
    }

    /// A token for work that starts now.
    pub(crate) fn token(&self) -> ServingToken {
        let breaks = self.breaks.subscribe();
        let at = *breaks.borrow();
        ServingToken { breaks, at }
    }

    /// Stops serving, and lets the session expire.
    pub(crate) fn end(&self) {
        // Dropped after the lock.
        let _callback = {
            let mut may_serve = self.may_serve.write().unwrap_or_else(PoisonError::into_inner);
            may_serve.take()
        };
        self.cancel_calls();
    }

    /// Cancels all running calls.
    pub(crate) fn cancel_calls(&self) {
        self.breaks.send_modify(|count| *count = count.saturating_add(1));
    }
}

impl ServingToken {
    pub(crate) fn is_over(&self) -> bool {
        *self.breaks.borrow() != self.at
    }

    pub(crate) async fn over(mut self) {
        let at = self.at;
        // An error means that the period has ended, too.
        let _ = self.breaks.wait_for(|count| *count != at).await;
    }
}
