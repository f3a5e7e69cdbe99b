use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
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
        self.evict_all(slot.take_objects().into_values(), why).await;
    }

    async fn evict_all(
        &self,
        mut places: impl Iterator<Item = Arc<ObjectCell>>,
        why: Deactivation,
    ) {
        let limit = self.options.deactivation_max;
        let mut leaving = FuturesUnordered::new();
        leaving.extend(
            places
                .by_ref()
                .take(AT_ONCE)
                .map(|place| take_leave(self.env.clone(), limit, place, why)),
        );
        while leaving.next().await.is_some() {
            leaving
                .extend(places.next().map(|place| take_leave(self.env.clone(), limit, place, why)));
        }
    }

    /// Ends this life of the node: breaks off all calls, and takes leave of all objects.
    pub(crate) async fn end(&self) {
        self.life.break_off();
        let mut places = Vec::new();
        for slot in self.slots.iter().map(|(_, slot)| slot).chain([&self.own_slot]) {
            slot.give_up();
            places.extend(slot.take_objects().into_values());
        }
        self.evict_all(places.into_iter(), Deactivation::Lost).await;
    }
}

/// Takes leave of one object.
async fn take_leave<E: Env>(env: E, at_most: Duration, place: Arc<ObjectCell>, why: Deactivation) {
    let limit = env.monotonic().saturating_add(at_most);
    let leaving = async {
        let state = std::mem::replace(&mut *place.lock().await, CellState::Gone);
        if let CellState::Awake(object) = state {
            object.deactivate(why).await;
        }
    };
    // An object that does not go in time, or panics, is gone all the same.
    let _ = within(&env, limit, AssertUnwindSafe(leaving).catch_unwind()).await;
}
