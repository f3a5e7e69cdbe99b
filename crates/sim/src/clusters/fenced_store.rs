//! The store of objects: counters that refuse a stale fence.
//!
//! Whoever opens a counter shows the fence of its shard, and whoever shows a lower one from then on
//! is refused. A write names the version that it follows, so that one which comes late overwrites
//! nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shardwright_contracts::{FenceEpoch, ShardId};
use tokio::sync::oneshot;

use super::tally::ClusterFault;
use super::wire::Wires;
use crate::runtime::executor::{Clockwork, TaskOwner};

/// How long a node waits for an answer of the store of objects.
const TIMEOUT_US: u64 = 80_000;

/// A counter as it is stored.
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
    /// What to write, and over what; nothing, to read.
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

/// Why a access was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Denial {
    StaleFence,
    Overtaken,
    /// It may have been done.
    Silence,
}

/// The store, shared by everything that is under way.
#[derive(Clone, Default)]
pub(super) struct FencedStore(Arc<Mutex<State>>);

#[derive(Default)]
pub(super) struct State {
    fences: BTreeMap<ShardId, FenceEpoch>,
    pub(super) rows: BTreeMap<Arc<str>, Row>,
    /// What was accepted and not judged yet.
    pub(super) effects: Vec<Effect>,
    pub(super) refused: u64,
}

impl FencedStore {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // What is inside is whole after every statement.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn apply(&mut self, access: &CounterAccess, who: (usize, u32)) -> Result<Row, Denial> {
        if let Some(fence) = access.fence {
            let highest = self.fences.entry(access.shard).or_insert(fence);
            if fence < *highest {
                self.refused += 1;
                return Err(Denial::StaleFence);
            }
            *highest = fence;
        }
        let (process, life) = who;
        let (shard, fence) = (access.shard, access.fence);
        self.effects.push(Effect { process, life, shard, fence });
        let row = self.rows.entry(Arc::clone(&access.counter)).or_default();
        if let Some((over, value)) = access.write {
            if over != *row {
                return Err(Denial::Overtaken);
            }
            *row = Row { value, version: row.version + 1 };
        }
        Ok(*row)
    }
}

/// A node's line to the store of objects.
#[derive(Clone)]
pub(super) struct FencedStoreLine {
    pub(super) clock: Clockwork,
    pub(super) wires: Wires,
    pub(super) fenced_store: FencedStore,
    pub(super) process: usize,
    pub(super) life: u32,
}

impl FencedStoreLine {
    pub(super) async fn ask(&self, access: CounterAccess) -> Result<Row, Denial> {
        let (reply, answer) = oneshot::channel();
        self.clock.spawn(TaskOwner::Network, self.clone().carry(access, reply));
        match self.clock.within(TIMEOUT_US, answer).await {
            Some(Ok(result)) => result,
            Some(Err(_)) | None => Err(Denial::Silence),
        }
    }

    async fn carry(self, access: CounterAccess, reply: oneshot::Sender<Result<Row, Denial>>) {
        let (mut there_us, back_us, is_lost, is_unheard) = {
            let mut wires = self.wires.lock();
            let (there_us, back_us) = (wires.rng.between(50, 900), wires.rng.between(50, 900));
            let is_late = wires.strikes(8, ClusterFault::EffectLate);
            let late_us = if is_late { TIMEOUT_US + wires.rng.below(1_500_000) } else { 0 };
            let is_lost = !is_late && wires.strikes(8, ClusterFault::EffectLost);
            let is_unheard = !is_late && !is_lost && wires.strikes(8, ClusterFault::EffectUnheard);
            (there_us + late_us, back_us, is_lost, is_unheard)
        };
        there_us = there_us.max(1);
        self.clock.sleep_us(there_us).await;
        if is_lost {
            return;
        }
        let result = self.fenced_store.lock().apply(&access, (self.process, self.life));
        self.clock.sleep_us(back_us).await;
        if !is_unheard {
            // Whoever asked may have given up.
            let _gone = reply.send(result);
        }
    }
}
