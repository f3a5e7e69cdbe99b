//! What the scripted source, handler and sink share: chance, faults, and what was seen of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shardwright_contracts::{FenceEpoch, ShardId};

use super::tally::WorkerFault;
use crate::rng::Rng;
use crate::runtime::executor::Clockwork;

/// A call of the handler that has begun and is neither answered nor dropped.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) number: u64,
    pub(crate) process: usize,
    pub(crate) slot: u64,
    pub(crate) shard: ShardId,
    pub(crate) fence: FenceEpoch,
    pub(crate) items: Vec<u64>,
}

/// Something that a scripted part did, for the director to judge.
#[derive(Clone, Debug)]
pub(crate) enum Sight {
    /// A handler call began.
    Begins(Call),
    /// A handler call went on, so its process may work on the items.
    GoesOn(Call),
    /// An item is about to crash the process.
    Kills { process: usize },
    /// A segment was created a second time.
    BegunTwice(ShardId, FenceEpoch),
    /// A line for the trace.
    Note(String),
}

/// The shared state.
#[derive(Clone)]
pub(crate) struct Script {
    pub(crate) clock: Clockwork,
    state: Arc<Mutex<State>>,
}

/// The state of one moment.
pub(crate) struct State {
    pub(crate) rng: Rng,
    pub(crate) is_stormy: bool,
    pub(crate) faults: BTreeMap<WorkerFault, u64>,
    /// Events of workers, by name.
    pub(crate) events: BTreeMap<&'static str, u64>,
    pub(crate) live: BTreeMap<u64, Call>,
    /// How often the handler was called for each item.
    pub(crate) tries: BTreeMap<u64, u64>,
    /// Durable bytes of each segment.
    pub(crate) segments: BTreeMap<(ShardId, FenceEpoch), Vec<u8>>,
    pub(crate) sights: Vec<Sight>,
    next_call: u64,
}

impl Script {
    pub(crate) fn new(clock: Clockwork, rng: Rng, is_stormy: bool) -> Self {
        let state = State {
            rng,
            is_stormy,
            faults: BTreeMap::new(),
            events: BTreeMap::new(),
            live: BTreeMap::new(),
            tries: BTreeMap::new(),
            segments: BTreeMap::new(),
            sights: Vec::new(),
            next_call: 0,
        };
        Self { clock, state: Arc::new(Mutex::new(state)) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a time between two bounds, in microseconds.
    pub(crate) async fn dawdle(&self, low_us: u64, high_us: u64) {
        let us = self.lock().rng.between(low_us, high_us);
        self.clock.sleep_us(us).await;
    }

    /// Notes that an item crashes the process.
    pub(crate) fn kill(&self, process: usize) {
        let mut state = self.lock();
        state.fault(WorkerFault::ItemKilled);
        state.sights.push(Sight::Kills { process });
    }

    /// Notes that a handler call began; the guard ends it.
    pub(crate) fn begin(&self, call: Call) -> Alive {
        let mut state = self.lock();
        state.next_call += 1;
        let call = Call { number: state.next_call, ..call };
        for item in &call.items {
            *state.tries.entry(*item).or_default() += 1;
        }
        state.live.insert(call.number, call.clone());
        state.sights.push(Sight::Begins(call.clone()));
        drop(state);
        Alive { script: self.clone(), call }
    }
}

impl State {
    pub(crate) fn fault(&mut self, fault: WorkerFault) {
        *self.faults.entry(fault).or_default() += 1;
    }

    /// Whether a fault of so many in a thousand strikes now.
    pub(crate) fn strikes(&mut self, permille: u64, fault: WorkerFault) -> bool {
        let strikes = self.is_stormy && self.rng.chance(permille);
        if strikes {
            self.fault(fault);
        }
        strikes
    }
}

/// A handler call that is alive until this is dropped.
pub(crate) struct Alive {
    script: Script,
    call: Call,
}

impl Alive {
    pub(crate) const fn call(&self) -> &Call {
        &self.call
    }

    /// Notes that the call goes on after a wait.
    pub(crate) fn goes_on(&self) {
        self.script.lock().sights.push(Sight::GoesOn(self.call.clone()));
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.script.lock().live.remove(&self.call.number);
    }
}
