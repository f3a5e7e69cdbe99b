//! What each accepted request changes in the model.

use shardwright_contracts::{LogicalTime, ShardId, TenantId, WorkerId};
use shardwright_coordination::{
    CoordError, EventKind, Lease, RestoredShardState, RunStatus, RunTransition, ShardStatus,
    SplitRequest,
};

use super::{LoggedOp, Model, RunModel, ShardModel};
use crate::oracle::Observation;
use crate::request::operation::{
    Acquire, ChangeRun, Checkpoint, Claim, Complete, CreateRun, CreateRunWithShards, DeclineSplit,
    ParkShard, RequestSplit, SplitReplace, SplitResidual, UnparkShard,
};
use crate::request::{Cursor, Reply, Request, RequestExt, Spec, last_key, spawned};

impl Model {
    /// Applies a request with its answer.
    pub fn apply(&mut self, seen: &Observation<'_>) {
        let (tenant, run) = (seen.tenant, seen.request.run_id());
        if let Request::CreateRun(CreateRun { config, .. })
        | Request::CreateRunWithShards(CreateRunWithShards { config, .. }) = seen.request
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
        run.park_without_progress(seen);
        if let Some(watermark) = seen.after.and_then(|view| view.progress.watermark.as_ref()) {
            run.watermark = run.watermark.take().max(Some(watermark.clone()));
        }
        let Some(reply) = seen.executed() else { return };
        if let (Some((first, last)), Some(_)) = (seen.processed, seen.request.lease()) {
            run.processed.extend(first..=last);
        }
        run.apply_shard(seen, reply, floor);
        run.apply_run(tenant.tag, seen);
    }

    /// Makes fences below `floor` stale, and ends the leases under them.
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

