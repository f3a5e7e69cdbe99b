//! The links between processes, which lose and delay calls and answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use shardwright_api::{CallError, UnknownWhy};
use shardwright_node::{BoxFuture, Call, CallService, ShardLoad, Transport};
use shardwright_placement::NodeAddress;
use tokio::sync::oneshot;

use super::tally::ClusterFault;
use crate::rng::Rng;
use crate::runtime::executor::{Clockwork, TaskOwner};

/// Time until a refused connection is reported.
const CONNECT_US: u64 = 20_000;

/// All links, shared by all processes.
#[derive(Clone)]
pub(super) struct Wires(Arc<Mutex<State>>);

/// The current state of the links.
pub(super) struct State {
    pub(super) rng: Rng,
    pub(super) is_stormy: bool,
    /// Pairs of processes that do not reach each other, the lower number first.
    pub(super) cuts: BTreeSet<(usize, usize)>,
    pub(super) faults: BTreeMap<ClusterFault, u64>,
    listeners: BTreeMap<NodeAddress, Listener>,
}

#[derive(Clone)]
struct Listener {
    process: usize,
    service: Arc<dyn CallService>,
}

/// The delivery of a call and of its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trip {
    pub(super) there_us: u64,
    pub(super) back_us: u64,
    pub(super) is_lost: bool,
    pub(super) answer_lost: bool,
    /// Whether the sender learns of a loss at once.
    pub(super) is_reset: bool,
}

impl Wires {
    pub(super) fn new(rng: Rng, is_stormy: bool) -> Self {
        Self(Arc::new(Mutex::new(State {
            rng,
            is_stormy,
            cuts: BTreeSet::new(),
            faults: BTreeMap::new(),
            listeners: BTreeMap::new(),
        })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent after every statement.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts calls for a node.
    pub(super) fn listen(
        &self,
        address: NodeAddress,
        process: usize,
        service: Arc<dyn CallService>,
    ) {
        self.lock().listeners.insert(address, Listener { process, service });
    }

    /// Refuses calls for a node.
    pub(super) fn unlisten(&self, address: &NodeAddress) {
        // The listener is dropped after the lock, because it may own the last handle of its node.
        let _listener = self.lock().listeners.remove(address);
    }
}

impl State {
    pub(super) fn fault(&mut self, fault: ClusterFault) {
        *self.faults.entry(fault).or_default() += 1;
    }

    /// Whether a fault with a probability of `permille` strikes now.
    pub(super) fn strikes(&mut self, permille: u64, fault: ClusterFault) -> bool {
        let strikes = self.is_stormy && self.rng.chance(permille);
        if strikes {
            self.fault(fault);
        }
        strikes
    }

    pub(super) fn is_cut(&self, one: usize, other: usize) -> bool {
        self.cuts.contains(&(one.min(other), one.max(other)))
    }

    fn delay_us(&mut self) -> u64 {
        let delay_us = self.rng.between(50, 1_500);
        if self.strikes(20, ClusterFault::CallDelayed) {
            return delay_us + self.rng.between(5_000, 250_000);
        }
        delay_us
    }

    pub(super) fn trip(&mut self) -> Trip {
        let (there_us, back_us) = (self.delay_us(), self.delay_us());
        let is_lost = self.strikes(8, ClusterFault::CallLost);
        let answer_lost = !is_lost && self.strikes(10, ClusterFault::AnswerLost);
        let is_reset = (is_lost || answer_lost) && self.strikes(500, ClusterFault::CallReset);
        Trip { there_us, back_us, is_lost, answer_lost, is_reset }
    }
}

/// The links of one process.
pub(super) struct Wire {
    pub(super) clock: Clockwork,
    pub(super) wires: Wires,
    pub(super) process: usize,
}

type Reply = oneshot::Sender<Result<Bytes, CallError>>;

impl Transport for Wire {
    fn call<'a>(
        &'a self,
        node: &'a NodeAddress,
        call: Call,
    ) -> BoxFuture<'a, Result<Bytes, CallError>> {
        Box::pin(async move {
            let limit_us = micros(call.timeout);
            let (reply, answer) = oneshot::channel();
            let (clock, wires) = (self.clock.clone(), self.wires.clone());
            let journey = Journey { clock, wires, from: self.process, limit_us };
            self.clock.spawn(TaskOwner::Network, journey.carry(node.clone(), call, reply));
            match self.clock.within(limit_us, answer).await {
                Some(Ok(answer)) => answer,
                Some(Err(_reset)) => Err(CallError::Unknown(UnknownWhy::Lost)),
                None => Err(CallError::Unknown(UnknownWhy::Late)),
            }
        })
    }

    fn loads<'a>(
        &'a self,
        node: &'a NodeAddress,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Vec<ShardLoad>, CallError>> {
        Box::pin(async move {
            let trip = self.wires.lock().trip();
            let journey = Journey {
                clock: self.clock.clone(),
                wires: self.wires.clone(),
                from: self.process,
                limit_us: micros(timeout),
            };
            self.clock.sleep_us(trip.there_us + trip.back_us).await;
            match journey.destination(node, trip) {
                Destination::Listener(listener) => listener.service.loads(),
                Destination::Refused | Destination::Silent => {
                    Err(CallError::Unknown(UnknownWhy::Lost))
                }
            }
        })
    }
}

/// A call in flight.
struct Journey {
    clock: Clockwork,
    wires: Wires,
    from: usize,
    limit_us: u64,
}

/// The destination of a call.
enum Destination {
    Listener(Listener),
    /// The connection is refused.
    Refused,
    /// The call is lost.
    Silent,
}

impl Journey {
    async fn carry(self, node: NodeAddress, call: Call, reply: Reply) {
        let trip = self.wires.lock().trip();
        self.clock.sleep_us(trip.there_us).await;
        let listener = match self.destination(&node, trip) {
            Destination::Listener(listener) => listener,
            Destination::Refused => {
                self.wires.lock().fault(ClusterFault::Unreachable);
                self.clock.sleep_us(CONNECT_US).await;
                let reason = "connection refused".to_owned();
                let _gone =
                    reply.send(Err(CallError::Unreachable { node: node.to_string(), reason }));
                return;
            }
            Destination::Silent => return self.time_out(reply, trip).await,
        };
        let (done, served) = oneshot::channel();
        let to = listener.process;
        self.clock.spawn(TaskOwner::Process(to), async move {
            // The caller may have given up.
            let _gone = done.send(listener.service.answer(call).await);
        });
        // A process that dies resets its connections.
        let Ok(answer) = served.await else { return };
        self.clock.sleep_us(trip.back_us).await;
        if trip.answer_lost || self.wires.lock().is_cut(self.from, to) {
            return self.time_out(reply, trip).await;
        }
        let _gone = reply.send(answer);
    }

    fn destination(&self, node: &NodeAddress, trip: Trip) -> Destination {
        let mut state = self.wires.lock();
        let Some(listener) = state.listeners.get(node).cloned() else {
            return Destination::Refused;
        };
        if trip.is_lost {
            return Destination::Silent;
        }
        if state.is_cut(self.from, listener.process) {
            // An open connection loses the call, and a new one is refused.
            let is_new = state.rng.chance(500);
            return if is_new { Destination::Refused } else { Destination::Silent };
        }
        Destination::Listener(listener)
    }

    /// Lets the sender time out, or resets its connection.
    async fn time_out(&self, reply: Reply, trip: Trip) {
        if !trip.is_reset {
            self.clock.sleep_us(self.limit_us).await;
        }
        drop(reply);
    }
}

pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
