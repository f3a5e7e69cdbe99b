//! The link between a process and the server, which loses, delays, repeats and reorders messages.
//!
//! A caller that times out gets an unknown outcome. Its request may still arrive, and so may the
//! reply.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use shardwright_contracts::{BoxFuture, InfraError, TenantId};
use shardwright_coordination::{Backend, CoordError, operation};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::server::Server;
use crate::director::lock;
use crate::fault::Fault;
use crate::request::{Answer, Request};
use crate::rng::Rng;
use crate::runtime::executor::{Clockwork, TaskId, TaskOwner};

/// Timeout of a call, in milliseconds.
const TIMEOUT_MS: (u64, u64) = (20, 120);

/// A reply that arrived after its caller had timed out.
pub(super) struct LateReply {
    pub(super) task: TaskId,
    pub(super) answer: Answer,
}

/// The state of the network.
pub(super) struct WireState {
    rng: Rng,
    healed: bool,
    next_message: u64,
    /// Delayed messages.
    in_flight: BTreeSet<u64>,
    /// Callers that wait for an answer.
    waiting: BTreeSet<TaskId>,
    late: Vec<LateReply>,
    pub(super) faults: BTreeMap<Fault, u64>,
}

/// The link of a process.
#[derive(Clone)]
pub(crate) struct FaultyWire {
    server: Arc<Server>,
    clock: Clockwork,
    state: Arc<Mutex<WireState>>,
}

/// The delivery of a message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Delivery {
    Lost,
    Delayed(u64),
    /// Delivered now, and again later.
    Twice(u64),
    Now,
}

impl WireState {
    fn fault(&mut self, fault: Fault) {
        *self.faults.entry(fault).or_default() += 1;
    }

    fn request_delivery(&mut self) -> Delivery {
        let later = self.rng.between(1, 500);
        match if self.healed { 999 } else { self.rng.below(1_000) } {
            0..25 => Delivery::Lost,
            25..85 => Delivery::Delayed(later),
            85..125 => Delivery::Twice(later),
            _ => Delivery::Now,
        }
    }

    fn reply_delivery(&mut self) -> Delivery {
        let later = self.rng.between(1, 400);
        match if self.healed { 999 } else { self.rng.below(1_000) } {
            0..50 => Delivery::Lost,
            50..85 => Delivery::Delayed(later),
            85..105 => Delivery::Twice(later),
            _ => Delivery::Now,
        }
    }

    /// A delayed message leaves.
    fn depart(&mut self) -> u64 {
        self.next_message += 1;
        self.in_flight.insert(self.next_message);
        self.next_message
    }

    /// A delayed message arrives. It may overtake one that left earlier.
    fn arrive(&mut self, message: u64) {
        self.in_flight.remove(&message);
        if self.in_flight.first().is_some_and(|first| *first < message) {
            self.fault(Fault::Reordered);
        }
    }
}

/// Removes a call from the waiting ones when it is answered or times out.
struct Waiting {
    state: Arc<Mutex<WireState>>,
    task: TaskId,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        lock(&self.state).waiting.remove(&self.task);
    }
}

impl FaultyWire {
    pub(super) fn new(server: Arc<Server>, clock: Clockwork, rng: Rng) -> Self {
        let state = WireState {
            rng,
            healed: false,
            next_message: 0,
            in_flight: BTreeSet::new(),
            waiting: BTreeSet::new(),
            late: Vec::new(),
            faults: BTreeMap::new(),
        };
        Self { server, clock, state: Arc::new(Mutex::new(state)) }
    }

    /// Stops all faults.
    pub(super) fn heal(&self) {
        lock(&self.state).healed = true;
    }

    pub(super) fn take_late(&self) -> Vec<LateReply> {
        std::mem::take(&mut lock(&self.state).late)
    }

    pub(super) fn faults(&self) -> BTreeMap<Fault, u64> {
        lock(&self.state).faults.clone()
    }

    fn fault(&self, fault: Fault) {
        lock(&self.state).fault(fault);
    }

