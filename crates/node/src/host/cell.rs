//! One object on a node, and the lock that its calls take.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Mutex, OwnedMutexGuard};

use super::residents::{Residence, Resting};
use crate::object::{AnyObject, Deactivation};

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
    Active(LiveObject),
    /// The cell is no longer used: a call that finds this looks for the object's new cell. A cell
    /// whose object is in use has this state, so that a cancelled call drops the object.
    Gone,
}

/// An active object.
pub(crate) struct LiveObject {
    pub(crate) object: Box<dyn AnyObject>,
    /// Absent for an object that is never evicted.
    pub(crate) residence: Option<Residence>,
}

impl LiveObject {
    /// Marks the object as the most recently used.
    pub(crate) fn rest(&mut self, resting: impl FnOnce() -> Resting) {
        if let Some(residence) = &mut self.residence {
            residence.rest(resting());
        }
    }

    /// Marks the object as in use.
    pub(crate) fn wake(&mut self) {
        if let Some(residence) = &mut self.residence {
            residence.wake();
        }
    }

    /// Deactivates the object.
    pub(crate) async fn deactivate(self, why: Deactivation) {
        let Self { object, residence: _residence } = self;
        object.deactivate(why).await;
    }
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

    /// Whether a call or a deactivation holds the object.
    pub(crate) fn is_locked(&self) -> bool {
        self.state.try_lock().is_err()
    }

    /// Waits for the object.
    pub(crate) async fn lock(&self) -> OwnedMutexGuard<CellState> {
        Arc::clone(&self.state).lock_owned().await
    }

    /// Locks the object, if no call uses it or waits for it.
    pub(crate) fn try_lock(&self) -> Option<OwnedMutexGuard<CellState>> {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            return None;
        }
        Arc::clone(&self.state).try_lock_owned().ok()
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
