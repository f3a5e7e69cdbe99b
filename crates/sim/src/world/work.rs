//! What an honest worker does.

use shardwright_contracts::limits::MAX_PARK_DETAIL_SIZE;
use shardwright_contracts::{RunId, ShardKey};
use shardwright_coordination::ParkReason;

use super::belief::{Held, Worker};
use super::intent::{Intent, Scene};
use crate::keyspace::{Point, key};
use crate::request::{DraftCursor, DraftSpec, DraftSplit, HolderAct, Request};

/// How many shards a worker takes on at once, and up to how many a run is split.
const HELD_MAX: usize = 3;
const SHARDS_MAX: usize = 28;

/// The things that a holder can do, to be chosen among.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    Renew,
    Decline,
    Checkpoint,
    Complete,
    Park,
    Release,
    SplitReplace,
    SplitResidual,
}

/// Every deed, each as likely.
pub(super) const DEEDS: &[Deed] = &[
    Deed::Renew,
    Deed::Decline,
    Deed::Checkpoint,
    Deed::Complete,
    Deed::Park,
    Deed::Release,
    Deed::SplitReplace,
    Deed::SplitResidual,
];

impl Worker {
    /// What the worker does next, if it is honest.
    pub(super) fn choose(&mut self, scene: &mut Scene<'_>) -> Option<Intent> {
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
        let deed = scene.rng.weighted(&[
            (if held.is_finished() { 900 } else { 0 }, Deed::Complete),
            (if held.is_finished() { 60 } else { 560 }, Deed::Checkpoint),
            (120 * chaos, Deed::Renew),
            (60 * splits, Deed::SplitResidual),
            (30 * splits, Deed::SplitReplace),
            (25 * chaos, Deed::Park),
            (35 * chaos, Deed::Release),
            (if held.request.is_some() { 400 } else { 0 }, Deed::Decline),
            (if held.request.is_some() { 400 * splits } else { 0 }, Deed::SplitResidual),
        ])?;
        // Whoever has given a part away saves its token often, and the op log forgets the split.
        let saves_token = is_divided && held.processed().is_some() && scene.rng.chance(650);
        if deed == Deed::Checkpoint && !saves_token {
            held.next = (held.next + scene.rng.between(1, 5) as Point).min(held.end);
        }
        deed.plan(held, scene)
    }

    fn look_for_work(&mut self, scene: &mut Scene<'_>) -> Option<Intent> {
        let run = scene.pick_active()?;
        let worker = self.id;
        let chaos = u64::from(!scene.healed);
        let request = match scene.rng.weighted(&[(620, 0), (230 * chaos, 1), (150 * chaos, 2)])? {
            0 => Request::Claim { run, worker },
            1 => Request::Acquire { key: any_shard(run, scene)?, worker },
            _ => {
                let key = held_shard(run, scene).or_else(|| any_shard(run, scene))?;
                let expires_at = scene.now().saturating_add(scene.rng.between(20, 600));
                Request::RequestSplit { key, asker: worker, expires_at }
            }
        };
        Some(Intent::honest(request))
    }
}

fn any_shard(run: RunId, scene: &mut Scene<'_>) -> Option<ShardKey> {
    Some(ShardKey::new(run, scene.pick_shard(run)?))
}

/// A shard that somebody holds, of which a part could be had.
fn held_shard(run: RunId, scene: &mut Scene<'_>) -> Option<ShardKey> {
    let now = scene.now();
    let shards = &scene.model.run(scene.tenant, run)?.shards;
    let held: Vec<_> =
        shards.iter().filter(|(_, shard)| shard.holder(now).is_some()).map(|(id, _)| *id).collect();
    Some(ShardKey::new(run, *scene.rng.pick(&held)?))
}

impl Deed {
    /// Puts a deed on a shard into words. Whatever it claims to have processed, it has.
    pub(super) fn plan(self, held: &mut Held, scene: &mut Scene<'_>) -> Option<Intent> {
        let act = match self {
            Self::Renew => HolderAct::Renew,
            Self::Decline => {
                let not_before = scene.now().saturating_add(scene.rng.between(1, 300));
                HolderAct::Decline { not_before }
            }
            Self::Checkpoint => {
                let token = scene.bytes(24);
                let mut cursor = held.position(scene.tag, Some(token.clone()));
                if cursor.last_key.is_some() {
                    cursor.token = Some(token);
                }
                HolderAct::Checkpoint { cursor, op: scene.op() }
            }
            Self::Complete => {
                held.next = held.next.max(held.end);
                // A last word now and then, for which there may be no room.
                let is_wordy = !scene.healed && scene.rng.chance(400);
                let token = is_wordy.then(|| scene.bytes(200));
                let cursor = held.position(scene.tag, token);
                HolderAct::Complete { cursor, op: scene.op() }
            }
            Self::Park => {
                let reason = *scene.rng.pick(ParkReason::ALL)?;
                let detail = scene.bytes(MAX_PARK_DETAIL_SIZE.min(40) as u64);
                HolderAct::Park { reason, detail, op: scene.op() }
            }
            Self::Release => HolderAct::Release { op: scene.op() },
            Self::SplitReplace => {
                let parts = scene.rng.between(2, 4) as usize;
                let split = held.divide(parts, scene)?;
                HolderAct::SplitReplace { split, op: scene.op() }
            }
            Self::SplitResidual => {
                let mut split = held.divide(2, scene)?;
                for (_, cursor) in &mut split.parts {
                    *cursor = DraftCursor::default();
                }
                HolderAct::SplitResidual { split, op: scene.op() }
            }
        };
        let processed = held.processed();
        Some(Intent::with_work(Request::Holder { lease: held.lease, act }, processed))
    }
}

impl Held {
    /// Cuts the shard, as it is believed to be, at points that are not processed yet.
    ///
    /// The first part carries on the cursor or, now and then, starts again.
    pub(super) fn divide(&self, parts: usize, scene: &mut Scene<'_>) -> Option<DraftSplit> {
        let (tag, next, end) = (scene.tag, self.next, self.end);
        if end <= next + 1 {
            return None;
        }
        let mut cuts: Vec<Vec<u8>> = (1..parts)
            .map(|_| {
                let mut cut =
                    key(tag, scene.rng.between(u64::from(next) + 1, u64::from(end) - 1) as Point);
                if scene.rng.chance(100) {
                    // Between two points, where nobody's key lies.
                    cut.push(0);
                }
                cut
            })
            .filter(|cut| *cut < self.spec.end)
            .collect();
        cuts.sort();
        cuts.dedup();
        if cuts.is_empty() {
            return None;
        }
        let starts = std::iter::once(self.spec.start.clone()).chain(cuts.iter().cloned());
        let ends = cuts.iter().cloned().chain([self.spec.end.clone()]);
        let mut parts: Vec<_> = starts
            .zip(ends)
            .map(|(start, end)| {
                (DraftSpec { start, end, metadata: scene.bytes(32) }, DraftCursor::default())
            })
            .collect();
        if let Some((_, cursor)) = parts.first_mut()
            && scene.rng.chance(700)
        {
            *cursor = self.cursor.clone();
        }
        Some(DraftSplit { parent: self.spec.clone(), cursor: self.cursor.clone(), parts })
    }
}
