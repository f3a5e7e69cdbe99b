use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::{FutureExt, StreamExt, stream};
use shardwright_contracts::Env;

use super::cell::{CellState, ObjectCell};
use super::{ObjectHost, Slot};
use crate::object::Deactivation;
use crate::wait::within;

/// How many objects are taken leave of at the same time.
const AT_ONCE: usize = 64;

impl<E: Env> ObjectHost<E> {
    /// Takes leave of all objects of a shard. No call runs there, and none begins meanwhile: the
    /// caller has the write lock, or has broken off all calls.
    pub(crate) async fn evict(&self, slot: &Arc<Slot>, why: Deactivation) {
        let objects = slot.take_objects();
        stream::iter(objects.into_values())
            .for_each_concurrent(AT_ONCE, |place| self.evict_one(place, why))
            .await;
    }

    /// Ends this life of the node: breaks off all calls, and takes leave of all objects.
    pub(crate) async fn end(&self) {
        self.life.break_off();
        for (_, slot) in self.slots.iter() {
            slot.give_up();
        }
        self.own_slot.give_up();
        for (_, slot) in self.slots.iter() {
            self.evict(slot, Deactivation::Lost).await;
        }
        self.evict(&self.own_slot, Deactivation::Lost).await;
    }

    async fn evict_one(&self, place: Arc<ObjectCell>, why: Deactivation) {
        let limit = self.env.monotonic().saturating_add(self.options.deactivation_max);
        let leaving = async {
            let state = std::mem::replace(&mut *place.lock().await, CellState::Gone);
            if let CellState::Awake(object) = state {
                object.deactivate(why).await;
            }
        };
        // An object that does not go in time, or panics, is gone all the same.
        let _ = within(&self.env, limit, AssertUnwindSafe(leaving).catch_unwind()).await;
    }
}
