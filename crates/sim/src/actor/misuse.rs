//! Requests of a confused, buggy or hostile worker, which does not wait for the replies.
//!
//! The worker has processed everything that it claims to have processed. So a request that happens
//! to be valid does no harm.

use shardwright_contracts::limits::{MAX_KEY_SIZE, MAX_PARK_DETAIL_SIZE, MAX_TOKEN_SIZE};
use shardwright_contracts::{FenceEpoch, RunId, ShardId, ShardKey, TenantId};
use shardwright_coordination::{Lease, ParkReason, ShardFilter};

use super::work::{ACTIONS, Action};
use super::worker::{Held, Worker};
use super::{Intent, Scene};
use crate::fault::Fault;
use crate::keyspace::{POINTS, key, point_at_or_after};
use crate::request::operation::{
    Acquire, Checkpoint, Claim, CollectClaimCandidates, Complete, GetRun, GetRunProgress,
    ListShards, ParkShard, RequestSplit,
};
use crate::request::{Cursor, Request, cursor_at, last_key, set_op};

const KINDS: &[(u64, Fault)] = &[
    (26, Fault::Zombie),
    (14, Fault::Resent),
    (16, Fault::OpIdReused),
    (8, Fault::CursorRegressed),
    (8, Fault::CursorOutOfRange),
    (3, Fault::CursorOversized),
    (5, Fault::CursorMalformed),
    (3, Fault::DetailOversized),
    (10, Fault::PlanStale),
    (4, Fault::PlanForeign),
    (8, Fault::ResidualChanged),
    (9, Fault::TenantForged),
    (7, Fault::TenantForeign),
    (10, Fault::OwnerForged),
    (7, Fault::FenceForged),
    (5, Fault::ShardUnknown),
    (10, Fault::EndedRunTouched),
];

impl Worker {
    /// A request that is wrong on purpose, if the worker's state allows one.
    pub(crate) fn misbehave(&mut self, scene: &mut Scene<'_>) -> Option<Intent> {
        let fault = scene.rng.weighted(KINDS)?;
        let intent = match fault {
            Fault::Zombie => {
                let index = scene.rng.index(self.ghosts.len());
                any_action(self.ghosts.get_mut(index)?, scene)
            }
            Fault::Resent => self.sent.get(scene.rng.index(self.sent.len())).cloned(),
            Fault::OpIdReused => self.reuse_op(scene),
            Fault::TenantForeign => self.call_abroad(scene),
            Fault::OwnerForged => self.forge_owner(scene),
            Fault::ShardUnknown => self.call_nowhere(scene),
            Fault::EndedRunTouched => self.touch_ended(scene),
            Fault::ResidualChanged => self.change_residual(scene),
            _ => {
                let index = scene.rng.index(self.held.len());
                spoil(fault, self.held.get(index)?, scene)
            }
        }?;
        Some(intent.misuse(fault))
    }

    /// Another operation under an op id that was used before.
    fn reuse_op(&self, scene: &mut Scene<'_>) -> Option<Intent> {
        let old = self.sent.get(scene.rng.index(self.sent.len()))?;
        let lease = old.request.lease()?;
        let known =
            self.held.iter().chain(&self.ghosts).find(|held| held.lease.key() == lease.key());
        let mut intent = any_action(&mut known?.clone(), scene)?;
        let reused = old.request.op_id()?;
        intent.request.op_id()?;
        set_op(&mut intent.request, reused);
        Some(intent)
    }

    /// A request for another tenant's shard, in the worker's own tenant.
    fn call_abroad(&self, scene: &mut Scene<'_>) -> Option<Intent> {
        let other = other_tenant(scene)?;
        let (run, state) = {
            let runs = &scene.model.tenants.get(&other)?.runs;
            let index = scene.rng.index(runs.len());
            runs.iter().nth(index)?
        };
        let index = scene.rng.index(state.shards.len());
        let shard = *state.shards.keys().nth(index)?;
        let (key, worker, run) = (ShardKey::new(*run, shard), self.id, *run);
        Some(Intent::honest(match scene.rng.below(5) {
            0 => Acquire { key, worker }.into(),
            1 => ListShards { run, filter: ShardFilter::all() }.into(),
            2 => GetRun { run }.into(),
            3 => Claim { run, worker }.into(),
            _ => GetRunProgress { run }.into(),
        }))
    }

