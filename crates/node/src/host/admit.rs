use std::sync::Arc;
use std::time::Duration;

use shardwright_api::CallError;
use shardwright_api::limits::MAX_FENCE_LEAD;
use shardwright_contracts::{Env, FenceEpoch, ShardId};
use shardwright_placement::{ObjectLocation, ShardOutOfRange};

use super::{Admission, Admitted, ObjectHost, Slot};
use crate::call::Call;
use crate::locks::ShardReadGuard;
use crate::waiting::QueueSlot;
use crate::waiting::within;

/// How long a call waits for the node to learn of a claim that the caller knows.
const CATCH_UP: Duration = Duration::from_secs(1);

/// Whether a fence cannot be one of a claim that the node will learn of.
fn is_far_ahead(known: Option<FenceEpoch>, held: Option<FenceEpoch>) -> bool {
    let raw = |fence: Option<FenceEpoch>| fence.map(FenceEpoch::as_raw).unwrap_or_default();
    raw(known).saturating_sub(raw(held)) >= MAX_FENCE_LEAD
}

/// The result of a check of a shard.
enum Look {
    In(Admitted),
    /// The shard is draining.
    Wait,
    /// The caller knows a later claim than the node. It may be the node's own: in the text format,
    /// the fence rises with every write to the shard.
    CatchUp(CallError),
}

impl ObjectHost {
    /// Admits a call, under the lock of its shard. While the shard drains, the call is held until
    /// the shard is gone or stays. If the caller knows a later claim than the node, the call waits
    /// until the node learns of it.
    pub(super) async fn admit(
        &self,
        call: &Call,
        deadline: Duration,
    ) -> Result<Admitted, CallError> {
        let id = call.target.id.borrowed();
        let shard = self.sharding.shard_of(id);
        let shard = shard.map_err(|error| CallError::InvalidId(error.to_string()))?;
        let slot = match (shard, id.location()) {
            (Some(shard), _) => {
                let slot = self.slot(shard);
                slot.map_err(|error| CallError::InvalidId(error.to_string()))?
            }
            (None, ObjectLocation::Node(node)) if node == self.own.as_str() => &self.own_slot,
            (None, _) => return Err(CallError::NotOwner { shard, fence: None }),
        };
        let mut queue_slot = None;
        let moving = || CallError::NotOwner { shard, fence: slot.held().flatten() };
        let refused = match self.look(call, shard, slot, deadline, &mut queue_slot).await? {
            Look::In(admitted) => return Ok(admitted),
            Look::Wait if self.options.strict => return Err(moving()),
            Look::Wait => None,
            Look::CatchUp(refused) => Some(refused),
        };
        // If the queue is full, return the refusal: the caller may know another node.
        self.take_queue_slot(call, &mut queue_slot).map_err(|full| refused.unwrap_or(full))?;
        let caught_up_at = self.env.monotonic().saturating_add(CATCH_UP).min(deadline);
        loop {
            let mut changed = std::pin::pin!(slot.changed().notified());
            changed.as_mut().enable();
            match self.look(call, shard, slot, deadline, &mut queue_slot).await? {
                Look::In(admitted) => return Ok(admitted),
                Look::Wait if self.options.strict => return Err(moving()),
                Look::Wait => within(&*self.env, deadline, changed).await.ok_or(CallError::Late)?,
                Look::CatchUp(refused) => {
                    within(&*self.env, caught_up_at, changed).await.ok_or(refused)?;
                }
            }
        }
    }

    /// Takes a queue slot, if one is free.
    fn take_queue_slot(
        &self,
        call: &Call,
        queue_slot: &mut Option<QueueSlot>,
    ) -> Result<(), CallError> {
        if queue_slot.is_none() {
            *queue_slot = Some(self.queue.enter(call)?);
        }
        Ok(())
    }

    /// Takes the lock of a shard. A call that has to wait for it takes a queue slot, because the
    /// shard is being claimed or released.
    async fn read_lock(
        &self,
        call: &Call,
        shard: ShardId,
        deadline: Duration,
        queue_slot: &mut Option<QueueSlot>,
    ) -> Result<ShardReadGuard, CallError> {
        let invalid = |error: ShardOutOfRange| CallError::InvalidId(error.to_string());
        if let Some(lock) = self.locks.try_acquire_read(shard).map_err(invalid)? {
            return Ok(lock);
        }
        self.take_queue_slot(call, queue_slot)?;
        let lock = within(&*self.env, deadline, self.locks.acquire_read(shard)).await;
        lock.ok_or(CallError::Late)?.map_err(invalid)
    }

    /// Checks once, under the lock, whether the node holds the shard.
    async fn look(
        &self,
        call: &Call,
        shard: Option<ShardId>,
        slot: &Arc<Slot>,
        deadline: Duration,
        queue_slot: &mut Option<QueueSlot>,
    ) -> Result<Look, CallError> {
        let lock = match shard {
            Some(shard) => Some(self.read_lock(call, shard, deadline, queue_slot).await?),
            None => None,
        };
        if !self.serving.may_serve() {
            return Err(CallError::NotServing);
        }
        let must_end = slot.is_draining() && self.must_end(call, shard);
        match slot.admit(lock, call.fence, must_end) {
            Admission::Admitted(admitted) => Ok(Look::In(admitted)),
            Admission::Draining => Ok(Look::Wait),
            Admission::Behind { fence } if !is_far_ahead(call.fence, fence) => {
                Ok(Look::CatchUp(CallError::NotOwner { shard, fence }))
            }
            Admission::Behind { fence } | Admission::NotHeld { fence } => {
                Err(CallError::NotOwner { shard, fence })
            }
        }
    }

    /// Whether the shard, or the node's own slot, cannot be handed over before this call has ended.
    /// That is so if the call is nested in one that runs there, or in another place that is being
    /// handed over. Without the latter, two calls through two such places in opposite directions
    /// would deadlock.
    ///
    /// A chain comes from outside. Of the objects here, only one that runs a call counts.
    fn must_end(&self, call: &Call, shard: Option<ShardId>) -> bool {
        call.chain.links().any(|link| {
            let id = link.id.borrowed();
            match (self.sharding.shard_of(id), id.location()) {
                (Ok(Some(one)), _) => match self.slot(one) {
                    Ok(slot) if slot.held().is_some() => {
                        (Some(one) == shard || self.is_handed_over(one)) && slot.runs(link)
                    }
                    _ => self.is_handed_over(one),
                },
                (Ok(None), ObjectLocation::Node(node)) if node == self.own.as_str() => {
                    let own = &self.own_slot;
                    (shard.is_none() || own.is_draining()) && own.runs(link)
                }
                (Ok(None), ObjectLocation::Node(node)) => self.is_leaving(node),
                (Ok(None) | Err(_), _) => false,
            }
        })
    }

    /// Whether another node is about to leave.
    fn is_leaving(&self, node: &str) -> bool {
        self.caller.upgrade().is_some_and(|caller| caller.is_leaving(node))
    }

    /// Whether a shard is being handed over, by this node or by another.
    fn is_handed_over(&self, shard: ShardId) -> bool {
        self.slot(shard).is_ok_and(|slot| slot.is_draining())
            || self.caller.upgrade().is_some_and(|caller| caller.is_moving(shard))
    }
}
