//! The actors of a world: their decisions and their knowledge.
//!
//! Workers and operators are the same in every world around the run protocol. They act on the
//! answers that they received, so their knowledge may be outdated. Some of their requests are wrong
//! on purpose.

mod misuse;
mod operator;
mod work;
mod worker;

use shardwright_contracts::{LogicalTime, OpId, RunId, ShardId, TenantId};
use shardwright_coordination::RunStatus;

use crate::fault::Fault;
use crate::keyspace::Point;
use crate::model::{Model, RunModel};
use crate::request::Request;
use crate::rng::Rng;

pub(crate) use operator::{Operator, remedy};
pub(crate) use worker::{Pending, Worker};

/// The sender of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Actor {
    /// A worker of a tenant. A crash begins its next life.
    Worker { tenant: usize, worker: usize, life: u32 },
    /// A tenant's operator.
    Operator { tenant: usize },
}

impl Actor {
    pub(crate) const fn tenant(self) -> usize {
        let (Self::Worker { tenant, .. } | Self::Operator { tenant }) = self;
        tenant
    }
}

/// A request that an actor decided to send.
#[derive(Clone, Debug)]
pub(crate) struct Intent {
    pub(crate) request: Request,
    /// The points that the sender has actually processed under its lease.
    pub(crate) processed: Option<(Point, Point)>,
    /// The deliberate defect, if there is one.
    pub(crate) fault: Option<Fault>,
    /// Whether the sender waits for the reply and retries.
    pub(crate) awaited: bool,
}

impl Intent {
    pub(crate) const fn honest(request: Request) -> Self {
        Self { request, processed: None, fault: None, awaited: true }
    }

    pub(crate) const fn with_work(request: Request, processed: Option<(Point, Point)>) -> Self {
        Self { request, processed, fault: None, awaited: true }
    }

    /// The same request as misuse: its sender does not wait for the reply.
    pub(crate) fn misuse(self, fault: Fault) -> Self {
        Self { fault: Some(fault), awaited: false, ..self }
    }
}

/// The visible state for an actor, and randomness.
pub(crate) struct Scene<'a> {
    pub(crate) rng: &'a mut Rng,
    pub(crate) ops: &'a mut u64,
    pub(crate) model: &'a Model,
    pub(crate) clock: u64,
    pub(crate) tenant: TenantId,
    pub(crate) tag: u8,
    /// Whether faults have stopped.
    pub(crate) healed: bool,
}

impl Scene<'_> {
    pub(crate) fn op(&mut self) -> OpId {
        *self.ops += 1;
        OpId::from_raw(*self.ops)
    }

    pub(crate) const fn now(&self) -> LogicalTime {
        LogicalTime::from_millis(self.clock)
    }

    /// Random bytes that begin with the tenant's tag.
    pub(crate) fn bytes(&mut self, max: u64) -> Vec<u8> {
        let len = self.rng.between(1, max) as usize;
        let filler = self.rng.next() as u8;
        let mut bytes = vec![filler; len];
        if let Some(first) = bytes.first_mut() {
            *first = self.tag;
        }
        bytes
    }

    /// The tenant's runs for which `wanted` is true.
    pub(crate) fn runs(&self, wanted: impl Fn(&RunModel) -> bool) -> Vec<RunId> {
        let runs = self.model.tenants.get(&self.tenant).map(|tenant| &tenant.runs);
        let wanted = runs.into_iter().flatten().filter(|(_, run)| wanted(run));
        wanted.map(|(id, _)| *id).collect()
    }

    pub(crate) fn pick_run(&mut self, wanted: impl Fn(&RunModel) -> bool) -> Option<RunId> {
        let runs = self.runs(wanted);
        self.rng.pick(&runs).copied()
    }

    pub(crate) fn pick_active(&mut self) -> Option<RunId> {
        self.pick_run(|run| run.status == RunStatus::Active)
    }

    /// Any shard of a run.
    pub(crate) fn pick_shard(&mut self, run: RunId) -> Option<ShardId> {
        let shards = &self.model.run(self.tenant, run)?.shards;
        let index = self.rng.index(shards.len());
        shards.keys().nth(index).copied()
    }
}
