//! Each operation alone: its changes, its refusals, and that a refusal changes nothing.

use shardwright_contracts::{
    Cursor, CursorSemantics, CursorUpdate, FenceEpoch, LogicalTime, OpId, RunId, ShardId, ShardKey,
    ShardSpec, TenantId, WorkerId,
};

use super::*;
use crate::error::{CheckpointError, CoordError};
use crate::guard::Context;
use crate::lease::{Lease, OwnerLiveness};
use crate::op_log::IdempotentOutcome;
use crate::operation::{Checkpoint, Complete, ParkShard, Release, Renew, UnparkShard};
use crate::record::{RunConfig, RunState, ShardRecord, ShardState};
use crate::status::{ParkReason, RunStatus, ShardStatus};

mod guard_order;
mod lifecycle;
mod runs;
mod splits;

const TENANT: TenantId = TenantId::from_bytes([1; 32]);
const STRANGER: TenantId = TenantId::from_bytes([2; 32]);
const LEASE_MS: u64 = 100;

/// One shard `[b, y)` of one active run, with a clock.
struct World {
    shard: ShardRecord,
    run: RunState,
    now: LogicalTime,
    tenant: TenantId,
    liveness: OwnerLiveness,
    events: EventCollector,
}

fn worker(raw: u64) -> WorkerId {
    WorkerId::from_raw(raw)
}

fn op(raw: u64) -> OpId {
    OpId::from_raw(raw)
}

impl World {
    fn new() -> Self {
        let key = ShardKey::new(RunId::from_raw(7), ShardId::from_raw(3));
        let config = RunConfig::try_new(CursorSemantics::Completed, LEASE_MS, None).unwrap();
        Self {
            shard: ShardRecord {
                head: ShardHead::new(TENANT, key, None, CursorSemantics::Completed),
                spec: ShardSpec::try_new(b"b", b"y", b"meta").unwrap(),
                cursor: Cursor::initial(),
            },
            run: RunState {
                run: key.run,
                status: RunStatus::Active,
                paused: false,
                config,
                fence_floor: FenceEpoch::INITIAL,
            },
            now: LogicalTime::from_millis(1_000),
            tenant: TENANT,
            liveness: OwnerLiveness::Untracked,
            events: EventCollector::new(),
        }
    }

    fn pass(&mut self, millis: u64) {
        self.now = self.now.saturating_add(millis);
    }

    fn head(&self) -> &ShardHead {
        self.shard.head()
    }

    /// Calls an operation. Checks that a refusal changed nothing and emitted no event.
    fn call<T, E: Into<CoordError>>(
        &mut self,
        operation: impl FnOnce(&Context<'_>, &mut ShardRecord, &mut EventCollector) -> Result<T, E>,
    ) -> Result<T, CoordError> {
        let (before, emitted) = (self.shard.clone(), self.events.len());
        let context =
            Context { holder: self.liveness, ..Context::new(self.now, self.tenant, &self.run) };
        let result = operation(&context, &mut self.shard, &mut self.events).map_err(Into::into);
        if result.is_err() {
            assert_eq!(self.shard, before, "a refusal changed the record");
            assert_eq!(self.events.len(), emitted, "a refusal emitted an event");
        }
        self.shard.check_invariants().unwrap();
        result
    }

    fn acquire_as(&mut self, id: u64, liveness: OwnerLiveness) -> Result<Acquired, CoordError> {
        self.liveness = liveness;
        let outcome =
            self.call(|context, shard, events| acquire(context, shard, worker(id), 0, events));
        self.liveness = OwnerLiveness::Untracked;
        outcome
    }

    fn acquire(&mut self, id: u64) -> Lease {
        match self.acquire_as(id, OwnerLiveness::Untracked).unwrap() {
            Acquired::Granted(lease) => lease,
            Acquired::Parked(reason) => panic!("{reason}"),
        }
    }

    fn renew(&mut self, lease: &Lease) -> Result<Lease, CoordError> {
        self.call(|context, shard, events| renew(context, shard, &Renew { lease: *lease }, events))
    }

    fn checkpoint(
        &mut self,
        lease: &Lease,
        key: &str,
        id: u64,
    ) -> Result<IdempotentOutcome<()>, CoordError> {
        let cursor = CursorUpdate::at(key.as_bytes());
        let request = Checkpoint { lease: *lease, op: op(id), cursor };
        self.call(|context, shard, events| checkpoint(context, shard, &request, events))
    }

    fn complete(
        &mut self,
        lease: &Lease,
        cursor: CursorUpdate<'_>,
        id: u64,
    ) -> Result<IdempotentOutcome<()>, CoordError> {
        let request = Complete { lease: *lease, op: op(id), cursor };
        self.call(|context, shard, events| complete(context, shard, &request, events))
    }

    fn park(&mut self, lease: &Lease, id: u64) -> Result<IdempotentOutcome<()>, CoordError> {
        let (reason, detail) = (ParkReason::Poisoned, b"bad row".as_slice());
        let request = ParkShard { lease: *lease, reason, op: op(id), detail };
        self.call(|context, shard, events| park(context, shard, &request, events))
    }

    fn release(&mut self, lease: &Lease, id: u64) -> Result<IdempotentOutcome<()>, CoordError> {
        let request = Release { lease: *lease, op: op(id) };
        self.call(|context, shard, events| release(context, shard, &request, events))
    }

    fn unpark(&mut self, id: u64) -> Result<IdempotentOutcome<()>, CoordError> {
        let request = UnparkShard { key: self.head().key, op: op(id) };
        self.call(|context, shard, events| unpark(context, shard, &request, events))
    }

    fn last_event(&self) -> &EventKind {
        &self.events.iter().last().unwrap().kind
    }
}

fn executed() -> Result<IdempotentOutcome<()>, CoordError> {
    Ok(IdempotentOutcome::Executed(()))
}

fn replayed() -> Result<IdempotentOutcome<()>, CoordError> {
    Ok(IdempotentOutcome::Replayed(()))
}
