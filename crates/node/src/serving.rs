//! How long a node may serve.
//!
//! A node serves while its session surely lives. When it cannot be sure any more, everything that
//! runs is broken off, before anybody else can have its shards. If the session turns out to have
//! lived all along, it serves again; if not, it begins another life.

use std::sync::{Arc, PoisonError, RwLock};

use shardwright_engine::watch;

/// Whether a node may serve, asked for every call.
pub(crate) trait MayServe: Send + Sync {
    fn may_serve(&self) -> bool;
}

impl<F: Fn() -> bool + Send + Sync> MayServe for F {
    fn may_serve(&self) -> bool {
        self()
    }
}

/// A time in which a node serves without a break, as whoever runs in it sees it.
#[derive(Clone)]
pub(crate) struct ServingToken {
    breaks: watch::Receiver<u64>,
    at: u64,
}

/// One life of a node: one token after the other.
pub(crate) struct ServingPeriod {
    /// None once it has ended: whoever says whether the node may serve keeps its session alive.
    may_serve: RwLock<Option<Arc<dyn MayServe>>>,
    /// How often everything was broken off.
    breaks: watch::Sender<u64>,
}

impl ServingPeriod {
    pub(crate) fn new(may_serve: Arc<dyn MayServe>) -> Self {
        Self { may_serve: RwLock::new(Some(may_serve)), breaks: watch::Sender::new(0) }
    }

    pub(crate) fn may_serve(&self) -> bool {
        let may_serve = self.may_serve.read().unwrap_or_else(PoisonError::into_inner);
        may_serve.as_ref().is_some_and(|says| says.may_serve())
    }

    /// The token of whoever begins now.
    pub(crate) fn token(&self) -> ServingToken {
        let breaks = self.breaks.subscribe();
        let at = *breaks.borrow();
        ServingToken { breaks, at }
    }

    /// Serves nothing any more, and lets the session run out.
    pub(crate) fn end(&self) {
        // What goes with it goes after the lock does.
        let _says = {
            let mut may_serve = self.may_serve.write().unwrap_or_else(PoisonError::into_inner);
            may_serve.take()
        };
        self.break_off();
    }

    /// Breaks off everything that runs.
    pub(crate) fn break_off(&self) {
        self.breaks.send_modify(|count| *count = count.saturating_add(1));
    }
}

impl ServingToken {
    pub(crate) fn is_over(&self) -> bool {
        *self.breaks.borrow() != self.at
    }

    pub(crate) async fn over(mut self) {
        let at = self.at;
        // Whoever would say so is gone as well.
        let _ = self.breaks.wait_for(|count| *count != at).await;
    }
}
