//! The driver: passes requests to the shipped operations, as a backend does, and returns the
//! outcome. It contains no rule of the protocol.

use shardwright_contracts::{Cursor, FenceEpoch, OpId, ShardSpec, ShardSpecRef, TenantId};
use shardwright_coordination::guard::Context;
use shardwright_coordination::operation::{
    Checkpoint, Complete, ParkShard, Release, Renew, UnparkShard,
};
use shardwright_coordination::ops::{self, Acquired, NewShard, ReplaceStep, ResidualStep};
use shardwright_coordination::{
    CoordError, EventCollector, IdempotentOutcome, Lease, OwnerLiveness, ParkReason, ShardRecord,
};

use crate::LOG;
use crate::defect::Defect;
use crate::draft::Draft;
use crate::request::{Command, Key, Plan, bytes_of, cursor_at, key_of};
use crate::world::{Shard, TENANT, World, worker_id};

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The shard is granted.
    Granted(Lease),
    /// The shard parked itself instead of being granted.
    SelfParked,
    /// The operation was executed.
    Executed,
    /// The operation had been executed before.
    Replayed,
    /// The protocol refused the request.
    Refused(CoordError),
    /// All checks passed, but the bounds allow no more shards.
    NoRoom,
}

impl Answer {
    /// Whether a record must have changed.
    #[must_use]
    pub(crate) const fn is_accepted(&self) -> bool {
        matches!(self, Self::Granted(_) | Self::SelfParked | Self::Executed)
    }

    fn of<E: Into<CoordError>>(result: Result<IdempotentOutcome<()>, E>) -> Self {
        match result {
            Ok(IdempotentOutcome::Executed(())) => Self::Executed,
            Ok(IdempotentOutcome::Replayed(())) => Self::Replayed,
            Err(error) => Self::Refused(error.into()),
        }
    }
}

/// The outcome of a request.
pub(crate) struct Outcome {
    pub(crate) answer: Answer,
    /// The record, if the operation wrote to it.
    pub(crate) changed: Option<ShardRecord<LOG>>,
    /// The shards to insert.
    pub(crate) spawned: Vec<Shard>,
}

/// A request with its sender and lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) tenant: TenantId,
    pub(crate) worker: u8,
    pub(crate) shard: u8,
    pub(crate) fence: Option<FenceEpoch>,
    pub(crate) operation: Operation,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    Acquire,
    Renew,
    Command(Command, OpId),
}

/// Executes requests on a world.
pub(crate) struct Executor<'a> {
    pub(crate) world: &'a World,
    pub(crate) defect: Option<Defect>,
    /// How many more shards the bounds allow.
    pub(crate) room: usize,
}