    /// Updates cooldowns, which belong to the tenant, and waiting workers, which belong to the run.
    fn apply_claim(&mut self, tenant: TenantId, seen: &Observation<'_>) {
        let (run, worker, claimed) = match seen.request {
            Request::Claim(Claim { run, worker }) => (*run, *worker, seen.outcome.is_ok()),
            Request::Acquire(Acquire { key, worker }) => (key.run, *worker, false),
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

    /// Parks the shards without progress that an acquire or a claim parked, also if it was refused.
    fn park_without_progress(&mut self, seen: &Observation<'_>) {
        if !matches!(seen.request, Request::Acquire(_) | Request::Claim(_)) {
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

    fn apply_shard(&mut self, seen: &Observation<'_>, reply: &Reply, floor: u64) {
        match seen.request {
            Request::Acquire(Acquire { worker, .. }) | Request::Claim(Claim { worker, .. }) => {
                if let Reply::Granted(granted) = reply
                    && let Some(shard) = self.shards.get_mut(&granted.lease.key().shard)
                {
                    shard.grant(*worker, granted);
                }
            }
            Request::RequestSplit(RequestSplit { key, requester, patience_ms }) => {
                self.withdraw_requests(*requester);
                if let Some(shard) = self.shards.get_mut(&key.shard) {
                    let (requester, requested_at) = (*requester, seen.now);
                    let expires_at = requested_at.saturating_add(*patience_ms);
                    shard.request = Some(SplitRequest { requester, requested_at, expires_at });
                }
            }
            Request::UnparkShard(UnparkShard { key, .. }) => {
                if let Some(shard) = self.shards.get_mut(&key.shard) {
                    shard.status = ShardStatus::Active;
                    shard.park_reason = None;
                    shard.park_detail = None;
                    shard.fence = shard.next_fence(floor);
                    shard.without_progress = 0;
                    shard.remember(seen, reply);
                }
            }
            request => {
                if let Some(lease) = request.lease() {
                    self.apply_holder(seen, lease, reply);
                }
            }
        }
    }

    /// A new split request replaces the requester's earlier one, on any shard.
    fn withdraw_requests(&mut self, requester: WorkerId) {
        for shard in self.shards.values_mut() {
            shard.request = shard.request.filter(|request| request.requester != requester);
        }
    }

    fn apply_holder(&mut self, seen: &Observation<'_>, lease: &Lease, reply: &Reply) {
        let id = lease.key().shard;
        self.insert_spawned(id, seen.request, reply);
        let Some(shard) = self.shards.get_mut(&id) else { return };
        shard.apply_holder(seen, reply);
        shard.last_write = Some((lease.fence().as_raw(), lease.owner()));
        shard.remember(seen, reply);
    }

    fn insert_spawned(&mut self, parent: ShardId, request: &Request, reply: &Reply) {
        let Some(spawned) = spawned(reply) else { return };
        let initial = Cursor::initial();
        let parts: Vec<(&Spec, &Cursor)> = match request {
            Request::SplitReplace(SplitReplace { parts, .. }) => {
                parts.iter().map(|part| (&part.spec, &part.cursor)).collect()
            }
            Request::SplitResidual(SplitResidual { residual, .. }) => vec![(residual, &initial)],
            _ => return,
        };
        for ((spec, cursor), id) in parts.into_iter().zip(&spawned) {
            let shard = ShardModel::new(spec.clone(), cursor.clone(), Some(parent));
            self.shards.insert(*id, shard);
        }
        if let Some(parent) = self.shards.get_mut(&parent) {
            parent.spawned.extend_from_slice(&spawned);
        }
    }

    fn apply_run(&mut self, tag: u8, seen: &Observation<'_>) {
        let (op, meaning) = (seen.request.op_id(), seen.request.meaning());
        match seen.request {
            Request::ChangeRun(ChangeRun { change, .. }) => match change {
                RunTransition::Complete => self.end(RunStatus::Done, seen.now),
                RunTransition::Fail => self.end(RunStatus::Failed, seen.now),
                RunTransition::Cancel => self.end(RunStatus::Cancelled, seen.now),
                RunTransition::Pause => self.paused = true,
                RunTransition::Resume => self.paused = false,
            },
            request => {
                let Some(shards) = request.manifest() else { return };
                self.status = RunStatus::Active;
                for shard in shards {
                    let spec = shard.spec.as_ref();
                    self.manifest.push((spec.start().into(), spec.end().into()));
                    if let Some(key) = last_key(&shard.cursor) {
                        let done = crate::keyspace::points_in(tag, spec.start(), key);
                        self.processed.extend(done.start..=done.end);
                    }
                    let made = ShardModel::new(shard.spec.clone(), shard.cursor.clone(), None);
                    self.shards.insert(shard.shard, made);
                }
                self.manifest.sort();
            }
        }
        if let Some(op) = op {
            self.ops.record(op, LoggedOp { meaning, spawned: Vec::new() });
        }
    }

    fn end(&mut self, status: RunStatus, now: LogicalTime) {
        self.status = status;
        // A run does not end before it was created, whatever the caller's clock shows.
        self.completed_at = Some(now.max(self.created_at));
        self.paused = false;
    }
}

impl ShardModel {
    fn grant(&mut self, worker: WorkerId, granted: &RestoredShardState) {
        self.fence = granted.lease.fence().as_raw();
        self.lease = Some((worker, granted.lease.deadline()));
        self.unbound = false;
        self.acquires += 1;
        self.without_progress += 1;
        // Split requests and declines end with their holder.
        self.forget_requests();
    }

    fn apply_holder(&mut self, seen: &Observation<'_>, reply: &Reply) {
        match (seen.request, reply) {
            (Request::Renew(_), Reply::Renewed(renewed)) => {
                if let Some((_, deadline)) = &mut self.lease {
                    *deadline = renewed.new_deadline;
                }
            }
            (Request::DeclineSplit(DeclineSplit { pause_ms, .. }), _) => {
                self.request = None;
                self.declined_until = Some(seen.now.saturating_add(*pause_ms));
            }
            (Request::Checkpoint(Checkpoint { cursor, .. }), _) => self.advance(cursor),
            (Request::Complete(Complete { cursor, .. }), _) => {
                self.advance(cursor);
                self.settle(ShardStatus::Done);
                self.without_progress = 0;
            }
            (Request::ParkShard(ParkShard { reason, detail, .. }), _) => {
                self.settle(ShardStatus::Parked);
                self.park_reason = Some(*reason);
                self.park_detail = Some(detail.clone());
            }
            (Request::Release(_), _) => {
                self.settle(ShardStatus::Active);
                self.without_progress = self.without_progress.saturating_sub(1);
            }
            (Request::SplitReplace(_), _) => {
                self.settle(ShardStatus::Split);
                self.without_progress = 0;
            }
            (Request::SplitResidual(SplitResidual { narrowed, .. }), _) => {
                self.spec = narrowed.clone();
                self.request = None;
            }
            _ => {}
        }
    }

    fn advance(&mut self, cursor: &Cursor) {
        if last_key(&self.cursor) < last_key(cursor) {
            self.without_progress = 0;
        }
        self.cursor = cursor.clone();
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

    fn remember(&mut self, seen: &Observation<'_>, reply: &Reply) {
        let Some(op) = seen.request.op_id() else { return };
        let spawned = spawned(reply).unwrap_or_default();
        let remembered = LoggedOp { meaning: seen.request.meaning(), spawned };
        if let Request::SplitResidual(_) = seen.request {
            self.residuals.insert(op, remembered.clone());
        }
        self.ops.record(op, remembered);
    }
}
