//! The step of a commit, computed from the records before and after it.

use shardwright_contracts::{LogicalTime, RunId, ShardId, ShardKey, TenantId};
use shardwright_coordination::error::reason::RetriesExhausted;
use shardwright_coordination::{
    CapacityHint, CoordError, EventKind, IdempotentOutcome, Lease, OpLogEntry, ParkReason,
    RenewResult, RestoredShardState, RunConfig, RunProgress, ShardRecord, ShardStatus,
    SplitReplaceResult, SplitResidualResult, StateTransitionEvent,
};
use shardwright_runs::records::RunHeadRecord;

use super::record_checks::Address;
use crate::director::CallRequest;
use crate::keyspace::Point;
use crate::oracle::{Finding, Oracle};
use crate::request::operation::{
    Acquire, Claim, CreateRun, CreateRunWithShards, GetRunProgress, Renew, UnparkShard,
};
use crate::request::{Answer, Reply, Request, applied};

pub(crate) const EXPLAINED: &Oracle = &Oracle::of_the_world(
    "every commit was requested",
    "each commit is exactly one step, and its author was requested to make it",
);

/// The step of a commit, as a request and its outcome.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) tenant: TenantId,
    pub(crate) request: Request,
    pub(crate) outcome: Answer,
    pub(crate) events: Vec<StateTransitionEvent>,
    pub(crate) now: LogicalTime,
    pub(crate) processed: Option<(Point, Point)>,
    /// Whether it is the requested step, and not an intermediate one.
    pub(crate) is_wanted: bool,
}

/// The call of a commit's author, and its time.
#[derive(Clone, Copy)]
pub(crate) struct AuthorCall<'a> {
    pub(crate) sent: Option<&'a CallRequest>,
    /// At the earliest.
    pub(crate) not_before: LogicalTime,
    /// At the latest.
    pub(crate) not_after: LogicalTime,
}

fn unexplained(text: String) -> Finding {
    Finding { oracle: EXPLAINED.name, text }
}

/// The step of a run's own record.
pub(crate) fn of_run(
    (tenant, run): Address,
    before: Option<&RunHeadRecord>,
    after: &RunHeadRecord,
    sent: Option<&CallRequest>,
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
    match (before, fresh.as_slice(), sent.and_then(CallRequest::request)) {
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
                && sent.is_some_and(|sent| sent.is_of(tenant, run)) =>
        {
            // Times of the op log are monotonic, so they may be ahead. The end of a run is exact.
            let (request, now) = (request.clone(), after.completed_at.unwrap_or(entry.executed_at));
            let outcome = Ok(applied(false));
            Ok(Some(Step { request, outcome, now, ..base }))
        }
        _ => Err(unexplained(format!("run {run} went from {before:?} to {after:?}"))),
    }
}

