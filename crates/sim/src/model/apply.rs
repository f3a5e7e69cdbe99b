use shardwright_contracts::{LogicalTime, ShardId, TenantId, WorkerId};
use shardwright_coordination::{CoordError, EventKind, RunStatus, ShardStatus, SplitRequest};

use super::{Model, Remembered, RunModel, ShardModel};
use crate::oracle::Observation;
use crate::request::{DraftCursor, DraftSplit, HolderAct, Request, RunAct};
use crate::system::{Answer, Granted};

impl Model {
    /// Takes an answer into account.
    pub fn apply(&mut self, seen: &Observation<'_>) {
        let (tenant, run) = (seen.tenant, seen.request.run());
        if let Request::CreateRun { config, .. } | Request::CreateWithShards { config, .. } =
            seen.request
            && seen.executed().is_some()
            && let Some(tenant) = self.tenants.get_mut(&tenant)
        {
            tenant.runs.entry(run).or_insert_with(|| RunModel::new(*config, seen.now));
        }
        let floor = self.floor;
        self.apply_claim(tenant, seen);
        let Some(tenant) = self.tenants.get_mut(&tenant) else { return };
        let Some(run) = tenant.runs.get_mut(&run) else { return };
        run.latest = run.latest.max(seen.now);
        run.park_fruitless(seen);
        if let Some(watermark) = seen.after.and_then(|view| view.progress.watermark.as_ref()) {
            run.watermark = run.watermark.take().max(Some(watermark.clone()));
        }
        let Some(answer) = seen.executed() else { return };
        if let (Some((first, last)), Request::Holder { .. }) = (seen.processed, seen.request) {
            run.processed.extend(first..=last);
        }
        run.apply_shard(seen, answer, floor);
        run.apply_run(tenant.tag, seen);
    }

    /// Fences below `floor` are stale from now on, and nobody holds anything by them.
    pub fn raise_floor(&mut self, floor: u64) {
        self.floor = self.floor.max(floor);
        let runs = self.tenants.values_mut().flat_map(|tenant| tenant.runs.values_mut());
        for shard in runs.flat_map(|run| run.shards.values_mut()) {
            if shard.lease.is_some() && shard.fence < floor {
                shard.lease = None;
                shard.forget_requests();
            }
        }
    }

    /// Cooldowns and waiting are the tenant's and the run's, not a shard's.
    fn apply_claim(&mut self, tenant: TenantId, seen: &Observation<'_>) {
        let (run, worker, claimed) = match seen.request {
            Request::Claim { run, worker } => (*run, *worker, seen.outcome.is_ok()),
            Request::Acquire { key, worker } => (key.run, *worker, false),
            _ => return,
        };
        let Some(state) = self.tenants.get_mut(&tenant) else { return };
        if claimed && self.cooldown_ms > 0 {
            state.cooldowns.insert(worker, seen.now.saturating_add(self.cooldown_ms));
        }
        if let Some(run) = state.runs.get_mut(&run) {
            run.wait(worker, seen);
        }
    }
}

impl RunModel {
    fn wait(&mut self, worker: WorkerId, seen: &Observation<'_>) {
        match seen.outcome {
            Ok(_) => _ = self.waiting.remove(&worker),
            Err(CoordError::NoneAvailable(_)) => {
                let patience = self.config.lease_duration_ms.get();
                self.waiting.insert(worker, seen.now.saturating_add(patience));
            }
            Err(_) => {}
        }
    }

    /// An acquire or a claim may park shards that make no progress, whatever it answers.
    fn park_fruitless(&mut self, seen: &Observation<'_>) {
        if !matches!(seen.request, Request::Acquire { .. } | Request::Claim { .. }) {
            return;
        }
        for event in seen.events {
            if let EventKind::ShardParked { shard, reason } = event.kind
                && let Some(shard) = self.shards.get_mut(&shard)
            {
                shard.settle(ShardStatus::Parked);
                shard.park_reason = Some(reason);
                shard.park_detail = Some(Vec::new());
            }
        }
    }

    fn apply_shard(&mut self, seen: &Observation<'_>, answer: &Answer, floor: u64) {
        match (seen.request, answer) {
            (Request::Acquire { worker, .. } | Request::Claim { worker, .. }, answer) => {
                if let Answer::Granted(granted) = answer
                    && let Some(shard) = self.shards.get_mut(&granted.lease.key().shard)
                {
                    shard.grant(*worker, granted);
                }
            }
            (Request::Holder { lease, act }, answer) => {
                self.apply_holder(lease.key().shard, act, answer);
                if let Some(shard) = self.shards.get_mut(&lease.key().shard) {
                    shard.last_write = Some((lease.fence().as_raw(), lease.owner()));
                    shard.remember(seen, answer);
                }
            }
            (Request::RequestSplit { key, asker, expires_at }, _) => {
                self.withdraw_requests(*asker);
                if let Some(shard) = self.shards.get_mut(&key.shard) {
                    let (asker, expires_at) = (*asker, *expires_at);
                    shard.request =
                        Some(SplitRequest { requester: asker, asked_at: seen.now, expires_at });
                }
            }
            (Request::Unpark { key, .. }, answer) => {
                if let Some(shard) = self.shards.get_mut(&key.shard) {
                    shard.status = ShardStatus::Active;
                    shard.park_reason = None;
                    shard.park_detail = None;
                    shard.fence = shard.next_fence(floor);
                    shard.fruitless = 0;
                    shard.remember(seen, answer);
                }
            }
            _ => {}
        }
    }

