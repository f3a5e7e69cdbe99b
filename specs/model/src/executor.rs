//! The driver: hands requests to the shipped operations, as a backend would, and says what came
//! of them. Not one rule of the protocol is written here.

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
use crate::request::{Ask, Key, Plan, bytes_of, cursor_at, key_of};
use crate::world::{Shard, TENANT, World, worker_id};

/// What somebody was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The shard is theirs.
    Granted(Lease),
    /// The shard parked itself instead.
    ParkedItself,
    /// It was done.
    Executed,
    /// It had been done before.
    Replayed,
    /// The protocol said no.
    Refused(CoordError),
    /// The protocol said yes and there is no room for more shards.
    NoRoom,
}

impl Answer {
    /// Whether a record was to change.
    #[must_use]
    pub(crate) const fn is_accepted(&self) -> bool {
        matches!(self, Self::Granted(_) | Self::ParkedItself | Self::Executed)
    }

    fn of<E: Into<CoordError>>(result: Result<IdempotentOutcome<()>, E>) -> Self {
        match result {
            Ok(IdempotentOutcome::Executed(())) => Self::Executed,
            Ok(IdempotentOutcome::Replayed(())) => Self::Replayed,
            Err(error) => Self::Refused(error.into()),
        }
    }
}

/// What came of a request.
pub(crate) struct Outcome {
    pub(crate) answer: Answer,
    /// The record, if the operation touched it.
    pub(crate) changed: Option<ShardRecord<LOG>>,
    /// The shards to insert.
    pub(crate) spawned: Vec<Shard>,
}

/// Who asks for what, and which lease they show.
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
    Ask(Ask, OpId),
}

/// Executes requests on a world.
pub(crate) struct Executor<'a> {
    pub(crate) world: &'a World,
    pub(crate) defect: Option<Defect>,
    /// How many more shards there may be.
    pub(crate) room: usize,
}

impl Executor<'_> {
    pub(crate) fn handle(&self, call: &Call, shard: &Shard) -> Outcome {
        let defect = self.defect;
        let has_failed = call.is_acquire() && self.has_failed(shard);
        let gate = Defect::gate(defect, self.world.gate(), has_failed);
        let now = match call.operation {
            Operation::Acquire => self.world.now,
            Operation::Renew | Operation::Ask(..) => Defect::time(defect, self.world.now),
        };
        let foreign = defect != Some(Defect::TenantUnchecked);
        let tenant = if foreign { call.tenant } else { TENANT };
        let mut context = Context::new(now, tenant, &gate);
        let is_overthrown = match defect {
            Some(Defect::LeaseIgnored) => call.is_acquire(),
            Some(Defect::ParksUnderHolder) => has_failed,
            _ => false,
        };
        if is_overthrown {
            context.holder = OwnerLiveness::Gone;
        }
        let doctored = Defect::record(defect, &shard.record);
        let mut draft = Draft::new(doctored.as_ref().unwrap_or(&shard.record));
        let lease = self.lease(call, shard);
        let (mut answer, spawned) = match call.operation {
            Operation::Acquire => (self.acquire(&context, &mut draft, call.worker), Vec::new()),
            Operation::Renew => (renew(&context, &mut draft, &lease), Vec::new()),
            Operation::Ask(Ask::Replace(plan), op) => {
                self.replace(&context, &mut draft, &lease, plan, op)
            }
            Operation::Ask(Ask::Residual(plan), op) => {
                self.residual(&context, &mut draft, &lease, plan, op)
            }
            Operation::Ask(ask, op) => (simple(&context, &mut draft, &lease, ask, op), Vec::new()),
        };
        self.spoil(&mut answer, &mut draft, call, shard);
        Outcome { answer, changed: draft.into_changed(), spawned }
    }

    fn has_failed(&self, shard: &Shard) -> bool {
        let max = self.world.run.config.max_shard_retries;
        max.is_some_and(|max| shard.record.head.fruitless_acquires >= max.get())
    }

    /// The lease that is shown. Its deadline is the worker's own note, which nobody else reads.
    fn lease(&self, call: &Call, shard: &Shard) -> Lease {
        let head = &shard.record.head;
        let (mut owner, mut fence) = (worker_id(call.worker), call.fence.unwrap_or(head.fence));
        if self.defect == Some(Defect::FenceUnchecked) {
            owner = head.lease.map_or(owner, |holder| holder.owner);
            fence = head.fence;
        }
        // A lease is of whoever's shard it is; only the one who shows it may be a stranger.
        Lease::new(TENANT, head.key, owner, fence, self.world.now)
    }

    fn acquire(&self, context: &Context<'_>, draft: &mut Draft<'_>, worker: u8) -> Answer {
        let mut events = EventCollector::disabled();
        match ops::acquire(context, draft, worker_id(worker), 0, &mut events) {
            Ok(Acquired::Granted(lease)) => Answer::Granted(lease),
            Ok(Acquired::Parked(_)) => Answer::ParkedItself,
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
        // Plans are made with a shard at hand, so there is one.
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

    /// Makes the records of new shards.
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

    /// What defects make of a good answer.
    fn spoil(&self, answer: &mut Answer, draft: &mut Draft<'_>, call: &Call, shard: &Shard) {
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
            go_ahead(draft, call);
        }
        if self.defect == Some(Defect::ParksForNothing)
            && *answer == Answer::ParkedItself
            && let Some(park) = &mut draft.record_mut().head.park
        {
            park.reason = ParkReason::Other;
        }
        if self.defect == Some(Defect::ReplayWrites) && *answer == Answer::Replayed {
            draft.record_mut();
        }
    }
}

