//! The state of one shard on a node: its claim, the running calls, and the objects.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shardwright_contracts::FenceEpoch;
use shardwright_placement::Handover;
use tokio::sync::Notify;

use super::cell::ObjectCell;
use crate::call::ObjectKey;
use crate::load::LoadMeter;
use crate::locks::ShardReadGuard;

/// One shard on this node. Another slot is for the objects of the node itself.
#[derive(Default)]
pub(crate) struct Slot {
    state: Mutex<SlotState>,
    /// Notified when the state has changed.
    changed: Notify,
}

#[derive(Default)]
struct SlotState {
    /// The claim by which the node holds the shard.
    held: Option<Hold>,
    /// The latest fence that the node knows.
    fence: Option<FenceEpoch>,
    calls: u64,
    objects: BTreeMap<ObjectKey, Arc<ObjectCell>>,
    load: LoadMeter,
}

#[derive(Clone, Copy)]
struct Hold {
    fence: Option<FenceEpoch>,
    admitting: bool,
    /// Whether there is a release with unknown outcome.
    in_doubt: bool,
}

/// The decision on a call.
pub(crate) enum Admission {
    /// It may run.
    Admitted(Admitted),
    /// The shard is draining.
    Draining,
    /// The caller knows a later claim than the node.
    Behind {
        /// The latest fence that the node knows.
        fence: Option<FenceEpoch>,
    },
    /// The node does not hold the shard.
    NotHeld {
        /// The latest fence that the node knows.
        fence: Option<FenceEpoch>,
    },
}

/// A running call. The shard stays held while this exists.
pub(crate) struct Admitted {
    pub(crate) fence: Option<FenceEpoch>,
    slot: Arc<Slot>,
    _lock: Option<ShardReadGuard>,
}

impl Slot {
    /// Records a claim of this node: calls are admitted from now on. The caller holds the write
    /// lock.
    pub(crate) fn take(&self, fence: Option<FenceEpoch>) {
        let mut state = self.lock();
        let admitting = state.held.is_none_or(|hold| hold.admitting);
        let in_doubt = state.held.is_some_and(|hold| hold.in_doubt);
        state.held = Some(Hold { fence, admitting, in_doubt });
        state.fence = state.fence.max(fence);
        drop(state);
        self.changed.notify_waiters();
    }

    /// Records that the node no longer holds the shard. The caller holds the write lock, or has
    /// cancelled all calls.
    pub(crate) fn drop_claim(&self) {
        self.lock().held = None;
        self.changed.notify_waiters();
    }

    /// Sets whether calls are admitted that are not nested in a running one.
    pub(crate) fn set_admitting(&self, admitting: bool) {
        if let Some(hold) = &mut self.lock().held {
            hold.admitting = admitting;
        }
        self.changed.notify_waiters();
    }

    /// Sets whether there is a release with unknown outcome.
    pub(crate) fn set_in_doubt(&self, in_doubt: bool) {
        if let Some(hold) = &mut self.lock().held {
            hold.in_doubt = in_doubt;
        }
        self.changed.notify_waiters();
    }

    /// Admits a call or not. The caller holds the shard's lock, so that the decision stays valid.
    ///
    /// `known` is the fence in the caller's routing table. `must_end` is whether calls that run in
    /// this shard may wait for this one.
    pub(crate) fn admit(
        self: &Arc<Self>,
        lock: Option<ShardReadGuard>,
        known: Option<FenceEpoch>,
        must_end: bool,
    ) -> Admission {
        let mut state = self.lock();
        let Some(hold) = state.held else {
            return Admission::NotHeld { fence: state.fence };
        };
        if known > hold.fence && hold.fence.is_some() {
            return Admission::Behind { fence: hold.fence };
        }
        // Without a running call, no call waits, and the shard may already be being released.
        let must_end = must_end && state.calls > 0;
        if !hold.admitting && !must_end {
            return Admission::Draining;
        }
        state.calls += 1;
        let slot = Arc::clone(self);
        let fence = hold.fence;
        Admission::Admitted(Admitted { fence, slot, _lock: lock })
    }

    /// The state of the shard for a handover.
    pub(crate) fn handover(&self) -> Handover {
        let state = self.lock();
        Handover {
            admitting: state.held.is_some_and(|hold| hold.admitting),
            calls: state.calls,
            objects: state.objects.len() as u64,
            in_doubt: state.held.is_some_and(|hold| hold.in_doubt),
        }
    }

    /// Whether the shard is draining.
    pub(crate) fn is_draining(&self) -> bool {
        self.lock().held.is_some_and(|hold| !hold.admitting)
    }

    /// The fence of the claim by which the node holds the shard.
    pub(crate) fn held(&self) -> Option<Option<FenceEpoch>> {
        self.lock().held.map(|hold| hold.fence)
    }

