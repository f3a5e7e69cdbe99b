//! An honest worker.

use shardwright_contracts::limits::MAX_PARK_DETAIL_SIZE;
use shardwright_contracts::{
    OpId, RunId, ShardKey, plan_split_replace_with_children, plan_split_residual_with_metadata,
};
use shardwright_coordination::ParkReason;

use super::worker::{Held, Worker};
use super::{Intent, Scene};
use crate::keyspace::{Point, key};
use crate::request::operation::{
    Acquire, Checkpoint, Claim, Complete, DeclineSplit, ParkShard, Release, Renew, RequestSplit,
    SplitReplace, SplitResidual,
};
use crate::request::{Cursor, Part, Request, Spec};

/// Most shards that a worker holds, and most shards into which a run is split.
const HELD_MAX: usize = 3;
const SHARDS_MAX: usize = 28;

/// An action of a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Renew,
    Decline,
    Checkpoint,
    Complete,
    Park,
    Release,
    SplitReplace,
    SplitResidual,
}

/// Every action, equally likely.
pub(crate) const ACTIONS: &[Action] = &[
    Action::Renew,
    Action::Decline,
    Action::Checkpoint,
    Action::Complete,
    Action::Park,
    Action::Release,
    Action::SplitReplace,
    Action::SplitResidual,
];

impl Worker {
    /// The next request of an honest worker.
    pub(crate) fn choose(&mut self, scene: &mut Scene<'_>) -> Option<Intent> {
        let busy = self.held.len() >= HELD_MAX || (!self.held.is_empty() && scene.rng.chance(850));
        if busy { self.work(scene) } else { self.look_for_work(scene) }
    }

    fn work(&mut self, scene: &mut Scene<'_>) -> Option<Intent> {
        let index = scene.rng.index(self.held.len());
        let held = self.held.get_mut(index)?;
        let crowded = scene
            .model
            .run(scene.tenant, held.lease.key().run)
            .is_none_or(|run| run.shards.len() >= SHARDS_MAX);
        let shard = scene.model.shard(scene.tenant, held.lease.key().run, held.lease.key().shard);
        let is_divided = !scene.healed && shard.is_some_and(|shard| !shard.residuals.is_empty());
        let splits = u64::from(!crowded && !scene.healed && held.end > held.next + 2);
        let chaos = u64::from(!scene.healed);
        let action = scene.rng.weighted(&[
            (if held.is_finished() { 900 } else { 0 }, Action::Complete),
            (if held.is_finished() { 60 } else { 560 }, Action::Checkpoint),
            (120 * chaos, Action::Renew),
            (60 * splits, Action::SplitResidual),
            (30 * splits, Action::SplitReplace),
            (25 * chaos, Action::Park),
            (35 * chaos, Action::Release),
            (if held.request.is_some() { 400 } else { 0 }, Action::Decline),
            (if held.request.is_some() { 400 * splits } else { 0 }, Action::SplitResidual),
        ])?;
        // After a split, a worker checkpoints often, so that the op log evicts the split.
        let saves_token = is_divided && held.processed().is_some() && scene.rng.chance(650);
        if action == Action::Checkpoint && !saves_token {
            held.next = (held.next + scene.rng.between(1, 5) as Point).min(held.end);
        }
        action.plan(held, scene)
    }

    fn look_for_work(&mut self, scene: &mut Scene<'_>) -> Option<Intent> {
        let run = scene.pick_active()?;
        let worker = self.id;
        let chaos = u64::from(!scene.healed);
        let request = match scene.rng.weighted(&[(620, 0), (230 * chaos, 1), (150 * chaos, 2)])? {
            0 => Claim { run, worker }.into(),
            1 => Acquire { key: any_shard(run, scene)?, worker }.into(),
            _ => {
                let key = held_shard(run, scene).or_else(|| any_shard(run, scene))?;
                // Sometimes with a wait of zero, which is refused.
                let patience_ms = scene.rng.between(0, 600).saturating_sub(20);
                RequestSplit { key, requester: worker, patience_ms }.into()
            }
        };
        Some(Intent::honest(request))
    }
}

fn any_shard(run: RunId, scene: &mut Scene<'_>) -> Option<ShardKey> {
    Some(ShardKey::new(run, scene.pick_shard(run)?))
}

/// A shard whose holder could split it.
fn held_shard(run: RunId, scene: &mut Scene<'_>) -> Option<ShardKey> {
    let now = scene.now();
    let shards = &scene.model.run(scene.tenant, run)?.shards;
    let held: Vec<_> =
        shards.iter().filter(|(_, shard)| shard.holder(now).is_some()).map(|(id, _)| *id).collect();
    Some(ShardKey::new(run, *scene.rng.pick(&held)?))
}

