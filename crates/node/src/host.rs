//! The objects of a node, in one session.
//!
//! | file | purpose |
//! |---|---|
//! | `slot.rs` | the state of a shard on the node: claim, running calls, objects |
//! | `cell.rs` | the lock of one object, and the queue of calls that wait for it |
//! | `admit.rs` | admits calls, holds them while a shard drains |
//! | `run.rs` | runs one call in a task of its own |
//! | `residents.rs` | the active objects in the order of their last use |
//! | `evict.rs` | deactivates objects |

mod admit;
mod cell;
mod evict;
mod residents;
mod run;
mod slot;

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use shardwright_api::{CallError, Limit, LimitOption};
use shardwright_contracts::{Env, ShardId};
use shardwright_placement::{NodeAddress, ShardOutOfRange, Sharding};
use tokio::sync::OwnedMutexGuard;

use self::cell::{CellState, ObjectCell};
use self::residents::Residents;
pub(crate) use self::slot::{Admission, Admitted, Slot};
use crate::call::Call;
use crate::call::ObjectKey;
use crate::context::Caller;
use crate::locks::ShardLocks;
use crate::notices::NoticeLog;
use crate::object::ObjectTypes;
use crate::options::{AutoLoad, HostOptions};
use crate::per_shard::PerShard;
use crate::serving::{MayServe, ServingPeriod, ServingToken};
use crate::transport::ShardLoad;
use crate::waiting::Queue;
use crate::waiting::within;

/// The objects on a node in one session. The next session has its own host.
pub(crate) struct ObjectHost {
    env: Arc<dyn Env>,
    own: NodeAddress,
    sharding: Sharding,
    options: HostOptions,
    types: ObjectTypes,
    locks: ShardLocks,
    slots: PerShard<Slot>,
    /// For objects of the node itself.
    own_slot: Arc<Slot>,
    serving: ServingPeriod,
    queue: Arc<Queue>,
    caller: Weak<dyn Caller>,
    residents: Arc<Residents>,
    /// Objects that are never evicted.
    auto_load: Arc<[AutoLoad]>,
    notice_log: Arc<NoticeLog>,
    /// When loads were last measured.
    measured_at: Mutex<Duration>,
}

/// The shortest interval between two measurements of loads.
const MEASURE_EVERY: Duration = Duration::from_secs(1);

/// The parts of a host.
pub(crate) struct HostParts {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) own: NodeAddress,
    pub(crate) sharding: Sharding,
    pub(crate) options: HostOptions,
    pub(crate) types: ObjectTypes,
    pub(crate) may_serve: Arc<dyn MayServe>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) caller: Weak<dyn Caller>,
    pub(crate) auto_load: Arc<[AutoLoad]>,
    pub(crate) notice_log: Arc<NoticeLog>,
}

impl ObjectHost {
    pub(crate) fn new(parts: HostParts) -> Self {
        let HostParts { env, own, sharding, options, types, .. } = parts;
        let began = env.monotonic();
        let own_slot = Arc::new(Slot::default());
        own_slot.take(None);
        Self {
            env,
            own,
            sharding,
            options,
            types,
            locks: ShardLocks::new(sharding.num_shards),
            slots: PerShard::new(sharding.num_shards),
            own_slot,
            serving: ServingPeriod::new(parts.may_serve),
            queue: parts.queue,
            caller: parts.caller,
            residents: Arc::default(),
            auto_load: parts.auto_load,
            notice_log: parts.notice_log,
            measured_at: Mutex::new(began),
        }
    }

    /// The locks of the shards.
    pub(crate) const fn locks(&self) -> &ShardLocks {
        &self.locks
    }

    /// Answers a call to an object of this node.
    ///
    /// A running call continues if the returned future is dropped. A waiting call does not start.
    pub(crate) async fn serve(self: &Arc<Self>, call: Call) -> Result<Bytes, CallError> {
        let deadline = self.env.monotonic().saturating_add(call.timeout);
        call.check()?;
        self.types.get(&call.target.object_type)?;
        let lock = self.lock(&call, deadline).await?;
        self.run(lock, call, deadline).await
    }

