//! History of a sequence, for the choice of the next call.

use shardwright_contracts::{
    CursorInput, CursorUpdate, LogicalTime, ShardId, ShardKey, ShardSpecRef, SplitPart, TenantId,
};
use shardwright_coordination::operation::{Checkpoint, SplitResidual};
use shardwright_coordination::{
    Answer, IdempotentOutcome, Lease, Reply, Request, RestoredShardState,
};

use super::op::Op;

/// A range that owns its bytes, with its cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) start: Vec<u8>,
    pub(crate) end: Vec<u8>,
    pub(crate) metadata: Vec<u8>,
    pub(crate) cursor: CursorInput<Vec<u8>>,
}

impl Part {
    pub(crate) fn of(spec: ShardSpecRef<'_>, cursor: CursorUpdate<'_>) -> Self {
        let [start, end, metadata] =
            [spec.start(), spec.end(), spec.metadata()].map(<[u8]>::to_vec);
        Self { start, end, metadata, cursor: cursor.map(|bytes| bytes.to_vec()) }
    }

    pub(crate) fn last_key(&self) -> Option<&[u8]> {
        self.cursor.as_ref().last_key()
    }

    pub(crate) fn to_split(&self) -> SplitPart<Vec<u8>> {
        let spec = ShardSpecRef::new(&self.start, &self.end, &self.metadata);
        SplitPart { spec: spec.map(|bytes| bytes.to_vec()), cursor: self.cursor.clone() }
    }
}

/// A granted lease, and the shard as its holder knows it.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) tenant: TenantId,
    pub(crate) lease: Lease,
    pub(crate) part: Part,
}

#[derive(Clone, Debug)]
pub(crate) struct Memory {
    pub(crate) now: LogicalTime,
    pub(crate) held: Vec<Held>,
    pub(crate) shards: Vec<(TenantId, ShardKey)>,
    pub(crate) history: Vec<Op>,
}

impl Memory {
    pub(crate) const fn new(now: LogicalTime) -> Self {
        Self { now, held: Vec::new(), shards: Vec::new(), history: Vec::new() }
    }

    /// Records the answer of a call.
    pub(crate) fn note(&mut self, tenant: TenantId, request: &Request<Vec<u8>>, answer: &Answer) {
        self.history.push(Op::Call(tenant, Box::new(request.clone())));
        let Ok(reply) = answer else { return };
        match (request, reply) {
            (_, Reply::Granted(state)) => self.granted(tenant, state),
            (Request::RegisterShards(it), _) => {
                it.shards
                    .iter()
                    .for_each(|root| self.know(tenant, ShardKey::new(it.run, root.shard)));
            }
            (Request::CreateRunWithShards(it), _) => {
                it.shards
                    .iter()
                    .for_each(|root| self.know(tenant, ShardKey::new(it.run, root.shard)));
            }
            _ => {}
        }
        if let Some(lease) = request.lease() {
            self.held(tenant, lease, request, reply);
        }
    }

    pub(crate) fn advance(&mut self, millis: u64) {
        self.now = self.now.saturating_add(millis);
    }

    fn granted(&mut self, tenant: TenantId, state: &RestoredShardState) {
        let part = Part::of(state.spec.as_spec_ref(), state.cursor.as_update());
        self.know(tenant, state.lease.key());
        self.held.push(Held { tenant, lease: state.lease, part });
    }

    fn held(&mut self, tenant: TenantId, lease: &Lease, request: &Request<Vec<u8>>, reply: &Reply) {
        let key = lease.key();
        match reply {
            Reply::Replaced(outcome) => {
                let children = outcome.clone().into_inner().children;
                children.into_iter().for_each(|child| self.know_child(tenant, key, child));
            }
            Reply::Residual(outcome) => {
                let residual = outcome.into_inner().residual;
                self.know_child(tenant, key, residual);
            }
            _ => {}
        }
        let is_same = |held: &&mut Held| held.tenant == tenant && held.lease == *lease;
        let Some(held) = self.held.iter_mut().rev().find(is_same) else { return };
        match (request, reply) {
            (_, Reply::Renewed(renewed)) => held.lease = lease.renewed(renewed.new_deadline),
            (
                Request::Checkpoint(Checkpoint { cursor, .. }),
                Reply::Noticed(IdempotentOutcome::Executed(_)),
            ) => held.part.cursor = cursor.clone(),
            (
                Request::SplitResidual(SplitResidual { narrowed, .. }),
                Reply::Residual(IdempotentOutcome::Executed(_)),
            ) => held.part.end = narrowed.as_ref().end().to_vec(),
            _ => {}
        }
    }

    fn know_child(&mut self, tenant: TenantId, parent: ShardKey, child: ShardId) {
        self.know(tenant, ShardKey::new(parent.run, child));
    }

    fn know(&mut self, tenant: TenantId, key: ShardKey) {
        if !self.shards.contains(&(tenant, key)) {
            self.shards.push((tenant, key));
        }
    }
}
