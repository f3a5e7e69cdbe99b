//! The shared state of the scripted source, handler and sink: randomness, faults and events.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shardwright_contracts::{FenceEpoch, ShardId};

use super::tally::WorkerFault;
use crate::rng::Rng;
use crate::runtime::executor::Clockwork;

/// A handler call in progress.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) number: u64,
    pub(crate) process: usize,
    pub(crate) slot: u64,
    pub(crate) shard: ShardId,
    pub(crate) fence: FenceEpoch,
    /// Number of the try, from 1.
    pub(crate) attempt: u32,
    pub(crate) items: Vec<u64>,
}

/// Something that a scripted part did, for the director to judge.
#[derive(Clone, Debug)]
pub(crate) enum ScriptEvent {
    /// A handler call began.
    Started(Call),
    /// A handler call resumed after a wait, so its process may work on the items.
    Resumed(Call),
    /// An item was split off to wait for its retry.
    SetAside { shard: ShardId, item: u64, tries: u32 },
    /// An item is about to crash the process.
    Crashes { process: usize },
    /// A segment was created a second time.
    CreatedTwice(ShardId, FenceEpoch),
    /// A line for the trace.
    Note(String),
}

/// The shared state.
#[derive(Clone)]
pub(crate) struct Script {
    pub(crate) clock: Clockwork,
    state: Arc<Mutex<State>>,
}

/// The current state.
pub(crate) struct State {
    pub(crate) rng: Rng,
    pub(crate) is_stormy: bool,
    pub(crate) faults: BTreeMap<WorkerFault, u64>,
    /// Events of workers, by name.
    pub(crate) events: BTreeMap<&'static str, u64>,
    pub(crate) live: BTreeMap<u64, Call>,
    /// Number of handler calls for each item.
    pub(crate) tries: BTreeMap<u64, u64>,
    /// Items for which the handler returned a result.
    pub(crate) resolved: BTreeSet<u64>,
    /// Durable bytes of each segment.
    pub(crate) segments: BTreeMap<(ShardId, FenceEpoch), Vec<u8>>,
    pub(crate) script_events: Vec<ScriptEvent>,
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
            resolved: BTreeSet::new(),
            segments: BTreeMap::new(),
            script_events: Vec::new(),
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

    /// Waits for a usual time of up to `usual_us`, and for longer if the fault strikes.
    pub(crate) async fn delay(&self, usual_us: u64, permille: u64, fault: WorkerFault) {
        self.dawdle(20, usual_us).await;
        let is_slow = self.lock().strikes(permille, fault);
        if is_slow {
            self.dawdle(5_000, 450_000).await;
        }
    }

    /// Notes that an item crashes the process.
    pub(crate) fn kill(&self, process: usize) {
        let mut state = self.lock();
        state.fault(WorkerFault::ItemKilled);
        state.script_events.push(ScriptEvent::Crashes { process });
    }

    /// Notes that a handler call began. The guard ends it.
    pub(crate) fn begin(&self, call: Call) -> Alive {
        let mut state = self.lock();
        state.next_call += 1;
        let call = Call { number: state.next_call, ..call };
        for item in &call.items {
            *state.tries.entry(*item).or_default() += 1;
        }
        state.live.insert(call.number, call.clone());
        state.script_events.push(ScriptEvent::Started(call.clone()));
        drop(state);
        Alive { script: self.clone(), call }
    }
}

impl State {
    pub(crate) fn fault(&mut self, fault: WorkerFault) {
        *self.faults.entry(fault).or_default() += 1;
    }

    /// Whether a fault with a probability of `permille` strikes now.
    pub(crate) fn strikes(&mut self, permille: u64, fault: WorkerFault) -> bool {
        let strikes = self.is_stormy && self.rng.chance(permille);
        if strikes {
            self.fault(fault);
        }
        strikes
    }
}

/// A guard of a handler call, which ends when it is dropped.
pub(crate) struct Alive {
    script: Script,
    call: Call,
}

impl Alive {
    pub(crate) const fn call(&self) -> &Call {
        &self.call
    }

    /// Notes that the call resumes after a wait.
    pub(crate) fn goes_on(&self) {
        self.script.lock().script_events.push(ScriptEvent::Resumed(self.call.clone()));
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.script.lock().live.remove(&self.call.number);
    }
}