    /// Activates an object, unless it is active.
    pub(crate) async fn load(
        self: &Arc<Self>,
        object: ObjectKey,
        timeout: Duration,
    ) -> Result<(), CallError> {
        let deadline = self.env.monotonic().saturating_add(timeout);
        self.types.get(&object.object_type)?;
        let call = Call::new(object, "", Bytes::new(), timeout);
        let lock = self.lock(&call, deadline).await?;
        self.activate(lock, call, deadline).await
    }

    /// The number of active objects of a shard.
    #[cfg(test)]
    pub(crate) fn objects(&self, shard: ShardId) -> Result<u64, ShardOutOfRange> {
        Ok(self.slot(shard)?.handover().objects)
    }

    pub(crate) fn slot(&self, shard: ShardId) -> Result<&Arc<Slot>, ShardOutOfRange> {
        self.slots.get(shard)
    }

    /// The shards that the node holds.
    pub(crate) fn held(&self) -> impl Iterator<Item = (ShardId, &Arc<Slot>)> {
        self.slots.iter().filter(|(_, slot)| slot.held().is_some())
    }

    pub(crate) const fn own_slot(&self) -> &Arc<Slot> {
        &self.own_slot
    }

    pub(crate) const fn serving(&self) -> &ServingPeriod {
        &self.serving
    }

    /// The loads of the node's shards.
    pub(crate) fn loads(&self) -> Vec<ShardLoad> {
        let elapsed = {
            let now = self.env.monotonic();
            let mut at = self.measured_at.lock().unwrap_or_else(PoisonError::into_inner);
            // More frequent requests get the latest measurement.
            let elapsed = Some(now.saturating_sub(*at)).filter(|one| *one >= MEASURE_EVERY);
            *at = elapsed.map_or(*at, |_| now);
            elapsed
        };
        let load =
            |(shard, slot): (ShardId, &Arc<Slot>)| ShardLoad { shard, load: slot.load(elapsed) };
        self.held().map(load).collect()
    }

    /// Waits until a call may run. It has not started by then.
    async fn lock(&self, call: &Call, deadline: Duration) -> Result<ObjectLock, CallError> {
        let token = self.serving.token();
        let lock = async {
            let admitted = self.admit(call, deadline).await?;
            let entered = self.enter(&admitted, &call.target, deadline).await?;
            Ok((admitted, entered))
        };
        tokio::select! {
            biased;
            () = token.clone().over() => Err(CallError::NotServing),
            lock = lock => lock.map(|(admitted, entered)| ObjectLock { token, entered, admitted }),
        }
    }

    /// Waits for the object. By default its queue is as long as that of a process, because all held
    /// calls arrive at once with their shard.
    async fn enter(
        &self,
        admitted: &Admitted,
        key: &ObjectKey,
        deadline: Duration,
    ) -> Result<Entered, CallError> {
        let limit = self.options.calls_per_object_max;
        loop {
            let cell = admitted.slot().cell(key);
            let state = {
                let (_in_line, before) = cell.line_up();
                if before >= limit {
                    let option = LimitOption::CallsPerObject;
                    return Err(CallError::QueueFull(Limit { option, value: limit }));
                }
                within(&*self.env, deadline, cell.lock()).await.ok_or(CallError::Late)?
            };
            // If this one is gone, its cell is dropped and the object's next cell is tried.
            let entered =
                Entered { slot: Arc::clone(admitted.slot()), key: key.clone(), cell, state };
            if !matches!(*entered.state, CellState::Gone) {
                return Ok(entered);
            }
        }
    }
}

/// An object's cell, locked for one call. A cell without an active object is removed at the end, so
/// that only active objects take memory.
struct Entered {
    slot: Arc<Slot>,
    key: ObjectKey,
    cell: Arc<ObjectCell>,
    state: OwnedMutexGuard<CellState>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        if !matches!(*self.state, CellState::Active(_)) {
            // Calls that wait for this cell look for the next one.
            *self.state = CellState::Gone;
            self.slot.forget(&self.key, &self.cell);
        }
    }
}

/// Everything that a call must hold to run. The shard is the last field, so that it is released
/// last.
struct ObjectLock {
    token: ServingToken,
    entered: Entered,
    admitted: Admitted,
}

#[cfg(test)]
mod tests;
