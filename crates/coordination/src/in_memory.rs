//! The protocol over plain memory: the executable specification.
//!
//! It finds records, calls [`crate::ops`] and maintains its indexes. Bytes live in one preallocated
//! slab, so a busy coordinator does not allocate. Rarely used bytes lie outside the slab and are
//! counted. When the bytes are used up, an operation is refused and changes nothing.

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
use shardwright_contracts::{FenceEpoch, LogicalTime, RunId, ShardKey, SlabTooLarge, TenantId};

use crate::cooldown::ClaimCooldowns;
use crate::directory::{RunLabel, RunName};
use crate::error::reason::{RunNotFound, ShardNotFound};
use crate::events::{EventCollector, StateTransitionEvent};
use crate::lease::TakeoverTerms;
use crate::record::RunState;
use crate::shard_limits::ShardLimits;

use byte_budget::ByteBudget;
use pooled::{PooledShard, PooledShardMut};
use run_entry::RunEntry;

/// Default byte capacity of the slab.
pub const DEFAULT_MAX_AUTO_SLAB_CAPACITY: u32 = 64 << 20;
/// Default limit of the runs of all tenants.
pub const DEFAULT_MAX_TOTAL_RUNS: usize = 100_000;

/// The limits of an [`InMemoryCoordinator`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoordinatorRuntimeConfig {
    /// Maximum shards of one tenant.
    pub max_shards_per_tenant: usize,
    /// Maximum shards of all tenants.
    pub max_total_shards: usize,
    /// Maximum runs of all tenants, ended ones included. Together with the limit of shards it
    /// bounds the memory of runs: watermarks and ids of root shards.
    pub max_total_runs: usize,
    /// Minimum time between two claims of a worker, in milliseconds.
    pub claim_cooldown_interval_ms: u64,
    /// Maximum bytes of all keys, metadata, tokens, park details and lists of spawned shards.
    pub slab_capacity: u32,
    /// Fences below this one are neither granted nor accepted.
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

impl CoordinatorRuntimeConfig {
    /// One process has one clock, so no skew is allowed for.
    const fn takeover_terms(&self, now: LogicalTime) -> TakeoverTerms {
        TakeoverTerms { now, fence_floor: self.fence_floor, skew_ms: 0 }
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
    /// The events since the last [`InMemoryCoordinator::take_events`], if they are collected.
    events: Option<Vec<StateTransitionEvent>>,
}

#[derive(Default)]
struct TenantState {
    runs: BTreeMap<RunId, RunEntry>,
    shard_count: usize,
    names: BTreeMap<RunName, RunId>,
    labels: BTreeMap<RunId, RunLabel>,
}

/// The run of a shard and the byte budget, borrowed for one operation.
struct Located<'a> {
    run: &'a mut RunEntry,
    room: &'a mut ByteBudget,
    state: RunState,
}

impl InMemoryCoordinator {
    /// Allocates a coordinator. Fails if the memory is not available.
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

    /// Collects the events of later operations for [`InMemoryCoordinator::take_events`].
    pub fn collect_events(&mut self) {
        self.events = Some(Vec::new());
    }

    /// The events since the last call, oldest first.
    pub fn take_events(&mut self) -> Vec<StateTransitionEvent> {
        self.events.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// A collector for one operation. It costs nothing while events are not collected.
    const fn collector(&self) -> EventCollector {
        if self.events.is_some() { EventCollector::new() } else { EventCollector::disabled() }
    }

    fn publish(&mut self, mut collected: EventCollector) {
        if let Some(events) = &mut self.events {
            collected.drain_with(|event| events.push(event));
        }
    }

    /// Makes every fence below `floor` stale. Call it after restoring a backup, because fences
    /// granted since the backup must not be granted again. The floor never decreases.
    pub fn raise_fence_floor(&mut self, floor: FenceEpoch) {
        self.config.fence_floor = self.config.fence_floor.max(floor);
        let runs = self.tenants.values_mut().flat_map(|tenant| tenant.runs.values_mut());
        runs.for_each(|run| run.raise_floor(self.config.fence_floor));
    }

    /// The number of all shards.
    #[must_use]
    pub const fn shard_count(&self) -> usize {
        self.total_shards
    }

    /// The bytes of all keys, metadata, tokens, park details and lists of spawned shards.
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

    /// Finds a run of the tenant.
    fn run_mut(&mut self, tenant: TenantId, run: RunId) -> Result<&mut RunEntry, RunNotFound> {
        let state = self.tenants.get_mut(&tenant).and_then(|tenant| tenant.runs.get_mut(&run));
        state.ok_or(RunNotFound { run })
    }

    /// Finds the run of a shard, with the rest of what an operation on the shard needs. The
    /// operation itself looks up the shard.
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
