//! The stored state of the run, read commit by commit, and the leases in it.

use std::collections::BTreeMap;

use shardwright_contracts::{FenceEpoch, LogicalTime, RunId, ShardId, TenantId};
use shardwright_coordination::{LeaseHolder, RunStatus, ShardRecord};
use shardwright_engine::keyspace::Keyspace;
use shardwright_runs::keys::RunKeys;
use shardwright_store::memory::MemoryStore;
use shardwright_store::{Revision, StoreRange};

use crate::oracle::{ASSERTIONS, Finding};
use crate::runtime::faults::Faults;
use crate::stored::record_checks::{RecordChecks, Touched};

pub(super) const TENANT: TenantId = TenantId::from_bytes([7; 32]);
pub(super) const RUN: RunId = RunId::from_raw(1);

/// A lease as it is stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    deadline: LogicalTime,
    /// When work under it must stop. The holder measures from its request, before the commit.
    pub(super) usable_until_us: u64,
    /// Whether the holder's session ended, and the lease with it.
    pub(super) session_ended: bool,
}

/// A shard whose cursor moved.
#[derive(Clone, Debug)]
pub(super) struct Moved {
    pub(super) before: ShardRecord,
    pub(super) after: ShardRecord,
}

/// The stored state.
pub(super) struct StoredState {
    pub(super) records: RecordChecks,
    everything: StoreRange,
    pub(super) seen: Revision,
    /// Time for which a holder uses a lease after it requested it.
    usable_us: u64,
    owners: BTreeMap<ShardId, FenceEpoch>,
    grants: BTreeMap<(ShardId, FenceEpoch), Grant>,
}

impl StoredState {
    pub(super) fn new(records: RecordChecks, everything: StoreRange, usable_us: u64) -> Self {
        let seen = Revision::ZERO;
        let (owners, grants) = (BTreeMap::new(), BTreeMap::new());
        Self { records, everything, seen, usable_us, owners, grants }
    }

    pub(super) fn keys() -> RunKeys {
        RunKeys::new(Keyspace::bare())
    }

    /// Applies the commits since the last call, and returns the shards whose cursors moved.
    pub(super) fn follow(
        &mut self,
        store: &MemoryStore,
        faults: &Faults,
        now_us: u64,
    ) -> Result<Vec<Moved>, Finding> {
        let now = store.revision();
        if now == self.seen {
            return Ok(Vec::new());
        }
        let sets = store.inspect(|state| state.changes(&self.everything, self.seen, now));
        let sets = sets.map_err(|_| Finding {
            oracle: ASSERTIONS.name,
            text: "the history was compacted before it was read".to_owned(),
        })?;
        self.seen = now;
        let authors = std::mem::take(&mut faults.lock().authors);
        let mut moved = Vec::new();
        for set in &sets {
            let touched = self.records.apply(set)?;
            self.note_owners(&touched, authors.contains_key(&set.revision));
            self.note_grants(&touched, now_us);
            moved.extend(self.cursors(touched));
        }
        Ok(moved)
    }

    /// Notes leases that ended with a session.
    fn note_owners(&mut self, touched: &Touched, is_commit: bool) {
        for (address, shard) in &touched.owners {
            let state = self.records.runs.get(address).and_then(|run| run.shards.get(shard));
            let owner = state.and_then(|state| state.owner);
            let before = match owner {
                Some(owner) => self.owners.insert(*shard, owner.fence),
                None => self.owners.remove(shard),
            };
            if let Some(before) = before
                && owner.is_none()
                && !is_commit
                && let Some(grant) = self.grants.get_mut(&(*shard, before))
            {
                grant.session_ended = true;
            }
        }
    }

    /// Notes leases that were granted or renewed. A process whose clock is held at the floor renews
    /// to the same deadline, so its commit does not change the record.
    fn note_grants(&mut self, touched: &Touched, now_us: u64) {
        for ((address, shard), what) in &touched.shards {
            let state = self.records.runs.get(address).and_then(|run| run.shards.get(shard));
            let Some(record) = state.and_then(|state| state.record.as_ref()) else { continue };
            let Some(LeaseHolder { deadline, .. }) = record.head.lease else { continue };
            let usable_until_us = now_us + self.usable_us;
            let fresh = Grant { deadline, usable_until_us, session_ended: false };
            let grant = self.grants.entry((*shard, record.head.fence)).or_insert(fresh);
            if grant.deadline != deadline || what.before.as_ref() == Some(record) {
                *grant = Grant { session_ended: grant.session_ended, ..fresh };
            }
        }
    }

    fn cursors(&self, touched: Touched) -> Vec<Moved> {
        let progressed = touched.shards.into_iter().filter(|(_, what)| what.progressed);
        let moved = progressed.filter_map(|((address, shard), what)| {
            let state = self.records.runs.get(&address)?.shards.get(&shard)?;
            let (before, after) = (what.before?, state.record.clone()?);
            (before.cursor != after.cursor).then_some(Moved { before, after })
        });
        moved.collect()
    }

    /// The lease under a fence.
    pub(super) fn grant(&self, shard: ShardId, fence: FenceEpoch) -> Option<&Grant> {
        self.grants.get(&(shard, fence))
    }

    /// The run's status, once it exists.
    pub(super) fn status(&self) -> Option<RunStatus> {
        let run = self.records.runs.get(&(TENANT, RUN))?.run.as_ref()?;
        Some(run.status)
    }

    pub(super) fn is_paused(&self) -> bool {
        let run = self.records.runs.get(&(TENANT, RUN)).and_then(|state| state.run.as_ref());
        run.is_some_and(|run| run.paused)
    }

    /// A shard of the run.
    pub(super) fn shard(&self, shard: ShardId) -> Option<&ShardRecord> {
        self.records.runs.get(&(TENANT, RUN))?.shards.get(&shard)?.record.as_ref()
    }

    /// The shards of the run.
    pub(super) fn shards(&self) -> impl Iterator<Item = &ShardRecord> {
        let run = self.records.runs.get(&(TENANT, RUN));
        let shards = run.into_iter().flat_map(|run| run.shards.values());
        shards.filter_map(|shard| shard.record.as_ref())
    }
}
