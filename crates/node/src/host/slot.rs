//! What a node has of one shard: its claim, the calls that run, and the objects.

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

/// One shard on this node; another one stands for the objects that belong to the node itself.
#[derive(Default)]
pub(crate) struct Slot {
    state: Mutex<SlotState>,
    /// Notified when the state has changed.
    changed: Notify,
}

#[derive(Default)]
struct SlotState {
    /// Since which claim the node has the shard.
    held: Option<Hold>,
    /// The last fence that the node knows of.
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

/// What becomes of a call that asks to be admitted.
pub(crate) enum Admission {
    /// It may run.
    Admitted(Admitted),
    /// The shard is about to be given away.
    Draining,
    /// The caller knows a later claim than the node.
    Behind {
        /// The last fence that the node knows of.
        fence: Option<FenceEpoch>,
    },
    /// The node does not have the shard.
    NotHeld {
        /// The last fence that it knows of.
        fence: Option<FenceEpoch>,
    },
}

/// A call that runs. The shard stays for as long as this is kept.
pub(crate) struct Admitted {
    pub(crate) fence: Option<FenceEpoch>,
    slot: Arc<Slot>,
    _lock: Option<ShardReadGuard>,
}

impl Slot {
    /// Takes note of a claim of this node: calls are admitted from now on. The caller holds the
    /// write lock.
    pub(crate) fn take(&self, fence: Option<FenceEpoch>) {
        let mut state = self.lock();
        let admitting = state.held.is_none_or(|hold| hold.admitting);
        let in_doubt = state.held.is_some_and(|hold| hold.in_doubt);
        state.held = Some(Hold { fence, admitting, in_doubt });
        state.fence = state.fence.max(fence);
        drop(state);
        self.changed.notify_waiters();
    }

    /// Takes note that the node does not have the shard any more. The caller holds the write lock,
    /// or has broken off all calls.
    pub(crate) fn give_up(&self) {
        self.lock().held = None;
        self.changed.notify_waiters();
    }

    /// Sets whether calls are admitted that are not part of one that runs.
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

    /// Lets a call in, or not. The caller has the shard's lock, so that the answer stays true.
    ///
    /// `known` is the fence that the caller goes by, and `must_end` whether calls that run in this
    /// shard may be waiting for this one.
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
        // Where nothing runs, nothing waits; and the shard may be being released already.
        let must_end = must_end && state.calls > 0;
        if !hold.admitting && !must_end {
            return Admission::Draining;
        }
        state.calls += 1;
        let slot = Arc::clone(self);
        let fence = hold.fence;
        Admission::Admitted(Admitted { fence, slot, _lock: lock })
    }

    /// What the node knows of the shard for handing it over.
    pub(crate) fn handover(&self) -> Handover {
        let state = self.lock();
        Handover {
            admitting: state.held.is_some_and(|hold| hold.admitting),
            calls: state.calls,
            objects: state.objects.len() as u64,
            in_doubt: state.held.is_some_and(|hold| hold.in_doubt),
        }
    }

    /// Whether the shard is about to be given away.
    pub(crate) fn is_draining(&self) -> bool {
        self.lock().held.is_some_and(|hold| !hold.admitting)
    }

    /// The fence of the claim by which the node has the shard.
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

    /// The place of an object, made if there is none.
    pub(crate) fn cell(&self, key: &ObjectKey) -> Arc<ObjectCell> {
        let mut state = self.lock();
        if let Some(cell) = state.objects.get(key) {
            return Arc::clone(cell);
        }
        let cell = Arc::new(ObjectCell::default());
        state.objects.insert(key.clone(), Arc::clone(&cell));
        cell
    }

    /// Whether an object is here.
    pub(crate) fn has(&self, key: &ObjectKey) -> bool {
        self.lock().objects.get(key).is_some_and(|cell| cell.is_occupied())
    }

    /// Forgets an object, if it is still this one.
    pub(crate) fn forget(&self, key: &ObjectKey, cell: &Arc<ObjectCell>) {
        let mut state = self.lock();
        if state.objects.get(key).is_some_and(|one| Arc::ptr_eq(one, cell)) {
            state.objects.remove(key);
        }
    }

    /// Takes all objects out.
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
        // What is inside is whole after every statement.
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
    fn calls_run_only_in_a_shard_that_the_node_has() {
        let slot = Arc::new(Slot::default());
        assert!(matches!(slot.admit(None, None, false), Admission::NotHeld { fence: None }));
        slot.take(fence(4));
        assert_eq!(admitted(&slot, fence(4), false).unwrap().fence, fence(4));
        slot.give_up();
        let refused = slot.admit(None, None, false);
        assert!(matches!(refused, Admission::NotHeld { fence } if fence == self::fence(4)));
    }

    #[test]
    fn a_caller_who_knows_of_a_later_claim_is_believed() {
        let slot = Arc::new(Slot::default());
        slot.take(fence(4));
        assert!(admitted(&slot, fence(3), false).is_some());
        assert!(matches!(slot.admit(None, fence(5), false), Admission::Behind { .. }));
        slot.take(fence(5));
        assert!(admitted(&slot, fence(5), false).is_some());
    }

    #[test]
    fn a_draining_shard_admits_parts_of_what_runs_and_nothing_else() {
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
        // Its outer call is gone, so nothing waits for it.
        assert!(matches!(slot.admit(None, None, true), Admission::Draining));
        slot.set_admitting(true);
        assert!(admitted(&slot, None, false).is_some());
    }

    #[test]
    fn a_claim_that_is_noted_again_does_not_end_a_drain() {
        let slot = Arc::new(Slot::default());
        slot.take(fence(4));
        slot.set_admitting(false);
        slot.take(fence(5));
        assert!(!slot.handover().admitting);
        assert_eq!(slot.held(), Some(fence(5)));
    }
}
