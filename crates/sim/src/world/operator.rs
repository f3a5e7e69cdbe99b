//! What a tenant's operator does: makes runs, looks after them, ends them, and errs.

use shardwright_contracts::limits::MAX_INITIAL_SHARDS;
use shardwright_contracts::{CursorSemantics, OpId, RunId, ShardId, ShardKey, WorkerId};
use shardwright_coordination::{RunConfig, RunStatus, ShardFilter, ShardStatus};

use super::belief::Operator;
use super::intent::{Intent, Scene};
use crate::fault::Fault;
use crate::keyspace::{POINTS, Point, key};
use crate::model::RunModel;
use crate::request::{DraftCursor, DraftSpec, Request, RunAct};

/// How old a run is, in milliseconds, before an operator may lose patience with it.
const PATIENCE_MS: u64 = 1_500;

type Manifest = Vec<(ShardId, DraftSpec, DraftCursor)>;

impl Operator {
    /// Makes a run of that id.
    pub(crate) fn create(run: RunId, scene: &mut Scene<'_>) -> Option<Intent> {
        Some(Intent::honest(Request::CreateRun { run, config: config(scene)? }))
    }

    /// Makes a run of that id together with its shards.
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
        let intent = Intent::honest(Request::CreateWithShards { run, config, shards, op });
        Some(if spoilt { intent.mischief(Fault::ManifestInvalid) } else { intent })
    }

    /// What the operator does next.
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
        let act = |act| Request::Run { run, act, op };
        let request = match scene.rng.weighted(&[
            (if finished { 900 } else { 12 }, 0),
            (if parked > 0 { 250 } else { 8 }, 1),
            (if state.paused { 350 } else { 12 }, 2),
            (if state.paused { 5 } else { 45 }, 3),
            (if old { 8 } else { 1 }, 4),
            (if old { 8 } else { 1 }, 5),
            (300, 6),
        ])? {
            0 => act(RunAct::Complete),
            1 => Request::Unpark { key: parked_shard(run, state, scene)?, op },
            2 => act(RunAct::Resume),
            3 => act(RunAct::Pause),
            4 => act(RunAct::Fail),
            5 => act(RunAct::Cancel),
            _ => question(run, scene),
        };
        Some(Intent::honest(request))
    }

    /// Starts a run, or ends it before it has begun.
    fn start(&self, run: RunId, scene: &mut Scene<'_>) -> Intent {
        let op = scene.op();
        let early = [RunAct::Complete, RunAct::Fail, RunAct::Pause, RunAct::Resume];
        if scene.rng.chance(60)
            && let Some(act) = scene.rng.pick(&early)
        {
            return Intent::honest(Request::Run { run, act: *act, op });
        }
        if scene.rng.chance(40) || self.shards_max == Some(0) {
            return Intent::honest(Request::Run { run, act: RunAct::Cancel, op });
        }
        let mut shards = manifest(self.shards_max.unwrap_or(8), scene);
        if scene.rng.chance(120) {
            spoil(&mut shards, scene);
            return Intent::honest(Request::Register { run, shards, op })
                .mischief(Fault::ManifestInvalid);
        }
        Intent::honest(Request::Register { run, shards, op })
    }

    /// Makes a run that is there already, the same or otherwise.
    fn make_again(&self, op: OpId, scene: &mut Scene<'_>) -> Option<Request> {
        let run = scene.pick_run(|_| true)?;
        let same = scene.model.run(scene.tenant, run)?.config;
        let config = if scene.rng.chance(500) { same } else { config(scene)? };
        Some(match scene.rng.chance(500) {
            true => Request::CreateRun { run, config },
            false => {
                let shards = manifest(self.shards_max.unwrap_or(8), scene);
                Request::CreateWithShards { run, config, shards, op }
            }
        })
    }

    /// Errs on purpose.
    pub(crate) fn misbehave(&self, scene: &mut Scene<'_>) -> Option<Intent> {
        let old = self.sent.get(scene.rng.index(self.sent.len())).cloned();
        let unknown = RunId::from_raw(1 << 40);
        let fresh = scene.op();
        match scene.rng.below(7) {
            0 => Some(old?.mischief(Fault::Resent)),
            1 => {
                let reused = old?;
                let (run, op) = (reused.request.run(), reused.request.op()?);
                let request = match reused.request {
                    Request::Unpark { key, .. } => {
                        Request::Unpark { key: sibling(key, scene)?, op }
                    }
                    _ if scene.rng.chance(250) => {
                        Request::Register { run, shards: manifest(2, scene), op }
                    }
                    _ if scene.rng.chance(250) => {
                        let config = scene.model.run(scene.tenant, run)?.config;
                        let shards = manifest(2, scene);
                        Request::CreateWithShards { run, config, shards, op }
                    }
                    _ => Request::Run { run, act: any_act(scene), op },
                };
                Some(Intent::honest(request).mischief(Fault::OpIdReused))
            }
            2 => {
                let request = self.make_again(fresh, scene)?;
                Some(Intent::honest(request).mischief(Fault::Resent))
            }
            3 => {
                let request = match scene.rng.below(4) {
                    0 => Request::Register { run: unknown, shards: manifest(2, scene), op: fresh },
                    1 => Request::Unpark {
                        key: ShardKey::new(scene.pick_active()?, ShardId::from_raw(1 << 40)),
                        op: fresh,
                    },
                    2 => question(unknown, scene),
                    _ => Request::Run { run: unknown, act: any_act(scene), op: fresh },
                };
                Some(Intent::honest(request).mischief(Fault::ShardUnknown))
            }
            4 => {
                let run = scene.pick_run(|run| run.status.is_terminal())?;
                let request = match scene.rng.below(4) {
                    0 => Request::Unpark {
                        key: ShardKey::new(run, scene.pick_shard(run)?),
                        op: fresh,
                    },
                    1 => Request::Register { run, shards: manifest(2, scene), op: fresh },
                    _ => Request::Run { run, act: any_act(scene), op: fresh },
                };
                Some(Intent::honest(request).mischief(Fault::EndedRunTouched))
            }
            5 => {
                // The id of something that a worker did to the shard.
                let (op, run) = (scene.rng.between(1, *scene.ops), scene.pick_active()?);
                let key = ShardKey::new(run, scene.pick_shard(run)?);
                let op = OpId::from_raw(op);
                Some(Intent::honest(Request::Unpark { key, op }).mischief(Fault::OpIdReused))
            }
            _ => {
                let run = scene.pick_run(|run| run.status == RunStatus::Initializing)?;
                let mut shards = manifest(4, scene);
                spoil(&mut shards, scene);
                let request = Request::Register { run, shards, op: fresh };
                Some(Intent::honest(request).mischief(Fault::ManifestInvalid))
            }
        }
    }
}

