//! The protocol over plain memory: the executable specification.
//!
//! It does nothing but find records, call [`crate::ops`] and keep its indexes right. Bytes live in
//! one preallocated slab, so that a busy coordinator does not touch the heap. What few shards need
//! lies beside it and is counted, and when the bytes are used up that is a refusal that changes
//! nothing.

mod backend;
mod byte_budget;
mod claiming;
mod directory;
mod management;
mod pooled;
mod row_index;
mod run_entry;
mod shard_table;

use std::collections::BTreeMap;
use std::fmt;

use shardwright_contracts::limits::{DEFAULT_MAX_SHARDS_PER_TENANT, DEFAULT_MAX_TOTAL_SHARDS};
use shardwright_contracts::{FenceEpoch, RunId, ShardKey, SlabTooLarge, TenantId};

use crate::cooldown::ClaimCooldowns;
use crate::directory::{RunLabel, RunName};
use crate::error::reason::{RunNotFound, ShardNotFound};
use crate::events::{EventCollector, StateTransitionEvent};
use crate::record::RunState;
use crate::shard_limits::ShardLimits;

use byte_budget::ByteBudget;
use pooled::{PooledShard, PooledShardMut};
use run_entry::RunEntry;

/// Byte capacity of the slab, unless configured otherwise.
pub const DEFAULT_MAX_AUTO_SLAB_CAPACITY: u32 = 64 << 20;
/// Most runs of all tenants together, unless configured otherwise.
pub const DEFAULT_MAX_TOTAL_RUNS: usize = 100_000;

/// What an [`InMemoryCoordinator`] may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoordinatorRuntimeConfig {
    /// Most shards of one tenant.
    pub max_shards_per_tenant: usize,
    /// Most shards of all tenants together.
    pub max_total_shards: usize,
    /// Most runs of all tenants together, ended ones included. With it and the number of shards,
    /// what a run keeps besides is bounded: a watermark, and the ids of its root shards.
    pub max_total_runs: usize,
    /// How long a worker waits between two claims, in milliseconds.
    pub claim_cooldown_interval_ms: u64,
    /// How many bytes keys, metadata and tokens, reasons for parking and lists of spawned shards
    /// may take in all.
    pub slab_capacity: u32,
    /// No fence below this one is granted or accepted.
    pub fence_floor: FenceEpoch,
}

impl Default for CoordinatorRuntimeConfig {
    fn default() -> Self {
        Self {
            max_shards_per_tenant: DEFAULT_MAX_SHARDS_PER_TENANT,
            max_total_shards: DEFAULT_MAX_TOTAL_SHARDS,
            max_total_runs: DEFAULT_MAX_TOTAL_RUNS,
            claim_cooldown_interval_ms: 0,
            slab_capacity: DEFAULT_MAX_AUTO_SLAB_CAPACITY,
            fence_floor: FenceEpoch::INITIAL,
        }
    }
}

/// Keeps runs and their shards in memory.
pub struct InMemoryCoordinator {
    config: CoordinatorRuntimeConfig,
    room: ByteBudget,
    tenants: BTreeMap<TenantId, TenantState>,
    total_shards: usize,
    total_runs: usize,
    cooldowns: ClaimCooldowns,
    /// What happened since it was last asked for, if anybody wants to know.
    events: Option<Vec<StateTransitionEvent>>,
}

#[derive(Default)]
struct TenantState {
    runs: BTreeMap<RunId, RunEntry>,
    shard_count: usize,
    names: BTreeMap<RunName, RunId>,
    labels: BTreeMap<RunId, RunLabel>,
}

/// A shard's run and the bytes of its shards, borrowed for one operation.
struct Located<'a> {
    run: &'a mut RunEntry,
    room: &'a mut ByteBudget,
    state: RunState,
}

impl InMemoryCoordinator {
    /// Allocates a coordinator, if there is that much memory.
    pub fn try_new(config: CoordinatorRuntimeConfig) -> Result<Self, SlabTooLarge> {
        // A shard's range and metadata take one slot, its cursor another.
        let slots = config.max_total_shards.saturating_mul(2);
        let slots = u32::try_from(slots).unwrap_or(u32::MAX);
        Ok(Self {
            config,
            room: ByteBudget::try_new(slots, config.slab_capacity)?,
            tenants: BTreeMap::new(),
            total_shards: 0,
            total_runs: 0,
            cooldowns: ClaimCooldowns::new(),
            events: None,
        })
    }

    /// Keeps the events of the operations that follow, for [`InMemoryCoordinator::take_events`].
    pub fn collect_events(&mut self) {
        self.events = Some(Vec::new());
    }

    /// The events since the last call, oldest first.
    pub fn take_events(&mut self) -> Vec<StateTransitionEvent> {
        self.events.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// A collector for one operation, which costs nothing if nobody wants to know.
    const fn collector(&self) -> EventCollector {
        if self.events.is_some() { EventCollector::new() } else { EventCollector::disabled() }
    }

    fn publish(&mut self, mut collected: EventCollector) {
        if let Some(events) = &mut self.events {
            collected.drain_with(|event| events.push(event));
        }
    }

    /// Makes every fence below `floor` stale, as after the restore of a backup: what was granted
    /// since the backup was made must not be granted again. A floor never falls.
    pub fn raise_fence_floor(&mut self, floor: FenceEpoch) {
        self.config.fence_floor = self.config.fence_floor.max(floor);
        let runs = self.tenants.values_mut().flat_map(|tenant| tenant.runs.values_mut());
        runs.for_each(|run| run.raise_floor(self.config.fence_floor));
    }

    /// How many shards there are in all.
    #[must_use]
    pub const fn shard_count(&self) -> usize {
        self.total_shards
    }

    /// How many bytes keys, metadata and tokens, reasons for parking and lists of spawned shards
    /// take.
    #[must_use]
    pub const fn bytes_used(&self) -> usize {
        self.room.bytes_used()
    }

    const fn limits(&self) -> ShardLimits {
        ShardLimits {
            per_tenant: self.config.max_shards_per_tenant,
            total: self.config.max_total_shards,
        }
    }

    /// Finds a run. Another tenant's is not there.
    fn run_mut(&mut self, tenant: TenantId, run: RunId) -> Result<&mut RunEntry, RunNotFound> {
        let state = self.tenants.get_mut(&tenant).and_then(|tenant| tenant.runs.get_mut(&run));
        state.ok_or(RunNotFound { run })
    }

    /// Finds a shard's run, together with what an operation on the shard needs besides. Whether the
    /// run has the shard is not looked at: the operation looks it up anyway.
    fn locate(&mut self, tenant: TenantId, key: ShardKey) -> Result<Located<'_>, ShardNotFound> {
        let run = self
            .tenants
            .get_mut(&tenant)
            .and_then(|tenant| tenant.runs.get_mut(&key.run))
            .ok_or(ShardNotFound { key })?;
        let state = run.record.state(self.config.fence_floor);
        Ok(Located { run, room: &mut self.room, state })
    }
}

impl fmt::Debug for InMemoryCoordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InMemoryCoordinator")
            .field("tenants", &self.tenants.len())
            .field("shards", &self.total_shards)
            .field("room", &self.room)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
