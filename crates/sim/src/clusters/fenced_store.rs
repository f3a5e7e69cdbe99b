//! The store of objects: counters behind fences.
//!
//! Each access presents the fence of its shard. An access below the highest fence presented so far
//! is rejected. A write names the version that it replaces, so a late write overwrites nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shardwright_contracts::{FenceEpoch, ShardId};
use tokio::sync::oneshot;

use super::tally::ClusterFault;
use super::wire::Wires;
use crate::runtime::executor::{Clockwork, TaskOwner};

/// Timeout of an access.
const TIMEOUT_US: u64 = 80_000;

/// A stored counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) value: u64,
    version: u64,
}

/// A read or a write of a counter.
#[derive(Clone, Debug)]
pub(super) struct CounterAccess {
    pub(super) shard: ShardId,
    pub(super) fence: Option<FenceEpoch>,
    pub(super) counter: Arc<str>,
    /// For a write, the row that it replaces and the new value.
    pub(super) write: Option<(Row, u64)>,
}

/// An access that was accepted.
#[derive(Clone, Debug)]
pub(super) struct Effect {
    pub(super) process: usize,
    pub(super) life: u32,
    pub(super) shard: ShardId,
    pub(super) fence: Option<FenceEpoch>,
}

/// Why an access failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Denial {
    StaleFence,
    /// The row is not the one that the write replaces.
    Conflict,
    /// The outcome is unknown.
    TimedOut,
}

/// The store, shared by all nodes.
#[derive(Clone, Default)]
pub(super) struct FencedStore(Arc<Mutex<State>>);

#[derive(Default)]
pub(super) struct State {
    fences: BTreeMap<ShardId, FenceEpoch>,
    pub(super) rows: BTreeMap<Arc<str>, Row>,
    /// Accepted accesses that are not judged yet.
    pub(super) effects: Vec<Effect>,
    /// Number of accesses with a stale fence.
    pub(super) refused: u64,
}

impl FencedStore {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent after every statement.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn apply(&mut self, access: &CounterAccess, author: (usize, u32)) -> Result<Row, Denial> {
        if let Some(fence) = access.fence {
            let highest = self.fences.entry(access.shard).or_insert(fence);
            if fence < *highest {
                self.refused += 1;
                return Err(Denial::StaleFence);
            }
            *highest = fence;
        }
        let (process, life) = author;
        let (shard, fence) = (access.shard, access.fence);
        self.effects.push(Effect { process, life, shard, fence });
        let row = self.rows.entry(Arc::clone(&access.counter)).or_default();
        if let Some((over, value)) = access.write {
            if over != *row {
                return Err(Denial::Conflict);
            }
            *row = Row { value, version: row.version + 1 };
        }
        Ok(*row)
    }
}

/// A node's link to the store of objects.
#[derive(Clone)]
pub(super) struct FencedStoreLink {
    pub(super) clock: Clockwork,
    pub(super) wires: Wires,
    pub(super) fenced_store: FencedStore,
    pub(super) process: usize,
    pub(super) life: u32,
}

impl FencedStoreLink {
    pub(super) async fn access(&self, access: CounterAccess) -> Result<Row, Denial> {
        let (reply, answer) = oneshot::channel();
        self.clock.spawn(TaskOwner::Network, self.clone().carry(access, reply));
        match self.clock.within(TIMEOUT_US, answer).await {
            Some(Ok(result)) => result,
            Some(Err(_)) | None => Err(Denial::TimedOut),
        }
    }

    async fn carry(self, access: CounterAccess, reply: oneshot::Sender<Result<Row, Denial>>) {
        let (mut there_us, back_us, is_lost, reply_lost) = {
            let mut wires = self.wires.lock();
            let (there_us, back_us) = (wires.rng.between(50, 900), wires.rng.between(50, 900));
            let is_late = wires.strikes(8, ClusterFault::EffectLate);
            let late_us = if is_late { TIMEOUT_US + wires.rng.below(1_500_000) } else { 0 };
            let is_lost = !is_late && wires.strikes(8, ClusterFault::EffectLost);
            let reply_lost =
                !is_late && !is_lost && wires.strikes(8, ClusterFault::EffectReplyLost);
            (there_us + late_us, back_us, is_lost, reply_lost)
        };
        there_us = there_us.max(1);
        self.clock.sleep_us(there_us).await;
        if is_lost {
            return;
        }
        let result = self.fenced_store.lock().apply(&access, (self.process, self.life));
        self.clock.sleep_us(back_us).await;
        if !reply_lost {
            // The caller may have given up.
            let _gone = reply.send(result);
        }
    }
}
