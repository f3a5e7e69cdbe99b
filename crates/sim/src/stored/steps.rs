//! What a commit did, read from the records before and after it.

use shardwright_contracts::{LogicalTime, RunId, ShardId, ShardKey, TenantId};
use shardwright_coordination::error::reason::RetriesExhausted;
use shardwright_coordination::{
    CapacityHint, CoordError, EventKind, IdempotentOutcome, Lease, OpLogEntry, ParkReason,
    RenewResult, RestoredShardState, RunConfig, RunProgress, ShardRecord, ShardStatus,
    SplitReplaceResult, SplitResidualResult, StateTransitionEvent,
};
use shardwright_runs::records::RunHeadRecord;

use super::record_checks::Address;
use crate::director::Ask;
use crate::keyspace::Point;
use crate::oracle::{Finding, Oracle};
use crate::request::operation::{
    Acquire, Claim, CreateRun, CreateRunWithShards, GetRunProgress, Renew, UnparkShard,
};
use crate::request::{Answer, Reply, Request, applied};

pub(crate) const EXPLAINED: &Oracle = &Oracle::of_the_world(
    "everything stored was asked for",
    "each commit is one thing that its author was asked to do, and nothing else",
);

/// What a commit did, as a request and its outcome.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) tenant: TenantId,
    pub(crate) request: Request,
    pub(crate) outcome: Answer,
    pub(crate) events: Vec<StateTransitionEvent>,
    pub(crate) now: LogicalTime,
    pub(crate) processed: Option<(Point, Point)>,
    /// Whether it is what the author was asked for, and not something on the way.
    pub(crate) is_wanted: bool,
}

/// What whoever stored something was asked, and when.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) ask: Option<&'a Ask>,
    /// At the earliest.
    pub(crate) not_before: LogicalTime,
    /// At the latest.
    pub(crate) not_after: LogicalTime,
}

fn unexplained(text: String) -> Finding {
    Finding { oracle: EXPLAINED.name, text }
}

/// What became of a run's own record.
pub(crate) fn of_run(
    (tenant, run): Address,
    before: Option<&RunHeadRecord>,
    after: &RunHeadRecord,
    ask: Option<&Ask>,
) -> Result<Option<Step>, Finding> {
    let base = Step {
        tenant,
        request: CreateRun { run, config: after.config }.into(),
        outcome: Ok(Reply::Done),
        events: Vec::new(),
        now: after.created_at,
        processed: None,
        is_wanted: true,
    };
    let known = before.map(|run| run.op_log.entries()).into_iter().flatten();
    let fresh = fresh(known, after.op_log.entries());
    match (before, fresh.as_slice(), ask.and_then(Ask::request)) {
        (Some(before), [], _) if before == after => Ok(None),
        (None, [], Some(Request::CreateRun(CreateRun { config, .. })))
            if *config == after.config =>
        {
            Ok(Some(base))
        }
        (None, [], Some(Request::CreateRunWithShards(CreateRunWithShards { config, .. })))
            if *config == after.config =>
        {
            Ok(Some(Step { is_wanted: false, ..base }))
        }
        (_, [entry], Some(request))
            if request.op_id() == Some(entry.op)
                && ask.is_some_and(|ask| ask.is_of(tenant, run)) =>
        {
            // The op log is in order, and so may be ahead; the end of a run is exact.
            let (request, now) = (request.clone(), after.completed_at.unwrap_or(entry.executed_at));
            let outcome = Ok(applied(false));
            Ok(Some(Step { request, outcome, now, ..base }))
        }
        _ => Err(unexplained(format!("run {run} went from {before:?} to {after:?}"))),
    }
}

/// What became of a shard.
pub(crate) fn of_shard(
    (tenant, run): Address,
    config: &RunConfig,
    before: &ShardRecord,
    after: &ShardRecord,
    asked: Asked<'_>,
) -> Result<Option<Step>, Finding> {
    let Asked { ask, not_before, not_after } = asked;
    let (old, new) = (&before.head, &after.head);
    let fresh = fresh(old.op_log.entries(), new.op_log.entries());
    let change = Change { tenant, run, config, before, after, not_before, not_after };
    match fresh.as_slice() {
        [] if new.fence != old.fence => change.granted(ask).map(Some),
        [] if new.status != old.status => change.parked(ask).map(Some),
        [] if before == after => Ok(None),
        [] => change.renewed(ask).map(Some),
        [entry] => change.asked_for(entry, ask).map(Some),
        _ => Err(change.unexplained("two things were done at once")),
    }
}