    /// A request under the fence of the shard's holder, from another worker.
    fn forge_owner(&self, scene: &mut Scene<'_>) -> Option<Intent> {
        let run = scene.pick_active()?;
        let now = scene.now();
        let shards = &scene.model.run(scene.tenant, run)?.shards;
        let held: Vec<_> = shards.iter().filter(|(_, shard)| shard.holder(now).is_some()).collect();
        let (id, shard) = *scene.rng.pick(&held)?;
        let (_, deadline) = shard.lease?;
        let fence = FenceEpoch::from_raw(shard.fence).ok()?;
        let lease = Lease::new(scene.tenant, ShardKey::new(run, *id), self.id, fence, deadline);
        let mut held = Held::assume(scene.tag, lease, shard.spec.clone(), shard.cursor.clone());
        any_action(&mut held, scene)
    }

    /// A residual split that the shard's op log has evicted, under the same id with another plan.
    fn change_residual(&self, scene: &mut Scene<'_>) -> Option<Intent> {
        let run = scene.pick_active()?;
        let shards = &scene.model.run(scene.tenant, run)?.shards;
        let forgotten: Vec<_> = shards
            .iter()
            .flat_map(|(id, shard)| shard.residuals.keys().map(move |op| (*id, shard, *op)))
            .filter(|(_, shard, op)| shard.ops.get(*op).is_none())
            .collect();
        let (id, shard, op) = *scene.rng.pick(&forgotten)?;
        let fence = FenceEpoch::from_raw(shard.fence).ok()?;
        let lease = Lease::new(scene.tenant, ShardKey::new(run, id), self.id, fence, scene.now());
        let held = Held::assume(scene.tag, lease, shard.spec.clone(), Cursor::initial());
        let parts = held.divide(2, scene)?;
        Some(Intent::honest(held.give_away(&parts, op)?))
    }

    fn call_nowhere(&mut self, scene: &mut Scene<'_>) -> Option<Intent> {
        let (worker, run) = (self.id, RunId::from_raw(1 << 40));
        let known = scene.pick_active().unwrap_or(run);
        let key = ShardKey::new(known, ShardId::from_raw(1 << 40));
        let request = match scene.rng.below(7) {
            0 => Acquire { key, worker }.into(),
            1 => RequestSplit { key, requester: worker, patience_ms: 0 }.into(),
            2 => Claim { run, worker }.into(),
            3 => ListShards { run, filter: ShardFilter::available() }.into(),
            4 => CollectClaimCandidates { run, worker, limit: 3 }.into(),
            _ => {
                let index = scene.rng.index(self.held.len());
                let mut held = self.held.get(index)?.clone();
                let Held { lease, .. } = held;
                held.lease =
                    Lease::new(lease.tenant(), key, worker, lease.fence(), lease.deadline());
                return any_action(&mut held, scene);
            }
        };
        Some(Intent::honest(request))
    }

    fn touch_ended(&mut self, scene: &mut Scene<'_>) -> Option<Intent> {
        let ended =
            |id| scene.model.run(scene.tenant, id).is_some_and(|run| run.status.is_terminal());
        let of_ended: Vec<Held> = self
            .ghosts
            .iter()
            .chain(&self.held)
            .filter(|held| ended(held.lease.key().run))
            .cloned()
            .collect();
        if let Some(held) = scene.rng.pick(&of_ended) {
            return any_action(&mut held.clone(), scene);
        }
        let run = scene.pick_run(|run| run.status.is_terminal())?;
        let (worker, shard) = (self.id, scene.pick_shard(run)?);
        let key = ShardKey::new(run, shard);
        Some(Intent::honest(match scene.rng.below(3) {
            0 => Acquire { key, worker }.into(),
            1 => RequestSplit { key, requester: worker, patience_ms: 0 }.into(),
            _ => Claim { run, worker }.into(),
        }))
    }
}

fn other_tenant(scene: &Scene<'_>) -> Option<TenantId> {
    scene.model.tenants.keys().find(|tenant| **tenant != scene.tenant).copied()
}

