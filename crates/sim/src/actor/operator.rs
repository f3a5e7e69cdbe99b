//! A tenant's operator: creates runs, maintains and ends them, and makes mistakes.

use shardwright_contracts::limits::MAX_INITIAL_SHARDS;
use shardwright_contracts::{CursorSemantics, OpId, RunId, ShardId, ShardKey, WorkerId};
use std::collections::VecDeque;

use shardwright_coordination::{RunConfig, RunStatus, RunTransition, ShardFilter, ShardStatus};

use super::worker::{Pending, remember};
use super::{Intent, Scene};
use crate::fault::Fault;
use crate::keyspace::{POINTS, Point, key};
use crate::model::RunModel;
use crate::request::operation::{
    ChangeRun, CollectClaimCandidates, CreateRun, CreateRunWithShards, GetRun, GetRunProgress,
    ListShards, RegisterShards, UnparkShard,
};
use crate::request::{Cursor, Request, RequestExt, Shard, Spec};

/// Age of a run, in milliseconds, after which an operator may end it.
const PATIENCE_MS: u64 = 1_500;

type Manifest = Vec<Shard>;

/// A tenant's operator and its pending request.
#[derive(Debug, Default)]
pub(crate) struct Operator {
    pub(crate) sent: VecDeque<Intent>,
    pub(crate) pending: Option<Pending>,
    /// Most shards of the next manifest, after one was too large.
    pub(crate) shards_max: Option<usize>,
}

impl Operator {
    pub(crate) fn remember_sent(&mut self, intent: &Intent) {
        remember(&mut self.sent, intent.clone());
    }
}

impl Operator {
    /// Creates a run.
    pub(crate) fn create(run: RunId, scene: &mut Scene<'_>) -> Option<Intent> {
        Some(Intent::honest(CreateRun { run, config: config(scene)? }.into()))
    }

    /// Creates a run together with its shards.
    pub(crate) fn create_with_shards(&self, run: RunId, scene: &mut Scene<'_>) -> Option<Intent> {
        let shards_max = self.shards_max.unwrap_or(8);
        if shards_max == 0 {
            return Self::create(run, scene);
        }
        let (config, mut shards) = (config(scene)?, manifest(shards_max, scene));
        let spoilt = scene.rng.chance(150);
        if spoilt {
            spoil(&mut shards, scene);
        }
        let op = scene.op();
        let intent = Intent::honest(CreateRunWithShards { run, config, shards, op }.into());
        Some(if spoilt { intent.misuse(Fault::ManifestInvalid) } else { intent })
    }

    /// The operator's next request.
    pub(crate) fn choose(&self, scene: &mut Scene<'_>) -> Option<Intent> {
        if let Some(run) = scene.pick_run(|run| run.status == RunStatus::Initializing)
            && scene.rng.chance(900)
        {
            return Some(self.start(run, scene));
        }
        let run = scene.pick_active()?;
        let state = scene.model.run(scene.tenant, run)?;
        let parked = u64::from(state.count(ShardStatus::Parked));
        let finished = state.count(ShardStatus::Active) == 0 && parked == 0;
        let old = scene.clock > created_at(state) + PATIENCE_MS;
        let op = scene.op();
        let act = |change| ChangeRun { run, change, op }.into();
        let request = match scene.rng.weighted(&[
            (if finished { 900 } else { 12 }, 0),
            (if parked > 0 { 250 } else { 8 }, 1),
            (if state.paused { 350 } else { 12 }, 2),
            (if state.paused { 5 } else { 45 }, 3),
            (if old { 8 } else { 1 }, 4),
            (if old { 8 } else { 1 }, 5),
            (300, 6),
        ])? {
            0 => act(RunTransition::Complete),
            1 => UnparkShard { key: parked_shard(run, state, scene)?, op }.into(),
            2 => act(RunTransition::Resume),
            3 => act(RunTransition::Pause),
            4 => act(RunTransition::Fail),
            5 => act(RunTransition::Cancel),
            _ => question(run, scene),
        };
        Some(Intent::honest(request))
    }

    /// Starts a run, or ends it before it has begun.
    fn start(&self, run: RunId, scene: &mut Scene<'_>) -> Intent {
        let op = scene.op();
        let early = [
            RunTransition::Complete,
            RunTransition::Fail,
            RunTransition::Pause,
            RunTransition::Resume,
        ];
        if scene.rng.chance(60)
            && let Some(act) = scene.rng.pick(&early)
        {
            return Intent::honest(ChangeRun { run, change: *act, op }.into());
        }
        if scene.rng.chance(40) || self.shards_max == Some(0) {
            return Intent::honest(ChangeRun { run, change: RunTransition::Cancel, op }.into());
        }
        let mut shards = manifest(self.shards_max.unwrap_or(8), scene);
        if scene.rng.chance(120) {
            spoil(&mut shards, scene);
            return Intent::honest(RegisterShards { run, shards, op }.into())
                .misuse(Fault::ManifestInvalid);
        }
        Intent::honest(RegisterShards { run, shards, op }.into())
    }

