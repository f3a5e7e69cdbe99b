//! A model of every run, computed from accepted requests only.
//!
//! It is independent of the product: it uses the answers of the system, and nothing that the system
//! stores. The oracles compare new answers and the visible state with it.

mod apply;
mod room;
mod shard;

use std::collections::{BTreeMap, BTreeSet};

use shardwright_contracts::limits::RUN_OP_LOG_CAPACITY;
use shardwright_contracts::{LogicalTime, RunId, ShardId, TenantId, WorkerId};
use shardwright_coordination::{RunConfig, RunStatus, ShardLimits, ShardStatus};

use crate::keyspace::{POINTS, points_in};
pub use room::{Allocation, Room};
pub use shard::{LoggedOp, OpLog, ShardModel};

/// The model of all tenants.
#[derive(Debug)]
pub struct Model {
    /// Every tenant.
    pub tenants: BTreeMap<TenantId, TenantModel>,
    /// Limits on the number of shards.
    pub limits: ShardLimits,
    /// Minimum time between two claims of a worker.
    pub cooldown_ms: u64,
    /// Time after its deadline for which a lease is still respected.
    pub skew_ms: u64,
    /// The lowest fence that is granted and accepted.
    pub floor: u64,
    /// Byte budget of all shards together, if there is one.
    pub bytes_capacity: Option<usize>,
}

/// The model of one tenant.
#[derive(Debug)]
pub struct TenantModel {
    /// First byte of all its keys, tokens and metadata.
    pub tag: u8,
    /// Number of its workers.
    pub workers: u32,
    /// Its runs.
    pub runs: BTreeMap<RunId, RunModel>,
    /// When each worker may claim again.
    pub cooldowns: BTreeMap<WorkerId, LogicalTime>,
}

/// The model of one run.
#[derive(Clone, Debug)]
pub struct RunModel {
    /// Its configuration.
    pub config: RunConfig,
    /// Its status.
    pub status: RunStatus,
    /// Whether it is paused.
    pub paused: bool,
    /// When it was created.
    pub created_at: LogicalTime,
    /// When it ended.
    pub completed_at: Option<LogicalTime>,
    /// The ranges of its manifest, in key order.
    pub manifest: Vec<(Vec<u8>, Vec<u8>)>,
    /// Its shards.
    pub shards: BTreeMap<ShardId, ShardModel>,
    /// Its op log.
    pub ops: OpLog,
    /// The highest watermark that was shown.
    pub watermark: Option<Box<[u8]>>,
    /// The points that accepted work covers.
    pub processed: BTreeSet<u16>,
    /// Workers that found nothing to claim, and until when each counts as waiting.
    pub waiting: BTreeMap<WorkerId, LogicalTime>,
    /// The latest time that any caller's clock showed.
    pub latest: LogicalTime,
}

impl Model {
    /// The model of a run, if it exists.
    #[must_use]
    pub fn run(&self, tenant: TenantId, run: RunId) -> Option<&RunModel> {
        self.tenants.get(&tenant).and_then(|tenant| tenant.runs.get(&run))
    }

    /// The model of a shard, if it exists.
    #[must_use]
    pub fn shard(&self, tenant: TenantId, run: RunId, shard: ShardId) -> Option<&ShardModel> {
        self.run(tenant, run).and_then(|run| run.shards.get(&shard))
    }

    /// Number of shards of a tenant.
    #[must_use]
    pub fn shards_of(&self, tenant: TenantId) -> usize {
        self.tenants
            .get(&tenant)
            .map_or(0, |tenant| tenant.runs.values().map(|run| run.shards.len()).sum())
    }

    /// Number of shards of all tenants.
    #[must_use]
    pub fn shards_in_all(&self) -> usize {
        self.tenants.keys().map(|tenant| self.shards_of(*tenant)).sum()
    }
}

impl RunModel {
    fn new(config: RunConfig, created_at: LogicalTime) -> Self {
        Self {
            config,
            status: RunStatus::Initializing,
            paused: false,
            created_at,
            completed_at: None,
            manifest: Vec::new(),
            shards: BTreeMap::new(),
            ops: OpLog::new(RUN_OP_LOG_CAPACITY),
            watermark: None,
            processed: BTreeSet::new(),
            waiting: BTreeMap::new(),
            latest: LogicalTime::ZERO,
        }
    }

    /// The points of the manifest below `bound`, or all of them, that no accepted work covers.
    #[must_use]
    pub fn unprocessed(&self, tag: u8, bound: Option<&[u8]>) -> Vec<u16> {
        let end = bound.map_or(POINTS, |bound| crate::keyspace::point_at_or_after(tag, bound));
        self.manifest
            .iter()
            .flat_map(|(start, end)| points_in(tag, start, end))
            .filter(|point| *point < end && !self.processed.contains(point))
            .collect()
    }

    /// Number of shards that can be acquired at `now`. Zero if the run grants nothing.
    #[must_use]
    pub fn available(&self, now: LogicalTime) -> u32 {
        if self.paused || self.status != RunStatus::Active {
            return 0;
        }
        self.shards.values().filter(|shard| shard.is_available(now)).count() as u32
    }

    /// Number of shards with a status.
    #[must_use]
    pub fn count(&self, status: ShardStatus) -> u32 {
        self.shards.values().filter(|shard| shard.status == status).count() as u32
    }

    /// Whether a worker has an open split request at `now`, on a shard other than `except`.
    #[must_use]
    pub fn has_open_request(&self, worker: WorkerId, now: LogicalTime, except: ShardId) -> bool {
        self.shards.iter().any(|(id, shard)| {
            *id != except && shard.open_request(now).is_some_and(|open| open.requester == worker)
        })
    }
}
