//! The place of one object on a node.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::object::AnyObject;

/// Where an object is, whether or not it is awake. Whoever has the lock may use it; the others
/// wait in the order in which they came.
#[derive(Default)]
pub(crate) struct ObjectCell {
    state: Arc<Mutex<CellState>>,
    waiting: AtomicU64,
}

/// What is in a place.
#[derive(Default)]
pub(crate) enum CellState {
    /// Nothing yet.
    #[default]
    Asleep,
    /// The object.
    Awake(Box<dyn AnyObject>),
    /// Nothing any more: whoever finds this looks for the object's new place. So is a place whose
    /// object is in use, lest a call that is broken off leave a half-done object behind.
    Gone,
}

/// Counts one that waits.
pub(crate) struct InLine<'a>(&'a AtomicU64);

impl ObjectCell {
    /// Gets in line, and tells how many were there before.
    pub(crate) fn line_up(&self) -> (InLine<'_>, u64) {
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        (InLine(&self.waiting), before)
    }

    /// Whether the object is here, as far as that can be told without waiting: one that is in use,
    /// or about to come, is.
    pub(crate) fn is_occupied(&self) -> bool {
        self.state.try_lock().map_or(true, |state| matches!(*state, CellState::Awake(_)))
    }

    /// Waits for the object.
    pub(crate) async fn lock(&self) -> OwnedMutexGuard<CellState> {
        Arc::clone(&self.state).lock_owned().await
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
