//! The state: real records, what the workers believe, and what is under way.

use std::sync::Arc;

use arrayvec::ArrayVec;
use shardwright_contracts::{
    Cursor, CursorSemantics, FenceEpoch, InitialShardInput, LogicalTime, OpId, RunId, ShardId,
    ShardKey, ShardSpec, ShardSpecRef, TenantId, WorkerId,
};
use shardwright_coordination::ops::{RegisterStep, RunCall, create_run, register_shards};
use shardwright_coordination::{
    EventCollector, RunConfig, RunRecord, RunState, ShardHead, ShardRecord,
};

use crate::LOG;
use crate::bounds::{Bounds, REQUESTS_MAX, SHARDS_MAX};
use crate::request::{Key, Request, bytes_of, key_of};

/// Whose run it is.
pub(crate) const TENANT: TenantId = TenantId::from_bytes([1; TenantId::SIZE]);
/// Who has no business here.
pub(crate) const STRANGER: TenantId = TenantId::from_bytes([2; TenantId::SIZE]);
const RUN: RunId = RunId::from_raw(1);

/// A shard's record, and what the model notes beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// The record, as it would be stored.
    pub record: ShardRecord<LOG>,
    /// Whom the shard's present fence was granted to: this worker believes to own the shard, and
    /// goes on believing it until another comes, whatever became of the lease.
    pub granted: Option<WorkerId>,
}

/// Everything at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct World {
    /// What time it is.
    pub now: LogicalTime,
    /// The next operation id that nobody has used.
    pub next_op: u64,
    /// How many keys the manifest covers.
    pub keys: Key,
    /// The run.
    pub run: Arc<RunRecord>,
    /// Its shards, in the order in which they came to be.
    pub shards: ArrayVec<Arc<Shard>, SHARDS_MAX>,
    /// How many workers there are.
    pub workers: u8,
    /// The requests that may still arrive.
    pub requests: ArrayVec<Request, REQUESTS_MAX>,
}

/// The id of the worker with a number.
#[must_use]
pub(crate) fn worker_id(worker: u8) -> WorkerId {
    WorkerId::from_raw(u64::from(worker))
}

impl Shard {
    /// First key, and first key behind the last.
    #[must_use]
    pub fn range(&self) -> (Key, Key) {
        let spec = self.record.spec.as_spec_ref();
        (key_of(spec.start()), key_of(spec.end()))
    }

    /// How far it is.
    #[must_use]
    pub fn cursor(&self) -> Option<Key> {
        self.record.cursor.as_update().last_key().map(key_of)
    }
}

impl World {
    /// A run that was just started. `None` if the bounds make no valid manifest.
    #[must_use]
    pub fn new(bounds: &Bounds) -> Option<Self> {
        // Time and ids begin well above zero, so that what is before them exists.
        let now = LogicalTime::from_millis(100);
        let call = RunCall { now, tenant: TENANT };
        let mut events = EventCollector::disabled();
        let semantics = CursorSemantics::Completed;
        let config = RunConfig::try_new(semantics, bounds.lease_ticks, bounds.retries).ok()?;
        let mut run = create_run(&call, RUN, config, None, &mut events).ok()?;

        let starts = std::iter::once(0).chain(bounds.cuts.iter().copied());
        let ends = bounds.cuts.iter().copied().chain([bounds.keys]);
        let inputs: Vec<_> = starts
            .zip(ends)
            .zip(1..)
            .map(|((start, end), id)| InitialShardInput {
                shard: ShardId::from_raw(id),
                spec: ShardSpecRef::new(bytes_of(start), bytes_of(end), b""),
                cursor: Default::default(),
            })
            .collect();
        match register_shards(&call, &run, &inputs, OpId::from_raw(1)).ok()? {
            RegisterStep::Ready(pending) => pending.apply(&call, &mut run, &mut events),
            RegisterStep::Replayed => return None,
        }
        let mut shards = ArrayVec::new();
        for input in &inputs {
            let key = ShardKey::new(RUN, input.shard);
            let head = ShardHead::new(TENANT, key, None, semantics);
            let spec = ShardSpec::try_from_ref(input.spec).ok()?;
            let record = ShardRecord { head, spec, cursor: Cursor::initial() };
            shards.push(Arc::new(Shard { record, granted: None }));
        }
        Some(Self {
            now,
            next_op: 2,
            keys: bounds.keys,
            workers: bounds.workers,
            run: Arc::new(run),
            shards,
            requests: ArrayVec::new(),
        })
    }

    /// What operations on shards need to know of the run.
    #[must_use]
    pub fn gate(&self) -> RunState {
        self.run.state(FenceEpoch::INITIAL)
    }

    /// The shard at a place.
    #[must_use]
    pub fn shard(&self, shard: u8) -> Option<&Shard> {
        self.shards.get(usize::from(shard)).map(Arc::as_ref)
    }

    /// The fence that a worker believes to own a shard by.
    #[must_use]
    pub fn held(&self, worker: u8, shard: u8) -> Option<FenceEpoch> {
        let shard = self.shard(shard)?;
        (shard.granted == Some(worker_id(worker))).then_some(shard.record.head.fence)
    }

    /// The next operation id that nobody has used.
    #[must_use]
    pub const fn fresh_op(&self) -> OpId {
        OpId::from_raw(self.next_op)
    }
}
