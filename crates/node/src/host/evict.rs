use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use shardwright_contracts::Env;

use super::cell::{CellState, ObjectCell};
use super::{ObjectHost, Slot};
use crate::object::Deactivation;
use crate::waiting::within;

/// How many objects are deactivated concurrently.
const AT_ONCE: usize = 64;
/// How many times the timeout of one object all objects of a shard may take.
const IN_ALL: u32 = 12;

impl ObjectHost {
    /// Deactivates all objects of a shard, and returns how many were dropped before they were done.
    /// No call runs in the shard, and none starts: the caller holds the write lock, or has
    /// cancelled all calls.
    pub(crate) async fn evict(&self, slot: &Arc<Slot>, why: Deactivation) -> u64 {
        let each = self.options.deactivation_max;
        deactivate_all(Arc::clone(&self.env), each, slot.take_objects().into_values(), why).await
    }

    /// Ends the session: cancels all calls at once, and deactivates all objects.
    pub(crate) fn end(&self) -> impl Future<Output = ()> + Send + use<> {
        self.serving.cancel_calls();
        let mut cells = Vec::new();
        for slot in self.slots.iter().map(|(_, slot)| slot).chain([&self.own_slot]) {
            slot.drop_claim();
            cells.extend(slot.take_objects().into_values());
        }
        let (env, each) = (Arc::clone(&self.env), self.options.deactivation_max);
        // The shards are lost, so dropped objects have nothing left to store.
        deactivate_all(env, each, cells.into_iter(), Deactivation::Lost).map(|_dropped| ())
    }
}

/// Deactivates objects, some at a time, and returns how many were dropped.
///
/// Calls may wait for the shard, and a deactivation may never end. So each object has a timeout. If
/// none ends within it, or all together take too long, the others are polled only once.
async fn deactivate_all(
    env: Arc<dyn Env>,
    each: Duration,
    mut cells: impl Iterator<Item = Arc<ObjectCell>> + Send,
    why: Deactivation,
) -> u64 {
    let latest = env.monotonic().saturating_add(each.saturating_mul(IN_ALL));
    let mut limit = env.monotonic().saturating_add(each);
    let mut leaving = FuturesUnordered::new();
    let (mut dropped, mut is_over) = (0, false);
    loop {
        let from_now = env.monotonic().saturating_add(each).min(latest);
        let own_limit = if is_over { Duration::ZERO } else { from_now };
        let next = cells.by_ref().take(AT_ONCE.saturating_sub(leaving.len()));
        leaving.extend(next.map(|cell| deactivate_one(Arc::clone(&env), own_limit, cell, why)));
        let left = if is_over {
            Some(leaving.next().await)
        } else {
            within(&*env, limit, leaving.next()).await
        };
        match left {
            Some(Some(true)) => limit = env.monotonic().saturating_add(each).min(latest),
            Some(Some(false)) => dropped += 1,
            Some(None) => return dropped,
            None => {
                dropped += leaving.len() as u64;
                (leaving, is_over) = (FuturesUnordered::new(), true);
            }
        }
    }
}

/// Deactivates an object, and returns whether that ended in time. An object that does not end, or
/// panics, is dropped.
async fn deactivate_one(
    env: Arc<dyn Env>,
    limit: Duration,
    cell: Arc<ObjectCell>,
    why: Deactivation,
) -> bool {
    let leaving = async {
        let state = std::mem::replace(&mut *cell.lock().await, CellState::Gone);
        if let CellState::Active(object) = state {
            object.deactivate(why).await;
        }
    };
    let left = within(&*env, limit, AssertUnwindSafe(leaving).catch_unwind()).await;
    matches!(left, Some(Ok(())))
}