/// Moves the cursor of a checkpoint to the next key, if that is one of the shard's.
fn go_ahead(draft: &mut Draft<'_>, call: &Call) {
    let Operation::Ask(Ask::Checkpoint(Some(key)), _) = call.operation else { return };
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

    /// The key up to which the shard is said to be done.
    pub(crate) const fn key(&self) -> Option<Key> {
        match self.operation {
            Operation::Ask(Ask::Checkpoint(key) | Ask::Complete(key), _) => key,
            Operation::Acquire | Operation::Renew | Operation::Ask(..) => None,
        }
    }

    /// How the shard is to be split.
    pub(crate) const fn plan(&self) -> Option<Plan> {
        match self.operation {
            Operation::Ask(Ask::Replace(plan) | Ask::Residual(plan), _) => Some(plan),
            Operation::Acquire | Operation::Renew | Operation::Ask(..) => None,
        }
    }

    /// Whether it is something that only the holder of a lease may do.
    pub(crate) const fn needs_lease(&self) -> bool {
        !matches!(self.operation, Operation::Acquire | Operation::Ask(Ask::Unpark, _))
    }
}

fn renew(context: &Context<'_>, draft: &mut Draft<'_>, lease: &Lease) -> Answer {
    match ops::renew(context, draft, &Renew { lease: *lease }, &mut EventCollector::disabled()) {
        Ok(_) => Answer::Executed,
        Err(error) => Answer::Refused(error.into()),
    }
}

/// The operations that make no shards.
fn simple(
    context: &Context<'_>,
    draft: &mut Draft<'_>,
    lease: &Lease,
    ask: Ask,
    op: OpId,
) -> Answer {
    let (lease, mut events) = (*lease, EventCollector::disabled());
    let events = &mut events;
    match ask {
        Ask::Checkpoint(key) => {
            let request = Checkpoint { lease, op, cursor: cursor_at(key) };
            Answer::of(ops::checkpoint(context, draft, &request, events))
        }
        Ask::Complete(key) => {
            let request = Complete { lease, op, cursor: cursor_at(key) };
            Answer::of(ops::complete(context, draft, &request, events))
        }
        Ask::Park => {
            let (reason, detail) = (ParkReason::Poisoned, b"".as_slice());
            let request = ParkShard { lease, reason, op, detail };
            Answer::of(ops::park(context, draft, &request, events))
        }
        Ask::Release => Answer::of(ops::release(context, draft, &Release { lease, op }, events)),
        Ask::Unpark => {
            let request = UnparkShard { key: lease.key(), op };
            Answer::of(ops::unpark(context, draft, &request, events))
        }
        Ask::Replace(_) | Ask::Residual(_) => Answer::NoRoom,
    }
}