    /// Creates an existing run again, with the same or another configuration.
    fn make_again(&self, op: OpId, scene: &mut Scene<'_>) -> Option<Request> {
        let run = scene.pick_run(|_| true)?;
        let same = scene.model.run(scene.tenant, run)?.config;
        let config = if scene.rng.chance(500) { same } else { config(scene)? };
        Some(match scene.rng.chance(500) {
            true => CreateRun { run, config }.into(),
            false => {
                let shards = manifest(self.shards_max.unwrap_or(8), scene);
                CreateRunWithShards { run, config, shards, op }.into()
            }
        })
    }

    /// A request that is wrong on purpose.
    pub(crate) fn misbehave(&self, scene: &mut Scene<'_>) -> Option<Intent> {
        let old = self.sent.get(scene.rng.index(self.sent.len())).cloned();
        let unknown = RunId::from_raw(1 << 40);
        let fresh = scene.op();
        match scene.rng.below(7) {
            0 => Some(old?.misuse(Fault::Resent)),
            1 => {
                let request = reuse_op(old?.request, scene)?;
                Some(Intent::honest(request).misuse(Fault::OpIdReused))
            }
            2 => {
                let request = self.make_again(fresh, scene)?;
                Some(Intent::honest(request).misuse(Fault::Resent))
            }
            3 => {
                let request = match scene.rng.below(4) {
                    0 => RegisterShards { run: unknown, shards: manifest(2, scene), op: fresh }
                        .into(),
                    1 => {
                        let shard = ShardId::from_raw(1 << 40);
                        let key = ShardKey::new(scene.pick_active()?, shard);
                        UnparkShard { key, op: fresh }.into()
                    }
                    2 => question(unknown, scene),
                    _ => ChangeRun { run: unknown, change: any_change(scene), op: fresh }.into(),
                };
                Some(Intent::honest(request).misuse(Fault::ShardUnknown))
            }
            4 => {
                let run = scene.pick_run(|run| run.status.is_terminal())?;
                let request = match scene.rng.below(4) {
                    0 => {
                        let key = ShardKey::new(run, scene.pick_shard(run)?);
                        UnparkShard { key, op: fresh }.into()
                    }
                    1 => RegisterShards { run, shards: manifest(2, scene), op: fresh }.into(),
                    _ => ChangeRun { run, change: any_change(scene), op: fresh }.into(),
                };
                Some(Intent::honest(request).misuse(Fault::EndedRunTouched))
            }
            5 => {
                // The op id of a worker's operation on the shard.
                let (op, run) = (scene.rng.between(1, *scene.ops), scene.pick_active()?);
                let key = ShardKey::new(run, scene.pick_shard(run)?);
                let op = OpId::from_raw(op);
                Some(Intent::honest(UnparkShard { key, op }.into()).misuse(Fault::OpIdReused))
            }
            _ => {
                let run = scene.pick_run(|run| run.status == RunStatus::Initializing)?;
                let mut shards = manifest(4, scene);
                spoil(&mut shards, scene);
                let request = RegisterShards { run, shards, op: fresh }.into();
                Some(Intent::honest(request).misuse(Fault::ManifestInvalid))
            }
        }
    }
}

/// Another request under the operation id of one that was sent.
fn reuse_op(sent: Request, scene: &mut Scene<'_>) -> Option<Request> {
    let (run, op) = (sent.run_id(), sent.op_id()?);
    Some(match sent {
        Request::UnparkShard(UnparkShard { key, .. }) => {
            UnparkShard { key: sibling(key, scene)?, op }.into()
        }
        _ if scene.rng.chance(250) => RegisterShards { run, shards: manifest(2, scene), op }.into(),
        _ if scene.rng.chance(250) => {
            let config = scene.model.run(scene.tenant, run)?.config;
            CreateRunWithShards { run, config, shards: manifest(2, scene), op }.into()
        }
        _ => ChangeRun { run, change: any_change(scene), op }.into(),
    })
}

fn created_at(run: &RunModel) -> u64 {
    run.created_at.as_millis()
}

fn any_change(scene: &mut Scene<'_>) -> RunTransition {
    let acts = [
        RunTransition::Complete,
        RunTransition::Fail,
        RunTransition::Cancel,
        RunTransition::Pause,
        RunTransition::Resume,
    ];
    scene.rng.pick(&acts).copied().unwrap_or(RunTransition::Resume)
}

fn parked_shard(run: RunId, state: &RunModel, scene: &mut Scene<'_>) -> Option<ShardKey> {
    let parked: Vec<_> =
        state.shards.iter().filter(|(_, shard)| shard.status == ShardStatus::Parked).collect();
    let shard = match scene.rng.pick(&parked) {
        Some((id, _)) => **id,
        None => scene.pick_shard(run)?,
    };
    Some(ShardKey::new(run, shard))
}

/// Another parked shard of the same run if there is one, else the same one.
fn sibling(key: ShardKey, scene: &mut Scene<'_>) -> Option<ShardKey> {
    let state = scene.model.run(scene.tenant, key.run)?;
    parked_shard(key.run, state, scene)
}