impl Executor<'_> {
    pub(crate) fn handle(&self, call: &Call, shard: &Shard) -> Outcome {
        let defect = self.defect;
        let is_exhausted = call.is_acquire() && self.is_exhausted(shard);
        let run_state = Defect::run_state(defect, self.world.run_state(), is_exhausted);
        let now = match call.operation {
            Operation::Acquire => self.world.now,
            Operation::Renew | Operation::Command(..) => Defect::time(defect, self.world.now),
        };
        let foreign = defect != Some(Defect::TenantUnchecked);
        let tenant = if foreign { call.tenant } else { TENANT };
        let mut context = Context::new(now, tenant, &run_state);
        let ignores_holder = match defect {
            Some(Defect::LeaseIgnored) => call.is_acquire(),
            Some(Defect::ParksUnderHolder) => is_exhausted,
            _ => false,
        };
        if ignores_holder {
            context.holder = OwnerLiveness::Gone;
        }
        let doctored = Defect::record(defect, &shard.record);
        let mut draft = Draft::new(doctored.as_ref().unwrap_or(&shard.record));
        let lease = self.lease(call, shard);
        let (mut answer, spawned) = match call.operation {
            Operation::Acquire => (self.acquire(&context, &mut draft, call.worker), Vec::new()),
            Operation::Renew => (renew(&context, &mut draft, &lease), Vec::new()),
            Operation::Command(Command::Replace(plan), op) => {
                self.replace(&context, &mut draft, &lease, plan, op)
            }
            Operation::Command(Command::Residual(plan), op) => {
                self.residual(&context, &mut draft, &lease, plan, op)
            }
            Operation::Command(command, op) => {
                (simple(&context, &mut draft, &lease, command, op), Vec::new())
            }
        };
        self.apply_defect(&mut answer, &mut draft, call, shard);
        Outcome { answer, changed: draft.into_changed(), spawned }
    }

    fn is_exhausted(&self, shard: &Shard) -> bool {
        let max = self.world.run.config.max_shard_retries;
        max.is_some_and(|max| shard.record.head.acquires_without_progress >= max.get())
    }

    /// The lease that the request presents. No check reads its deadline.
    fn lease(&self, call: &Call, shard: &Shard) -> Lease {
        let head = &shard.record.head;
        let (mut owner, mut fence) = (worker_id(call.worker), call.fence.unwrap_or(head.fence));
        if self.defect == Some(Defect::FenceUnchecked) {
            owner = head.lease.map_or(owner, |holder| holder.owner);
            fence = head.fence;
        }
        // The lease always names the shard's tenant. Only the request may come from another.
        Lease::new(TENANT, head.key, owner, fence, self.world.now)
    }

    fn acquire(&self, context: &Context<'_>, draft: &mut Draft<'_>, worker: u8) -> Answer {
        let mut events = EventCollector::disabled();
        match ops::acquire(context, draft, worker_id(worker), 0, &mut events) {
            Ok(Acquired::Granted(lease)) => Answer::Granted(lease),
            Ok(Acquired::Parked(_)) => Answer::SelfParked,
            Err(error) => Answer::Refused(error.into()),
        }
    }

    fn replace(
        &self,
        context: &Context<'_>,
        draft: &mut Draft<'_>,
        lease: &Lease,
        plan: Plan,
        op: OpId,
    ) -> (Answer, Vec<Shard>) {
        // Plans are built from an existing shard, so they are valid.
        let Some(plan) = plan.replace() else { return (Answer::NoRoom, Vec::new()) };
        let pending = match ops::split_replace(context, draft, lease, plan, op) {
            Ok(ReplaceStep::Replayed(_)) => return (Answer::Replayed, Vec::new()),
            Ok(ReplaceStep::Ready(pending)) => pending,
            Err(error) => return (Answer::Refused(error.into()), Vec::new()),
        };
        if pending.children().len() > self.room {
            return (Answer::NoRoom, Vec::new());
        }
        let spawned = self.insert(pending.children(), draft);
        pending.apply(context, draft, &mut EventCollector::disabled());
        (Answer::Executed, spawned)
    }

    fn residual(
        &self,
        context: &Context<'_>,
        draft: &mut Draft<'_>,
        lease: &Lease,
        plan: Plan,
        op: OpId,
    ) -> (Answer, Vec<Shard>) {
        let Some(plan) = plan.residual() else { return (Answer::NoRoom, Vec::new()) };
        let pending = match ops::split_residual(context, draft, lease, &plan, op) {
            Ok(ResidualStep::Replayed(_)) => return (Answer::Replayed, Vec::new()),
            Ok(ResidualStep::Ready(pending)) => pending,
            Err(error) => return (Answer::Refused(error.into()), Vec::new()),
        };
        if self.room == 0 {
            return (Answer::NoRoom, Vec::new());
        }
        let spawned = self.insert(&[*pending.residual()], draft);
        match pending.apply(context, draft, &mut EventCollector::disabled()) {
            Ok(_) => (Answer::Executed, spawned),
            Err(full) => (Answer::Refused(full.into()), Vec::new()),
        }
    }

    /// Creates the records of new shards.
    fn insert(&self, children: &[NewShard<'_>], parent: &Draft<'_>) -> Vec<Shard> {
        let parent = &parent.record().head;
        let defect = self.defect;
        let inserted = children.iter().enumerate().filter_map(|(index, child)| {
            let mut spec = child.spec;
            if defect == Some(Defect::ChildrenWithGap) && index == 1 {
                let later = bytes_of(key_of(spec.start()) + 1);
                spec = ShardSpecRef::new(later, spec.end(), spec.metadata());
            }
            if defect == Some(Defect::ResidualNotInserted) && children.len() == 1 {
                return None;
            }
            let record = ShardRecord {
                head: child.head(parent),
                spec: ShardSpec::try_from_ref(spec).ok()?,
                cursor: Cursor::try_from_update(child.cursor).ok()?,
            };
            Some(Shard { record, granted: None })
        });
        inserted.collect()
    }

    /// Applies a defect to the result of an operation.
    fn apply_defect(&self, answer: &mut Answer, draft: &mut Draft<'_>, call: &Call, shard: &Shard) {
        let before = shard.record.head.fence;
        let after = draft.record().head.fence;
        let fence = Defect::fence(self.defect, (before, after), call.is_acquire());
        if fence != after {
            draft.record_mut().head.fence = fence;
        }
        if let Answer::Granted(lease) = answer {
            *lease = Lease::new(TENANT, lease.key(), lease.owner(), fence, lease.deadline());
        }
        let has_ended = answer.is_accepted() && draft.record().head.status.is_terminal();
        if self.defect == Some(Defect::LeaseOutlivesShard) && has_ended {
            draft.record_mut().head.lease = shard.record.head.lease;
        }
        if self.defect == Some(Defect::CursorAhead) && *answer == Answer::Executed {
            advance_further(draft, call);
        }
        if self.defect == Some(Defect::ParksWithWrongReason)
            && *answer == Answer::SelfParked
            && let Some(park) = &mut draft.record_mut().head.park
        {
            park.reason = ParkReason::Other;
        }
        if self.defect == Some(Defect::ReplayWrites) && *answer == Answer::Replayed {
            draft.record_mut();
        }
    }
}