impl Action {
    /// Turns an action on a shard into a request, or none if the worker's own planning refuses it.
    /// The worker has processed everything that the request claims.
    pub(crate) fn plan(self, held: &mut Held, scene: &mut Scene<'_>) -> Option<Intent> {
        let lease = held.lease;
        let request = match self {
            Self::Renew => Renew { lease }.into(),
            Self::Decline => DeclineSplit { lease, pause_ms: scene.rng.between(1, 300) }.into(),
            Self::Checkpoint => {
                let token = scene.bytes(24);
                let mut cursor = held.position(scene.tag, Some(token.clone()));
                if let Some(key) = cursor.as_ref().last_key() {
                    cursor = Cursor::new(Some(key.to_vec()), Some(token));
                }
                Checkpoint { lease, cursor, op: scene.op() }.into()
            }
            Self::Complete => {
                held.next = held.next.max(held.end);
                // Sometimes a long token, which may exceed the byte budget.
                let is_wordy = !scene.healed && scene.rng.chance(400);
                let token = is_wordy.then(|| scene.bytes(200));
                let cursor = held.position(scene.tag, token);
                Complete { lease, cursor, op: scene.op() }.into()
            }
            Self::Park => {
                let reason = *scene.rng.pick(ParkReason::ALL)?;
                let detail = scene.bytes(MAX_PARK_DETAIL_SIZE.min(40) as u64);
                ParkShard { lease, reason, detail, op: scene.op() }.into()
            }
            Self::Release => Release { lease, op: scene.op() }.into(),
            Self::SplitReplace => {
                let parts = scene.rng.between(2, 4) as usize;
                let parts = held.divide(parts, scene)?;
                held.replace_by(parts, scene.op())?
            }
            Self::SplitResidual => {
                let parts = held.divide(2, scene)?;
                held.give_away(&parts, scene.op())?
            }
        };
        Some(Intent::with_work(request, held.processed()))
    }
}

impl Held {
    /// Cuts the shard, as the worker knows it, at points that are not processed yet.
    ///
    /// The first part keeps the cursor or, sometimes, starts from the beginning.
    pub(crate) fn divide(&self, parts: usize, scene: &mut Scene<'_>) -> Option<Vec<Part>> {
        let (tag, next, end) = (scene.tag, self.next, self.end);
        let spec = self.spec.as_ref();
        if end <= next + 1 {
            return None;
        }
        let mut cuts: Vec<Vec<u8>> = (1..parts)
            .map(|_| {
                let mut cut =
                    key(tag, scene.rng.between(u64::from(next) + 1, u64::from(end) - 1) as Point);
                if scene.rng.chance(100) {
                    // Between two points, where no key lies.
                    cut.push(0);
                }
                cut
            })
            .filter(|cut| cut.as_slice() < spec.end())
            .collect();
        cuts.sort();
        cuts.dedup();
        if cuts.is_empty() {
            return None;
        }
        let starts = std::iter::once(spec.start().to_vec()).chain(cuts.iter().cloned());
        let ends = cuts.iter().cloned().chain([spec.end().to_vec()]);
        let mut parts: Vec<_> = starts
            .zip(ends)
            .map(|(start, end)| Part::fresh(Spec::new(start, end, scene.bytes(32))))
            .collect();
        if let Some(first) = parts.first_mut()
            && scene.rng.chance(700)
        {
            first.cursor = self.cursor.clone();
        }
        Some(parts)
    }

    /// A replacement of the shard by its parts, if planning accepts it.
    pub(crate) fn replace_by(&self, parts: Vec<Part>, op: OpId) -> Option<Request> {
        let children: Vec<_> = parts.iter().map(Part::as_ref).collect();
        let (parent, cursor) = (self.spec.as_ref(), self.cursor.as_ref());
        plan_split_replace_with_children(parent, cursor, &children).ok()?;
        Some(SplitReplace { lease: self.lease, parts, op }.into())
    }

    /// A split that separates the right part, if planning accepts it.
    pub(crate) fn give_away(&self, parts: &[Part], op: OpId) -> Option<Request> {
        let [left, right] = parts else { return None };
        let (left, right) = (left.spec.as_ref(), right.spec.as_ref());
        let plan = plan_split_residual_with_metadata(
            self.spec.as_ref(),
            self.cursor.as_ref(),
            right.start(),
            left.metadata(),
            right.metadata(),
        );
        let plan = plan.ok()?;
        let [narrowed, residual] =
            [plan.narrowed(), plan.residual()].map(|spec| spec.map(|bytes| bytes.to_vec()));
        Some(SplitResidual { lease: self.lease, narrowed, residual, op }.into())
    }
}
