//! What the test remembers of a sequence, to choose what comes next.

use shardwright_contracts::{LogicalTime, ShardId, ShardKey, TenantId};
use shardwright_coordination::{IdempotentOutcome, Lease, RestoredShardState};

use super::op::{Answer, Hold, Mark, Op, Part, Roots, Text};

/// A lease that was granted, and the shard as its holder knows it.
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

    /// Takes note of what a call came to.
    pub(crate) fn note(&mut self, op: &Op, answer: &Answer) {
        match (op, answer) {
            (Op::Advance(millis), _) => {
                self.now = self.now.saturating_add(*millis);
                return;
            }
            (
                Op::Acquire(tenant, ..) | Op::Claim(tenant, ..),
                Answer::Acquire(Ok(state)) | Answer::Claim(Ok(state)),
            ) => self.granted(*tenant, state),
            (Op::Register(tenant, run, roots, _), Answer::Register(Ok(_)))
            | (Op::CreateWith(tenant, run, _, roots, _), Answer::CreateWith(Ok(_))) => {
                let Roots(roots) = roots;
                let keys = roots.iter().map(|(shard, _)| ShardKey::new(*run, *shard));
                keys.for_each(|key| self.know(*tenant, key));
            }
            (Op::Hold(tenant, lease, hold), answer) => self.held(*tenant, lease, hold, answer),
            _ => {}
        }
        self.history.push(op.clone());
    }

    fn granted(&mut self, tenant: TenantId, state: &RestoredShardState) {
        let (spec, cursor) = (state.spec.as_spec_ref(), state.cursor.as_update());
        let part = Part {
            start: Text(spec.start().to_vec()),
            end: Text(spec.end().to_vec()),
            metadata: Text(spec.metadata().to_vec()),
            cursor: Mark {
                last_key: cursor.last_key().map(|key| Text(key.to_vec())),
                token: Text(cursor.token().unwrap_or_default().to_vec()),
            },
        };
        self.know(tenant, state.lease.key());
        self.held.push(Held { tenant, lease: state.lease, part });
    }

    fn held(&mut self, tenant: TenantId, lease: &Lease, hold: &Hold, answer: &Answer) {
        let key = lease.key();
        match answer {
            Answer::Replace(Ok(outcome)) => {
                let children = outcome.clone().into_inner().children.clone();
                children.into_iter().for_each(|child| self.know_child(tenant, key, child));
            }
            Answer::Residual(Ok(outcome)) => {
                let residual = outcome.into_inner().residual;
                self.know_child(tenant, key, residual);
            }
            _ => {}
        }
        let is_same = |held: &&mut Held| held.tenant == tenant && held.lease == *lease;
        let Some(held) = self.held.iter_mut().rev().find(is_same) else { return };
        match (hold, answer) {
            (Hold::Renew, Answer::Renew(Ok(renewed))) => {
                held.lease = held.lease.renewed(renewed.new_deadline);
            }
            (Hold::Checkpoint(mark, _), Answer::Checkpoint(Ok(IdempotentOutcome::Executed(_)))) => {
                held.part.cursor = mark.clone();
            }
            (
                Hold::Residual { boundary, .. },
                Answer::Residual(Ok(IdempotentOutcome::Executed(_))),
            ) => held.part.end = boundary.clone(),
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