    /// An asker waits for one holder: what it asked before counts no more, by no clock.
    fn withdraw_requests(&mut self, asker: WorkerId) {
        for shard in self.shards.values_mut() {
            shard.request = shard.request.filter(|request| request.requester != asker);
        }
    }

    fn apply_holder(&mut self, id: ShardId, act: &HolderAct, answer: &Answer) {
        if let Answer::Spawned { shards, .. } = answer
            && let HolderAct::SplitReplace { split, .. } | HolderAct::SplitResidual { split, .. } =
                act
        {
            self.insert_spawned(id, split, shards);
        }
        let Some(shard) = self.shards.get_mut(&id) else { return };
        match (act, answer) {
            (HolderAct::Renew, Answer::Renewed(renewed)) => {
                if let Some((_, deadline)) = &mut shard.lease {
                    *deadline = renewed.new_deadline;
                }
            }
            (HolderAct::Decline { not_before }, _) => {
                shard.request = None;
                shard.declined_until = Some(*not_before);
            }
            (HolderAct::Checkpoint { cursor, .. }, _) => shard.advance(cursor),
            (HolderAct::Complete { cursor, .. }, _) => {
                shard.advance(cursor);
                shard.settle(ShardStatus::Done);
                shard.fruitless = 0;
            }
            (HolderAct::Park { reason, detail, .. }, _) => {
                shard.settle(ShardStatus::Parked);
                shard.park_reason = Some(*reason);
                shard.park_detail = Some(detail.clone());
            }
            (HolderAct::Release { .. }, _) => {
                shard.settle(ShardStatus::Active);
                shard.fruitless = shard.fruitless.saturating_sub(1);
            }
            (HolderAct::SplitReplace { .. }, _) => {
                shard.settle(ShardStatus::Split);
                shard.fruitless = 0;
            }
            (HolderAct::SplitResidual { split, .. }, _) => {
                if let Some((left, _)) = split.parts.first() {
                    shard.spec = left.clone();
                }
                shard.request = None;
            }
            (HolderAct::Renew, _) => {}
        }
    }

    fn insert_spawned(&mut self, parent: ShardId, split: &DraftSplit, spawned: &[ShardId]) {
        // The last parts are the new ones: all children of a replacement, a residual's right part.
        let kept = split.parts.len().saturating_sub(spawned.len());
        for ((spec, cursor), id) in split.parts.iter().skip(kept).zip(spawned) {
            let shard = ShardModel::new(spec.clone(), cursor.clone(), Some(parent));
            self.shards.insert(*id, shard);
        }
        if let Some(parent) = self.shards.get_mut(&parent) {
            parent.spawned.extend_from_slice(spawned);
        }
    }

    fn apply_run(&mut self, tag: u8, seen: &Observation<'_>) {
        let (op, meaning) = (seen.request.op(), seen.request.meaning());
        match seen.request {
            Request::Register { shards, .. } | Request::CreateWithShards { shards, .. } => {
                self.status = RunStatus::Active;
                for (id, spec, cursor) in shards {
                    self.manifest.push((spec.start.clone(), spec.end.clone()));
                    if let Some(key) = &cursor.last_key {
                        let done = crate::keyspace::points_in(tag, &spec.start, key);
                        self.processed.extend(done.start..=done.end);
                    }
                    self.shards.insert(*id, ShardModel::new(spec.clone(), cursor.clone(), None));
                }
                self.manifest.sort();
            }
            Request::Run { act, .. } => match act {
                RunAct::Complete => self.end(RunStatus::Done, seen.now),
                RunAct::Fail => self.end(RunStatus::Failed, seen.now),
                RunAct::Cancel => self.end(RunStatus::Cancelled, seen.now),
                RunAct::Pause => self.paused = true,
                RunAct::Resume => self.paused = false,
            },
            _ => return,
        }
        if let Some(op) = op {
            self.ops.record(op, Remembered { meaning, spawned: Vec::new() });
        }
    }

    fn end(&mut self, status: RunStatus, now: LogicalTime) {
        self.status = status;
        // A run does not end before it was made, whatever the caller's clock shows.
        self.completed_at = Some(now.max(self.created_at));
        self.paused = false;
    }
}

impl ShardModel {
    fn grant(&mut self, worker: WorkerId, granted: &Granted) {
        self.fence = granted.lease.fence().as_raw();
        self.lease = Some((worker, granted.lease.deadline()));
        self.unbound = false;
        self.acquires += 1;
        self.fruitless += 1;
        // What was asked was asked of the holder before, and what it declined binds nobody else.
        self.forget_requests();
    }

    fn advance(&mut self, cursor: &DraftCursor) {
        if self.cursor.last_key < cursor.last_key {
            self.fruitless = 0;
        }
        self.cursor = cursor.clone();
        // An empty token means the same as none.
        self.cursor.token = self.cursor.token.take().filter(|token| !token.is_empty());
    }

    fn settle(&mut self, status: ShardStatus) {
        self.status = status;
        self.lease = None;
        self.unbound = false;
        self.forget_requests();
    }

    const fn forget_requests(&mut self) {
        self.request = None;
        self.declined_until = None;
    }

    fn remember(&mut self, seen: &Observation<'_>, answer: &Answer) {
        let Some(op) = seen.request.op() else { return };
        let spawned = match answer {
            Answer::Spawned { shards, .. } => shards.clone(),
            _ => Vec::new(),
        };
        let remembered = Remembered { meaning: seen.request.meaning(), spawned };
        if let Request::Holder { act: HolderAct::SplitResidual { .. }, .. } = seen.request {
            self.residuals.insert(op, remembered.clone());
        }
        self.ops.record(op, remembered);
    }
}