fn question(run: RunId, scene: &mut Scene<'_>) -> Request {
    match scene.rng.below(5) {
        0 => GetRun { run }.into(),
        1 => GetRunProgress { run }.into(),
        2 => {
            let worker = WorkerId::from_raw(scene.rng.below(20));
            CollectClaimCandidates { run, worker, limit: scene.rng.index(6) + 1 }.into()
        }
        _ => {
            let status = *scene.rng.pick(ShardStatus::ALL).unwrap_or(&ShardStatus::Active);
            let filters = [
                ShardFilter::all(),
                ShardFilter::active(),
                ShardFilter::available(),
                ShardFilter::parked(),
                ShardFilter { status: Some(status), is_leased: Some(true), root_only: true },
            ];
            let filter = *scene.rng.pick(&filters).unwrap_or(&ShardFilter::all());
            ListShards { run, filter }.into()
        }
    }
}

fn config(scene: &mut Scene<'_>) -> Option<RunConfig> {
    let semantics = match scene.rng.chance(700) {
        true => CursorSemantics::Completed,
        false => CursorSemantics::Dispatched,
    };
    let retries = scene.rng.chance(600).then(|| scene.rng.between(2, 5) as u32);
    RunConfig::try_new(semantics, scene.rng.between(150, 500), retries).ok()
}

/// Ranges over a part of the keyspace. Some have gaps between them, some start with a cursor.
fn manifest(shards_max: usize, scene: &mut Scene<'_>) -> Manifest {
    let count = scene.rng.between(1, shards_max.max(1) as u64) as Point;
    let width = scene.rng.between(6, u64::from(POINTS / count).min(40)) as Point;
    let tag = scene.tag;
    let mut shards = Vec::new();
    let mut start: Point = 0;
    for index in 0..count {
        let end = start + width;
        let spec = Spec::new(key(tag, start), key(tag, end), scene.bytes(32));
        let cursor = match scene.rng.chance(80) {
            true => Cursor::at(key(tag, start + width / 3)),
            false => Cursor::initial(),
        };
        shards.push(Shard { shard: ShardId::from_raw(u64::from(index) * 3), spec, cursor });
        start = if scene.rng.chance(850) { end } else { end + 1 };
        if start + width > POINTS {
            break;
        }
    }
    if scene.rng.chance(300) {
        shards.reverse();
    }
    shards
}

/// Makes a manifest invalid.
fn spoil(shards: &mut Manifest, scene: &mut Scene<'_>) {
    let kind = scene.rng.weighted(&[
        (10, 0),
        (10, 1),
        (10, 2),
        (10, 3),
        (10, 4),
        (10, 5),
        (10, 6),
        (10, 7),
        (4, 8),
    ]);
    let Some(Shard { shard, spec, cursor }) = shards.first_mut() else { return };
    let [start, end, metadata] = {
        let spec = spec.as_ref();
        [spec.start(), spec.end(), spec.metadata()].map(<[u8]>::to_vec)
    };
    match kind {
        Some(0) => *spec = Spec::new(end, start, metadata),
        Some(1) => *spec = Spec::new(start, Vec::new(), metadata),
        Some(2) => *shard = shard.into_derived(),
        Some(3) => *cursor = Cursor::at(end),
        Some(4) => {
            let first = Shard { shard: *shard, spec: spec.clone(), cursor: cursor.clone() };
            shards.push(first);
        }
        Some(5) => {
            let (shard, cursor) = (ShardId::from_raw(1 << 41), Cursor::initial());
            let twin = Shard { shard, spec: spec.clone(), cursor };
            shards.push(twin);
        }
        Some(6) => *cursor = Cursor::new(None, Some(scene.bytes(4))),
        Some(7) => shards.clear(),
        _ => {
            let (spec, cursor) = (spec.clone(), cursor.clone());
            let ids = (0..=MAX_INITIAL_SHARDS as u64).map(ShardId::from_raw);
            let copy = |shard| Shard { shard, spec: spec.clone(), cursor: cursor.clone() };
            *shards = ids.map(copy).collect();
        }
    }
}

/// The next request towards a completed run: resume, unpark, complete.
pub(crate) fn remedy(run: RunId, hopeless: bool, scene: &mut Scene<'_>) -> Option<Request> {
    let state = scene.model.run(scene.tenant, run)?;
    let op = scene.op();
    let change = |change| Some(ChangeRun { run, change, op }.into());
    if state.status == RunStatus::Initializing {
        return change(RunTransition::Cancel);
    }
    if state.paused {
        return change(RunTransition::Resume);
    }
    // Work on a run without bytes, shards or fences cannot be finished.
    if hopeless {
        return change(RunTransition::Fail);
    }
    let parked = state.shards.iter().find(|(_, shard)| shard.status == ShardStatus::Parked);
    match parked {
        Some((shard, _)) => Some(UnparkShard { key: ShardKey::new(run, *shard), op }.into()),
        None if state.count(ShardStatus::Active) == 0 => change(RunTransition::Complete),
        None => None,
    }
}