/// The step of a shard.
pub(crate) fn of_shard(
    (tenant, run): Address,
    config: &RunConfig,
    before: &ShardRecord,
    after: &ShardRecord,
    asked: AuthorCall<'_>,
) -> Result<Option<Step>, Finding> {
    let AuthorCall { sent, not_before, not_after } = asked;
    let (old, new) = (&before.head, &after.head);
    let fresh = fresh(old.op_log.entries(), new.op_log.entries());
    let change = Change { tenant, run, config, before, after, not_before, not_after };
    match fresh.as_slice() {
        [] if new.fence != old.fence => change.granted(sent).map(Some),
        [] if new.status != old.status => change.parked(sent).map(Some),
        [] if before == after => Ok(None),
        [] => change.renewed(sent).map(Some),
        [entry] => change.requested(entry, sent).map(Some),
        _ => Err(change.unexplained("one commit made two steps")),
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

    /// A new owner.
    fn granted(&self, sent: Option<&CallRequest>) -> Result<Step, Finding> {
        let head = &self.after.head;
        let Some(holder) = head.lease else {
            return Err(self.unexplained("a fence rose without an owner"));
        };
        let wanted = match sent.and_then(CallRequest::request) {
            Some(Request::Acquire(Acquire { key, worker })) => {
                (*key, *worker) == (head.key, holder.owner)
            }
            Some(Request::Claim(Claim { run, worker })) => {
                (*run, *worker) == (self.run, holder.owner)
            }
            _ => false,
        };
        if !wanted {
            return Err(self.unexplained("no call requested the shard"));
        }
        let lease = Lease::new(self.tenant, head.key, holder.owner, head.fence, holder.deadline);
        let duration = self.config.lease_duration_ms.get();
        let now = LogicalTime::from_millis(holder.deadline.as_millis().saturating_sub(duration));
        let request = Acquire { key: head.key, worker: holder.owner }.into();
        let granted = shown(self.after, lease).into();
        Ok(self.step(request, Ok(granted), now))
    }

    /// Parked for want of progress.
    fn parked(&self, sent: Option<&CallRequest>) -> Result<Step, Finding> {
        let head = &self.after.head;
        let worker = match sent.and_then(CallRequest::request) {
            Some(
                Request::Acquire(Acquire { worker, .. }) | Request::Claim(Claim { worker, .. }),
            ) => *worker,
            _ => return Err(self.unexplained("no call requested it")),
        };
        let is_parked = head.status == ShardStatus::Parked
            && head.park.as_ref().is_some_and(|park| park.reason == ParkReason::TooManyErrors);
        if !is_parked {
            return Err(self.unexplained("not a valid park"));
        }
        let shard = head.key.shard;
        let reason =
            RetriesExhausted { shard, attempts: self.before.head.acquires_without_progress };
        let request = Acquire { key: head.key, worker }.into();
        // The latest moment counts: a park that is wrong then is wrong at any moment.
        let mut step = self.step(request, Err(reason.into()), self.not_after);
        let kind = EventKind::ShardParked { shard, reason: ParkReason::TooManyErrors };
        step.events.push(self.event(step.now, kind));
        step.is_wanted = false;
        Ok(step)
    }

    /// A renewed lease.
    fn renewed(&self, sent: Option<&CallRequest>) -> Result<Step, Finding> {
        let Some(Request::Renew(Renew { lease })) = sent.and_then(CallRequest::request) else {
            return Err(self.unexplained("no call requested it"));
        };
        let (Some(holder), true) = (self.after.head.lease, lease.key() == self.key()) else {
            return Err(self.unexplained("not a valid renewal"));
        };
        let new_deadline = holder.deadline;
        let duration = self.config.lease_duration_ms.get();
        let now = LogicalTime::from_millis(new_deadline.as_millis().saturating_sub(duration));
        let request = Renew { lease: *lease }.into();
        let (notice, capacity) = (None, CapacityHint::default());
        let renewed = Reply::Renewed(RenewResult { new_deadline, notice, capacity });
        Ok(self.step(request, Ok(renewed), now))
    }

    /// An operation with an op id.
    fn requested(&self, entry: &OpLogEntry, sent: Option<&CallRequest>) -> Result<Step, Finding> {
        let Some(CallRequest::Request { tenant, request, processed, .. }) = sent else {
            return Err(self.unexplained("no call requested it"));
        };
        let is_it = request.op_id() == Some(entry.op)
            && *tenant == self.tenant
            && request.shard() == Some(self.key());
        if !is_it {
            return Err(self.unexplained("the call requested another step"));
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
                _ => return Err(self.unexplained("not exactly one residual was created")),
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

    /// The time of an operation. The times of an op log are monotonic, so they are upper bounds.
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
        acquires: record.head.acquire_count,
        acquires_without_progress: record.head.acquires_without_progress,
        capacity: CapacityHint::default(),
    }
}

/// The step of a stored watermark.
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

/// Whether an outcome reports that nothing was done.
pub(crate) const fn is_inert(outcome: &Answer) -> bool {
    use shardwright_coordination::InfraError::Unknown;
    match outcome {
        Ok(_) | Err(CoordError::BackendError(Unknown { .. })) => false,
        Err(_) => true,
    }
}