    /// Delivers a request now, and returns its reply when it arrives. None if the reply is lost.
    async fn deliver(&self, task: TaskId, tenant: TenantId, request: &Request) -> Option<Answer> {
        let answer = self.server.serve(self.clock.now_ms(), task, tenant, request);
        let delivery = lock(&self.state).reply_delivery();
        match delivery {
            Delivery::Lost => {
                self.fault(Fault::ReplyLost);
                None
            }
            Delivery::Delayed(later) => {
                self.fault(Fault::ReplyDelayed);
                self.delay(later).await;
                Some(answer)
            }
            Delivery::Twice(later) => {
                self.fault(Fault::ReplyDuplicated);
                let (wire, again) = (self.clone(), answer.clone());
                self.clock.spawn(TaskOwner::Network, async move {
                    wire.delay(later).await;
                    wire.reply_late(task, again);
                });
                Some(answer)
            }
            Delivery::Now => Some(answer),
        }
    }

    async fn delay(&self, later_ms: u64) {
        let message = lock(&self.state).depart();
        self.clock.sleep_us(later_ms * 1_000).await;
        lock(&self.state).arrive(message);
    }

    fn reply_late(&self, task: TaskId, answer: Answer) {
        let state = &mut *lock(&self.state);
        state.fault(Fault::ReplyLate);
        state.late.push(LateReply { task, answer });
    }

    /// Delivers a request in a task of its own, which outlives its caller.
    fn post(
        &self,
        later_ms: u64,
        task: TaskId,
        tenant: TenantId,
        request: Request,
        inbox: UnboundedSender<Answer>,
    ) {
        let wire = self.clone();
        self.clock.spawn(TaskOwner::Network, async move {
            if later_ms > 0 {
                wire.delay(later_ms).await;
                if !lock(&wire.state).waiting.contains(&task) {
                    wire.fault(Fault::RequestLate);
                }
            }
            let Some(answer) = wire.deliver(task, tenant, &request).await else { return };
            if lock(&wire.state).waiting.contains(&task) {
                inbox.send(answer).ok();
            } else {
                wire.reply_late(task, answer);
            }
        });
    }

    /// Sends a request and waits for its reply until the timeout.
    async fn send(&self, tenant: TenantId, request: Request) -> Answer {
        let task = self.clock.current().unwrap_or_default();
        lock(&self.state).waiting.insert(task);
        let _waiting = Waiting { state: Arc::clone(&self.state), task };
        // Keeps the channel open, so that a lost message times out.
        let (inbox, mut answers) = unbounded_channel();
        let (delivery, timeout_ms) = {
            let state = &mut *lock(&self.state);
            (state.request_delivery(), state.rng.between(TIMEOUT_MS.0, TIMEOUT_MS.1))
        };
        match delivery {
            Delivery::Lost => self.fault(Fault::RequestLost),
            Delivery::Delayed(later) => {
                self.fault(Fault::RequestDelayed);
                self.post(later, task, tenant, request.clone(), inbox.clone());
            }
            Delivery::Twice(later) => {
                self.fault(Fault::RequestDuplicated);
                self.post(later, task, tenant, request.clone(), inbox.clone());
                self.post(0, task, tenant, request.clone(), inbox.clone());
            }
            Delivery::Now => self.post(0, task, tenant, request.clone(), inbox.clone()),
        }
        if let Some(Some(answer)) = self.clock.within(timeout_ms * 1_000, answers.recv()).await {
            return answer;
        }
        let (operation, message) = (request.name(), "no reply in time".into());
        Err(CoordError::BackendError(InfraError::Unknown { operation, message }))
    }
}

impl Backend for FaultyWire {
    fn call<'a>(
        &'a self,
        tenant: TenantId,
        request: operation::Request<&'a [u8]>,
    ) -> BoxFuture<'a, Answer> {
        let request = request.to_owned();
        Box::pin(async move { self.send(tenant, request).await })
    }
}
