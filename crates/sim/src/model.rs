//! What must be true, going by what was accepted.
//!
//! A second, independent account of every run: it believes the answers that the system gave and
//! nothing that the system stores. Oracles hold new answers, and what is visible, against it.

mod apply;
mod room;
mod shard;

use std::collections::{BTreeMap, BTreeSet};

use shardwright_contracts::limits::RUN_OP_LOG_CAPACITY;
use shardwright_contracts::{LogicalTime, RunId, ShardId, TenantId, WorkerId};
use shardwright_coordination::{RunConfig, RunStatus, ShardLimits, ShardStatus};

use crate::keyspace::{POINTS, points_in};
pub use room::{Demand, Room};
pub use shard::{OpMemory, Remembered, ShardModel};

/// The account of all tenants.
#[derive(Debug)]
pub struct Model {
    /// Every tenant that there is.
    pub tenants: BTreeMap<TenantId, TenantModel>,
    /// How many shards there may be.
    pub limits: ShardLimits,
    /// How long a worker waits between two claims.
    pub cooldown_ms: u64,
    /// How long after its deadline a lease is still left alone.
    pub skew_ms: u64,
    /// No fence below this one is granted or accepted.
    pub floor: u64,
    /// How many bytes all shards together may take, where that is bounded.
    pub bytes_capacity: Option<usize>,
}

/// The account of one tenant.
#[derive(Debug)]
pub struct TenantModel {
    /// First byte of all its keys, tokens and metadata.
    pub tag: u8,
    /// How many workers it has.
    pub workers: u32,
    /// Its runs.
    pub runs: BTreeMap<RunId, RunModel>,
    /// When each worker may claim again.
    pub cooldowns: BTreeMap<WorkerId, LogicalTime>,
}

/// The account of one run.
#[derive(Clone, Debug)]
pub struct RunModel {
    /// How it is worked on.
    pub config: RunConfig,
    /// Where it stands.
    pub status: RunStatus,
    /// Whether it hands out nothing.
    pub paused: bool,
    /// When it was made.
    pub created_at: LogicalTime,
    /// When it ended.
    pub completed_at: Option<LogicalTime>,
    /// The ranges of its manifest, in key order.
    pub manifest: Vec<(Vec<u8>, Vec<u8>)>,
    /// Its shards.
    pub shards: BTreeMap<ShardId, ShardModel>,
    /// What was done to it lately.
    pub ops: OpMemory,
    /// The greatest watermark that anybody was told.
    pub watermark: Option<Box<[u8]>>,
    /// The points that accepted work covers.
    pub processed: BTreeSet<u16>,
    /// Who found nothing to claim, and until when it counts as waiting.
    pub waiting: BTreeMap<WorkerId, LogicalTime>,
    /// The latest time that any caller's clock showed.
    pub latest: LogicalTime,
}

impl Model {
    /// The account of a run, if there is one.
    #[must_use]
    pub fn run(&self, tenant: TenantId, run: RunId) -> Option<&RunModel> {
        self.tenants.get(&tenant).and_then(|tenant| tenant.runs.get(&run))
    }

    /// The account of a shard, if there is one.
    #[must_use]
    pub fn shard(&self, tenant: TenantId, run: RunId, shard: ShardId) -> Option<&ShardModel> {
        self.run(tenant, run).and_then(|run| run.shards.get(&shard))
    }

    /// How many shards a tenant has.
    #[must_use]
    pub fn shards_of(&self, tenant: TenantId) -> usize {
        self.tenants
            .get(&tenant)
            .map_or(0, |tenant| tenant.runs.values().map(|run| run.shards.len()).sum())
    }

    /// How many shards there are in all.
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
            ops: OpMemory::new(RUN_OP_LOG_CAPACITY),
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

    /// How many shards could be acquired at `now`: none, if the run hands out nothing.
    #[must_use]
    pub fn available(&self, now: LogicalTime) -> u32 {
        if self.paused || self.status != RunStatus::Active {
            return 0;
        }
        self.shards.values().filter(|shard| shard.is_available(now)).count() as u32
    }

    /// How many shards stand where `status` says.
    #[must_use]
    pub fn count(&self, status: ShardStatus) -> u32 {
        self.shards.values().filter(|shard| shard.status == status).count() as u32
    }

    /// Whether a worker waits at `now` for the answer of some holder other than that of `except`.
    #[must_use]
    pub fn has_asked(&self, worker: WorkerId, now: LogicalTime, except: ShardId) -> bool {
        self.shards.iter().any(|(id, shard)| {
            *id != except && shard.open_request(now).is_some_and(|open| open.requester == worker)
        })
    }
}