fn fresh<'l>(
    before: impl Iterator<Item = &'l OpLogEntry>,
    after: impl Iterator<Item = &'l OpLogEntry>,
) -> Vec<OpLogEntry> {
    let known: Vec<_> = before.map(|entry| entry.op).collect();
    after.filter(|entry| !known.contains(&entry.op)).copied().collect()
}

/// Two records of a shard, one after the other.
struct Change<'r> {
    tenant: TenantId,
    run: RunId,
    config: &'r RunConfig,
    before: &'r ShardRecord,
    after: &'r ShardRecord,
    not_before: LogicalTime,
    not_after: LogicalTime,
}

impl Change<'_> {
    fn unexplained(&self, text: &str) -> Finding {
        let (before, after) = (&self.before.head, &self.after.head);
        unexplained(format!("{text}: {before:?}, then {after:?}"))
    }

    const fn key(&self) -> ShardKey {
        self.after.head.key
    }

    fn event(&self, at: LogicalTime, kind: EventKind) -> StateTransitionEvent {
        StateTransitionEvent { tenant: self.tenant, run: self.run, at, kind }
    }

    fn step(&self, request: Request, outcome: Answer, now: LogicalTime) -> Step {
        let (tenant, events) = (self.tenant, Vec::new());
        Step { tenant, request, outcome, events, now, processed: None, is_wanted: true }
    }

    /// It got a new owner.
    fn granted(&self, ask: Option<&Ask>) -> Result<Step, Finding> {
        let head = &self.after.head;
        let Some(holder) = head.lease else {
            return Err(self.unexplained("a fence rose for nobody"));
        };
        let wanted = match ask.and_then(Ask::request) {
            Some(Request::Acquire(Acquire { key, worker })) => {
                (*key, *worker) == (head.key, holder.owner)
            }
            Some(Request::Claim(Claim { run, worker })) => {
                (*run, *worker) == (self.run, holder.owner)
            }
            _ => false,
        };
        if !wanted {
            return Err(self.unexplained("nobody asked for the shard"));
        }
        let lease = Lease::new(self.tenant, head.key, holder.owner, head.fence, holder.deadline);
        let duration = self.config.lease_duration_ms.get();
        let now = LogicalTime::from_millis(holder.deadline.as_millis().saturating_sub(duration));
        let request = Acquire { key: head.key, worker: holder.owner }.into();
        let granted = shown(self.after, lease).into();
        Ok(self.step(request, Ok(granted), now))
    }

    /// It was parked because it made no progress.
    fn parked(&self, ask: Option<&Ask>) -> Result<Step, Finding> {
        let head = &self.after.head;
        let worker = match ask.and_then(Ask::request) {
            Some(
                Request::Acquire(Acquire { worker, .. }) | Request::Claim(Claim { worker, .. }),
            ) => *worker,
            _ => return Err(self.unexplained("nobody asked for that")),
        };
        let is_parked = head.status == ShardStatus::Parked
            && head.park.as_ref().is_some_and(|park| park.reason == ParkReason::TooManyErrors);
        if !is_parked {
            return Err(self.unexplained("that is no way to park"));
        }
        let shard = head.key.shard;
        let reason = RetriesExhausted { shard, attempts: self.before.head.fruitless_acquires };
        let request = Acquire { key: head.key, worker }.into();
        // What nobody may do even at the latest moment, nobody may do at all.
        let mut step = self.step(request, Err(reason.into()), self.not_after);
        let kind = EventKind::ShardParked { shard, reason: ParkReason::TooManyErrors };
        step.events.push(self.event(step.now, kind));
        step.is_wanted = false;
        Ok(step)
    }

    /// Its lease lasts longer.
    fn renewed(&self, ask: Option<&Ask>) -> Result<Step, Finding> {
        let Some(Request::Renew(Renew { lease })) = ask.and_then(Ask::request) else {
            return Err(self.unexplained("nobody asked for that"));
        };
        let (Some(holder), true) = (self.after.head.lease, lease.key() == self.key()) else {
            return Err(self.unexplained("that is no way to renew"));
        };
        let new_deadline = holder.deadline;
        let duration = self.config.lease_duration_ms.get();
        let now = LogicalTime::from_millis(new_deadline.as_millis().saturating_sub(duration));
        let request = Renew { lease: *lease }.into();
        let (notice, capacity) = (None, CapacityHint::default());
        let renewed = Reply::Renewed(RenewResult { new_deadline, notice, capacity });
        Ok(self.step(request, Ok(renewed), now))
    }

    /// Something was done that has an id.
    fn asked_for(&self, entry: &OpLogEntry, ask: Option<&Ask>) -> Result<Step, Finding> {
        let Some(Ask::Request { tenant, request, processed, .. }) = ask else {
            return Err(self.unexplained("nobody asked for that"));
        };
        let is_it = request.op_id() == Some(entry.op)
            && *tenant == self.tenant
            && request.shard() == Some(self.key());
        if !is_it {
            return Err(self.unexplained("another thing was asked for"));
        }
        let answer = match (request, self.spawned()) {
            (Request::Checkpoint(_), _) => Reply::Noticed(IdempotentOutcome::Executed(None)),
            (Request::SplitReplace(_), children) => {
                Reply::Replaced(IdempotentOutcome::Executed(SplitReplaceResult { children }))
            }
            (Request::SplitResidual(_), made) => match made.as_slice() {
                [residual] => {
                    let made = SplitResidualResult { residual: *residual };
                    Reply::Residual(IdempotentOutcome::Executed(made))
                }
                _ => return Err(self.unexplained("not one residual was made")),
            },
            _ => applied(false),
        };
        let mut step = self.step(request.clone(), Ok(answer), self.when(entry));
        step.processed = *processed;
        if let Request::UnparkShard(UnparkShard { key, .. }) = request {
            let (shard, new_fence_epoch) = (key.shard, self.after.head.fence);
            let kind = EventKind::ShardUnparked { shard, new_fence_epoch };
            step.events.push(self.event(step.now, kind));
        }
        Ok(step)
    }

    /// When something was done. An op log is in order, so its times say only that it was no later.
    fn when(&self, entry: &OpLogEntry) -> LogicalTime {
        let latest = self.before.head.op_log.entries().map(|known| known.executed_at).max();
        match latest {
            Some(latest) if latest >= entry.executed_at => self.not_before.min(latest),
            Some(_) | None => entry.executed_at,
        }
    }

    fn spawned(&self) -> Vec<ShardId> {
        let before = self.before.head.spawned.len();
        self.after.head.spawned.iter().skip(before).map(|spawned| spawned.shard).collect()
    }
}

/// A shard as its new holder gets it.
pub(crate) fn shown(record: &ShardRecord, lease: Lease) -> RestoredShardState {
    RestoredShardState {
        lease,
        status: record.head.status,
        spec: record.spec.clone(),
        cursor: record.cursor.clone(),
        cursor_semantics: record.head.cursor_semantics,
        parent: record.head.parent,
        spawned: record.head.spawned.clone(),
        fruitless_acquires: record.head.fruitless_acquires,
        capacity: CapacityHint::default(),
    }
}

/// A watermark that was stored, before it is told.
pub(crate) fn of_watermark((tenant, run): Address, progress: RunProgress) -> Step {
    Step {
        tenant,
        request: GetRunProgress { run }.into(),
        outcome: Ok(Reply::Progress(progress)),
        events: Vec::new(),
        now: LogicalTime::ZERO,
        processed: None,
        is_wanted: false,
    }
}

/// Whether an outcome says that nothing was done.
pub(crate) const fn is_inert(outcome: &Answer) -> bool {
    use shardwright_coordination::InfraError::Unknown;
    match outcome {
        Ok(_) | Err(CoordError::BackendError(Unknown { .. })) => false,
        Err(_) => true,
    }
}
