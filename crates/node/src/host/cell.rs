//! One object on a node, and the lock that its calls take.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::object::AnyObject;

/// An object, active or not. Calls lock it in the order in which they arrive.
#[derive(Default)]
pub(crate) struct ObjectCell {
    state: Arc<Mutex<CellState>>,
    waiting: AtomicU64,
}

/// Content of a cell.
#[derive(Default)]
pub(crate) enum CellState {
    /// The object is not active.
    #[default]
    Inactive,
    /// The active object.
    Active(Box<dyn AnyObject>),
    /// The cell is no longer used: a call that finds this looks for the object's new cell. A cell
    /// whose object is in use has this state, so that a cancelled call drops the object.
    Gone,
}

/// Counts a waiting call.
pub(crate) struct InLine<'a>(&'a AtomicU64);

impl ObjectCell {
    /// Enters the queue, and returns the number of calls before.
    pub(crate) fn line_up(&self) -> (InLine<'_>, u64) {
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        (InLine(&self.waiting), before)
    }

    /// Whether the object is active. Does not wait: one that is in use counts as active.
    pub(crate) fn is_occupied(&self) -> bool {
        self.state.try_lock().map_or(true, |state| matches!(*state, CellState::Active(_)))
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