/// A random action on a shard, held or not.
fn any_action(held: &mut Held, scene: &mut Scene<'_>) -> Option<Intent> {
    scene.rng.pick(ACTIONS)?.plan(held, scene)
}

/// A request on a held shard with one defect.
fn spoil(fault: Fault, held: &Held, scene: &mut Scene<'_>) -> Option<Intent> {
    let (mut held, tag, lease) = (held.clone(), scene.tag, held.lease);
    let cursor = match fault {
        Fault::TenantForged => {
            let other = other_tenant(scene)?;
            held.lease =
                Lease::new(other, lease.key(), lease.owner(), lease.fence(), lease.deadline());
            return any_action(&mut held, scene);
        }
        Fault::FenceForged => {
            let fence = FenceEpoch::from_raw(lease.fence().as_raw().wrapping_add(1)).ok()?;
            held.lease =
                Lease::new(lease.tenant(), lease.key(), lease.owner(), fence, lease.deadline());
            return any_action(&mut held, scene);
        }
        Fault::PlanForeign | Fault::PlanStale => return misplan(fault, held, scene),
        Fault::DetailOversized => {
            let mut detail = scene.bytes(1);
            detail.resize(MAX_PARK_DETAIL_SIZE + 1, 0);
            let (reason, op) = (ParkReason::Other, scene.op());
            return Some(Intent::honest(ParkShard { lease, reason, detail, op }.into()));
        }
        Fault::CursorRegressed => {
            let done = scene.model.shard(scene.tenant, lease.key().run, lease.key().shard)?;
            let (done, start) = (last_key(&done.cursor)?, held.spec.as_ref().start());
            match start < done {
                true if scene.rng.chance(700) => Cursor::at(start.to_vec()),
                _ => Cursor::initial(),
            }
        }
        Fault::CursorOutOfRange => match scene.rng.chance(700) {
            true => {
                let after = key(tag, held.end.min(POINTS)).max(held.spec.as_ref().end().to_vec());
                Cursor::at(after)
            }
            false => Cursor::at(vec![tag]),
        },
        Fault::CursorOversized => {
            let mut long = held.spec.as_ref().start().to_vec();
            match scene.rng.chance(500) {
                true => {
                    long.resize(MAX_KEY_SIZE + 1, 1);
                    Cursor::at(long)
                }
                false => cursor_at(long, Some(vec![tag; MAX_TOKEN_SIZE + 1])),
            }
        }
        _ => match scene.rng.chance(500) {
            true => Cursor::new(None, Some(scene.bytes(4))),
            false => Cursor::at(Vec::new()),
        },
    };
    let op = scene.op();
    let request: Request = match scene.rng.chance(600) {
        true => Checkpoint { lease, cursor, op }.into(),
        false => Complete { lease, cursor, op }.into(),
    };
    Some(Intent::honest(request))
}

/// A split of a held shard, planned on another or an older range.
fn misplan(fault: Fault, mut held: Held, scene: &mut Scene<'_>) -> Option<Intent> {
    let (tag, lease) = (scene.tag, held.lease);
    let action = if scene.rng.chance(700) { Action::SplitReplace } else { Action::SplitResidual };
    let shard = match fault {
        Fault::PlanForeign => scene.pick_shard(lease.key().run)?,
        _ => lease.key().shard,
    };
    let shard = scene.model.shard(scene.tenant, lease.key().run, shard)?;
    let (spec, cursor) = (shard.spec.clone(), shard.cursor.clone());
    if fault == Fault::PlanForeign {
        return action.plan(&mut Held::assume(tag, lease, spec, cursor), scene);
    }
    if scene.rng.chance(400) {
        // A boundary before points that were processed since the plan.
        let done = point_at_or_after(tag, last_key(&cursor)?);
        let mut held = Held::assume(tag, lease, spec, Cursor::initial());
        held.end = done + 1;
        return Action::SplitResidual.plan(&mut held, scene);
    }
    // Progress that was never accepted.
    held.next = (held.next + 2).min(held.end);
    held.cursor = held.position(tag, None);
    action.plan(&mut held, scene)
}
