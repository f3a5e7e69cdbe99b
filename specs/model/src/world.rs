//! The state: real records, the workers' beliefs, and the requests in flight.

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

/// The tenant of the run.
pub(crate) const TENANT: TenantId = TenantId::from_bytes([1; TenantId::SIZE]);
/// Another tenant.
pub(crate) const OTHER_TENANT: TenantId = TenantId::from_bytes([2; TenantId::SIZE]);
const RUN: RunId = RunId::from_raw(1);

/// A shard's record, and the model's notes about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// The record as it is stored.
    pub record: ShardRecord<LOG>,
    /// The worker that the shard's current fence was granted to. It believes to own the shard until
    /// the next grant, also after its lease has ended.
    pub granted: Option<WorkerId>,
}

/// One state of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct World {
    /// The current time.
    pub now: LogicalTime,
    /// The next unused operation id.
    pub next_op: u64,
    /// Number of keys in the manifest.
    pub keys: Key,
    /// The run.
    pub run: Arc<RunRecord>,
    /// Its shards, in the order of their creation.
    pub shards: ArrayVec<Arc<Shard>, SHARDS_MAX>,
    /// Number of workers.
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
    /// First key, and first key after the last.
    #[must_use]
    pub fn range(&self) -> (Key, Key) {
        let spec = self.record.spec.as_spec_ref();
        (key_of(spec.start()), key_of(spec.end()))
    }

    /// The cursor.
    #[must_use]
    pub fn cursor(&self) -> Option<Key> {
        self.record.cursor.as_update().last_key().map(key_of)
    }
}

impl World {
    /// A run that was just started. `None` if the bounds give no valid manifest.
    #[must_use]
    pub fn new(bounds: &Bounds) -> Option<Self> {
        // Time and ids start well above zero, so that earlier values exist.
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

    /// The state of the run that operations on shards need.
    #[must_use]
    pub fn run_state(&self) -> RunState {
        self.run.state(FenceEpoch::INITIAL)
    }

    /// The shard at an index.
    #[must_use]
    pub fn shard(&self, shard: u8) -> Option<&Shard> {
        self.shards.get(usize::from(shard)).map(Arc::as_ref)
    }

    /// The fence under which a worker believes to own a shard.
    #[must_use]
    pub fn held(&self, worker: u8, shard: u8) -> Option<FenceEpoch> {
        let shard = self.shard(shard)?;
        (shard.granted == Some(worker_id(worker))).then_some(shard.record.head.fence)
    }

    /// The next unused operation id.
    #[must_use]
    pub const fn fresh_op(&self) -> OpId {
        OpId::from_raw(self.next_op)
    }
}