    /// Waits until no call runs.
    pub(crate) async fn idle(&self) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.lock().calls == 0 {
                return;
            }
            changed.await;
        }
    }

    /// Notified whenever the state has changed.
    pub(crate) fn changed(&self) -> &Notify {
        &self.changed
    }

    /// The cell of an object, created on first use.
    pub(crate) fn cell(&self, key: &ObjectKey) -> Arc<ObjectCell> {
        let mut state = self.lock();
        if let Some(cell) = state.objects.get(key) {
            return Arc::clone(cell);
        }
        let cell = Arc::new(ObjectCell::default());
        state.objects.insert(key.clone(), Arc::clone(&cell));
        cell
    }

    /// The cell of an object, if there is one.
    pub(crate) fn existing(&self, key: &ObjectKey) -> Option<Arc<ObjectCell>> {
        self.lock().objects.get(key).cloned()
    }

    /// Whether an object is active.
    pub(crate) fn has(&self, key: &ObjectKey) -> bool {
        self.lock().objects.get(key).is_some_and(|cell| cell.is_occupied())
    }

    /// Whether a call of an object runs.
    pub(crate) fn runs(&self, key: &ObjectKey) -> bool {
        self.lock().objects.get(key).is_some_and(|cell| cell.is_locked())
    }

    /// Removes the cell of an object, if it is still this one.
    pub(crate) fn forget(&self, key: &ObjectKey, cell: &Arc<ObjectCell>) {
        let mut state = self.lock();
        if state.objects.get(key).is_some_and(|one| Arc::ptr_eq(one, cell)) {
            state.objects.remove(key);
        }
    }

    /// Removes all objects.
    pub(crate) fn take_objects(&self) -> BTreeMap<ObjectKey, Arc<ObjectCell>> {
        std::mem::take(&mut self.lock().objects)
    }

    pub(crate) fn count_load(&self, busy: Duration) {
        self.lock().load.count(busy);
    }

    /// Load of the shard: measured over `elapsed`, or the latest measurement.
    pub(crate) fn load(&self, elapsed: Option<Duration>) -> u64 {
        let load = &mut self.lock().load;
        match elapsed {
            Some(elapsed) => load.measure(elapsed),
            None => load.latest(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, SlotState> {
        // The state is consistent after every statement.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Admitted {
    pub(crate) const fn slot(&self) -> &Arc<Slot> {
        &self.slot
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut state = self.slot.lock();
        state.calls = state.calls.saturating_sub(1);
        let idle = state.calls == 0;
        drop(state);
        if idle {
            self.slot.changed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fence(raw: u64) -> Option<FenceEpoch> {
        FenceEpoch::from_raw(raw).ok()
    }

    fn admitted(slot: &Arc<Slot>, known: Option<FenceEpoch>, part: bool) -> Option<Admitted> {
        match slot.admit(None, known, part) {
            Admission::Admitted(admitted) => Some(admitted),
            Admission::Draining | Admission::Behind { .. } | Admission::NotHeld { .. } => None,
        }
    }

    #[test]
    fn calls_run_only_in_a_held_shard() {
        let slot = Arc::new(Slot::default());
        assert!(matches!(slot.admit(None, None, false), Admission::NotHeld { fence: None }));
        slot.take(fence(4));
        assert_eq!(admitted(&slot, fence(4), false).unwrap().fence, fence(4));
        slot.drop_claim();
        let refused = slot.admit(None, None, false);
        assert!(matches!(refused, Admission::NotHeld { fence } if fence == self::fence(4)));
    }

    #[test]
    fn a_caller_with_a_later_fence_is_not_served() {
        let slot = Arc::new(Slot::default());
        slot.take(fence(4));
        assert!(admitted(&slot, fence(3), false).is_some());
        assert!(matches!(slot.admit(None, fence(5), false), Admission::Behind { .. }));
        slot.take(fence(5));
        assert!(admitted(&slot, fence(5), false).is_some());
    }

    #[test]
    fn a_draining_shard_admits_only_nested_calls() {
        let slot = Arc::new(Slot::default());
        slot.take(fence(4));
        let outer = admitted(&slot, None, false).unwrap();
        slot.set_admitting(false);
        assert!(matches!(slot.admit(None, None, false), Admission::Draining));
        let nested = admitted(&slot, None, true).unwrap();
        assert_eq!(
            slot.handover(),
            Handover { admitting: false, calls: 2, objects: 0, in_doubt: false }
        );
        drop((outer, nested));
        // Its outer call has ended, so nothing waits for it.
        assert!(matches!(slot.admit(None, None, true), Admission::Draining));
        slot.set_admitting(true);
        assert!(admitted(&slot, None, false).is_some());
    }

    #[test]
    fn a_repeated_claim_does_not_end_a_drain() {
        let slot = Arc::new(Slot::default());
        slot.take(fence(4));
        slot.set_admitting(false);
        slot.take(fence(5));
        assert!(!slot.handover().admitting);
        assert_eq!(slot.held(), Some(fence(5)));
    }
}