fn created_at(run: &RunModel) -> u64 {
    run.created_at.as_millis()
}

fn any_act(scene: &mut Scene<'_>) -> RunAct {
    let acts = [RunAct::Complete, RunAct::Fail, RunAct::Cancel, RunAct::Pause, RunAct::Resume];
    scene.rng.pick(&acts).copied().unwrap_or(RunAct::Resume)
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

/// The parked shard of the same run if there is another, else the same one.
fn sibling(key: ShardKey, scene: &mut Scene<'_>) -> Option<ShardKey> {
    let state = scene.model.run(scene.tenant, key.run)?;
    parked_shard(key.run, state, scene)
}

fn question(run: RunId, scene: &mut Scene<'_>) -> Request {
    match scene.rng.below(5) {
        0 => Request::GetRun { run },
        1 => Request::Progress { run },
        2 => {
            let worker = WorkerId::from_raw(scene.rng.below(20));
            Request::Candidates { run, worker, limit: scene.rng.index(6) + 1 }
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
            Request::List { run, filter }
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

/// Ranges over some of the keyspace, with gaps now and then and a head start now and then.
fn manifest(shards_max: usize, scene: &mut Scene<'_>) -> Manifest {
    let count = scene.rng.between(1, shards_max.max(1) as u64) as Point;
    let width = scene.rng.between(6, u64::from(POINTS / count).min(40)) as Point;
    let tag = scene.tag;
    let mut shards = Vec::new();
    let mut start: Point = 0;
    for index in 0..count {
        let end = start + width;
        let spec =
            DraftSpec { start: key(tag, start), end: key(tag, end), metadata: scene.bytes(32) };
        let cursor = match scene.rng.chance(80) {
            true => DraftCursor::at(key(tag, start + width / 3), None),
            false => DraftCursor::default(),
        };
        shards.push((ShardId::from_raw(u64::from(index) * 3), spec, cursor));
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

/// Makes a manifest one that must be refused.
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
    let Some((id, spec, cursor)) = shards.first_mut() else { return };
    match kind {
        Some(0) => std::mem::swap(&mut spec.start, &mut spec.end),
        Some(1) => spec.end.clear(),
        Some(2) => *id = id.into_derived(),
        Some(3) => *cursor = DraftCursor::at(spec.end.clone(), None),
        Some(4) => {
            let first = (*id, spec.clone(), cursor.clone());
            shards.push(first);
        }
        Some(5) => {
            let twin = (ShardId::from_raw(1 << 41), spec.clone(), DraftCursor::default());
            shards.push(twin);
        }
        Some(6) => *cursor = DraftCursor { last_key: None, token: Some(scene.bytes(4)) },
        Some(7) => shards.clear(),
        _ => {
            let first = (spec.clone(), cursor.clone());
            let ids = (0..=MAX_INITIAL_SHARDS as u64).map(ShardId::from_raw);
            *shards = ids.map(|id| (id, first.0.clone(), first.1.clone())).collect();
        }
    }
}
