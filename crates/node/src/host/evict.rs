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
        let limit = self.env.monotonic().saturating_add(self.options.deactivation_max);
        take_leave(self.env.clone(), limit, slot.take_objects().into_values(), why).await;
    }

    /// Ends this life of the node: breaks off all calls, at once, and takes leave of all objects.
    pub(crate) fn end(&self) -> impl Future<Output = ()> + Send + use<E> {
        self.life.break_off();
        let mut places = Vec::new();
        for slot in self.slots.iter().map(|(_, slot)| slot).chain([&self.own_slot]) {
            slot.give_up();
            places.extend(slot.take_objects().into_values());
        }
        let limit = self.env.monotonic().saturating_add(self.options.deactivation_max);
        take_leave(self.env.clone(), limit, places.into_iter(), Deactivation::Lost)
    }
}

/// Takes leave of objects, some at a time. All of them together have until `limit`, for somebody
/// may wait for the shard; the last ones are given a single chance then.
async fn take_leave<E: Env>(
    env: E,
    limit: Duration,
    mut places: impl Iterator<Item = Arc<ObjectCell>> + Send,
    why: Deactivation,
) {
    let mut leaving = FuturesUnordered::new();
    leaving.extend(
        places.by_ref().take(AT_ONCE).map(|place| leave_one(env.clone(), limit, place, why)),
    );
    while leaving.next().await.is_some() {
        leaving.extend(places.next().map(|place| leave_one(env.clone(), limit, place, why)));
    }
}

async fn leave_one<E: Env>(env: E, limit: Duration, place: Arc<ObjectCell>, why: Deactivation) {
    let leaving = async {
        let state = std::mem::replace(&mut *place.lock().await, CellState::Gone);
        if let CellState::Awake(object) = state {
            object.deactivate(why).await;
        }
    };
    // An object that does not go in time, or panics, is gone all the same.
    let _ = within(&env, limit, AssertUnwindSafe(leaving).catch_unwind()).await;
}