/// Moves the cursor one key beyond the checkpoint, if that key is in the shard's range.
fn advance_further(draft: &mut Draft<'_>, call: &Call) {
    let Operation::Command(Command::Checkpoint(Some(key)), _) = call.operation else { return };
    let record = draft.record_mut();
    let next = cursor_at(Some(key + 1));
    if let (true, Ok(cursor)) =
        (next.is_within(record.spec.as_spec_ref()), Cursor::try_from_update(next))
    {
        record.cursor = cursor;
    }
}

impl Call {
    const fn is_acquire(&self) -> bool {
        matches!(self.operation, Operation::Acquire)
    }

    /// The key that the request reports as done.
    pub(crate) const fn key(&self) -> Option<Key> {
        match self.operation {
            Operation::Command(Command::Checkpoint(key) | Command::Complete(key), _) => key,
            Operation::Acquire | Operation::Renew | Operation::Command(..) => None,
        }
    }

    /// The split plan of the request.
    pub(crate) const fn plan(&self) -> Option<Plan> {
        match self.operation {
            Operation::Command(Command::Replace(plan) | Command::Residual(plan), _) => Some(plan),
            Operation::Acquire | Operation::Renew | Operation::Command(..) => None,
        }
    }

    /// Whether the operation needs a lease.
    pub(crate) const fn needs_lease(&self) -> bool {
        !matches!(self.operation, Operation::Acquire | Operation::Command(Command::Unpark, _))
    }
}

fn renew(context: &Context<'_>, draft: &mut Draft<'_>, lease: &Lease) -> Answer {
    match ops::renew(context, draft, &Renew { lease: *lease }, &mut EventCollector::disabled()) {
        Ok(_) => Answer::Executed,
        Err(error) => Answer::Refused(error.into()),
    }
}

/// The operations that create no shards.
fn simple(
    context: &Context<'_>,
    draft: &mut Draft<'_>,
    lease: &Lease,
    command: Command,
    op: OpId,
) -> Answer {
    let (lease, mut events) = (*lease, EventCollector::disabled());
    let events = &mut events;
    match command {
        Command::Checkpoint(key) => {
            let request = Checkpoint { lease, op, cursor: cursor_at(key) };
            Answer::of(ops::checkpoint(context, draft, &request, events))
        }
        Command::Complete(key) => {
            let request = Complete { lease, op, cursor: cursor_at(key) };
            Answer::of(ops::complete(context, draft, &request, events))
        }
        Command::Park => {
            let (reason, detail) = (ParkReason::Poisoned, b"".as_slice());
            let request = ParkShard { lease, reason, op, detail };
            Answer::of(ops::park(context, draft, &request, events))
        }
        Command::Release => {
            Answer::of(ops::release(context, draft, &Release { lease, op }, events))
        }
        Command::Unpark => {
            let request = UnparkShard { key: lease.key(), op };
            Answer::of(ops::unpark(context, draft, &request, events))
        }
        Command::Replace(_) | Command::Residual(_) => Answer::NoRoom,
    }
}
