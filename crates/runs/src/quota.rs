//! Reservations of shards, made before the shards exist.
//!
//! A run reserves room in blocks from its tenant's counter and the common one, and its own shards
//! use it up. So a split mostly touches the run's counter alone, and no counter is written by
//! everybody.

use bytes::Bytes;
use shardwright_contracts::{RunId, TenantId};
use shardwright_coordination::error::reason::SplitInvalid;
use shardwright_coordination::{InfraError, ShardLimitViolation, ShardLimits, ShardRecord};
use shardwright_engine::codec::Record;
use shardwright_engine::fault;
use shardwright_engine::transact::{Decided, Decision, Read, Transaction};
use shardwright_store::{Commit, CommitBuilder, Expect, Key, Revision, Snapshot, Store, Versioned};

use crate::coordinator::Core;
use crate::records::{ReservedShardsRecord, RunShardsRecord};
use crate::shard::{BASIS_KEYS, Basis, ShardAddress};

/// What a commit has to compare and to write so that room is used up only once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reservation {
    updates: Vec<(Key, Expect, Bytes)>,
}

impl Reservation {
    pub(crate) fn add_to(self, mut commit: CommitBuilder) -> CommitBuilder {
        for (key, expect, value) in self.updates {
            commit = commit.expect(key.clone(), expect).put(key, value);
        }
        commit
    }
}

/// Why there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRoom {
    /// The shard that makes others is not what it was, so nothing can be said.
    Moved,
    Refused(SplitInvalid),
}

/// A counter as it is stored.
#[derive(Clone, Copy)]
struct Counter<T> {
    value: T,
    expect: Expect,
}

const RETURN: &str = "return_room";

/// The counters that a reservation looks at.
#[derive(Clone, Copy)]
struct Counters {
    count: Counter<RunShardsRecord>,
    tenant: Counter<ReservedShardsRecord>,
    total: Counter<ReservedShardsRecord>,
}

impl Core {
    /// Reserves the children of a split, none of which may exist yet. The parent is looked at
    /// in the same moment: if the split was done meanwhile, its own children take the room.
    pub(crate) async fn room_for_children(
        &self,
        parent: ShardAddress,
        basis: Basis,
        children: &[ShardRecord],
        operation: &'static str,
    ) -> Result<Result<Reservation, NoRoom>, InfraError> {
        let max = self.config.max_children_per_op;
        if children.len() > max {
            let children = children.len();
            let reason = SplitInvalid::BackendChildLimitExceeded { children, max };
            return Ok(Err(NoRoom::Refused(reason)));
        }
        let (tenant, run) = (parent.tenant, parent.key.run);
        let ids = || children.iter().map(|child| child.head.key);
        let mut keys = self.counter_keys(tenant, run).to_vec();
        keys.extend(self.basis_keys(parent));
        keys.extend(ids().map(|key| self.keys.definition(tenant, key)));
        let loaded = self.store.load(&keys).await;
        let Snapshot { values, .. } = loaded.map_err(|error| fault::read(operation, &error))?;
        let counters = Counters::decode(&values, operation)?;
        let mut others = values.into_iter().skip(COUNTERS);
        let found = others.by_ref().take(BASIS_KEYS).map(expect_of);
        if !found.eq(basis.expectations()) {
            return Ok(Err(NoRoom::Moved));
        }
        if let Some((_, taken)) = others.zip(ids()).find(|(found, _)| found.is_some()) {
            let reason = SplitInvalid::DerivedIdCollision { shard: taken.shard };
            return Ok(Err(NoRoom::Refused(reason)));
        }
        let limits = &self.config.limits;
        let room = counters.reserve(limits, self.config.quota_block, children.len());
        Ok(room
            .map(|updates| self.room(tenant, run, &updates))
            .map_err(|violation| NoRoom::Refused(violation.into())))
    }

    /// Reserves the manifest of a run: what it has reserved before counts. None is used up yet.
    pub(crate) async fn room_for_manifest(
        &self,
        tenant: TenantId,
        run: RunId,
        shards: usize,
        operation: &'static str,
    ) -> Result<Result<Reservation, ShardLimitViolation>, InfraError> {
        let loaded = self.store.load(&self.counter_keys(tenant, run)).await;
        let Snapshot { values, .. } = loaded.map_err(|error| fault::read(operation, &error))?;
        let mut counters = Counters::decode(&values, operation)?;
        // An earlier attempt may have begun; whatever it meant to use is not used.
        counters.count.value.used = 0;
        let room = counters.reserve(&self.config.limits, self.config.quota_block, shards);
        Ok(room.map(|updates| self.room(tenant, run, &updates)))
    }

    /// What gives back all that a run has reserved, and forgets the run's counter.
    pub(crate) async fn return_room(
        &self,
        tenant: TenantId,
        run: RunId,
        commit: CommitBuilder,
        operation: &'static str,
    ) -> Result<CommitBuilder, InfraError> {
        let keys = self.counter_keys(tenant, run);
        let loaded = self.store.load(&keys).await;
        let Snapshot { values, .. } = loaded.map_err(|error| fault::read(operation, &error))?;
        let counters = Counters::decode(&values, operation)?;
        let freed = counters.count.value.reserved;
        let [count, tenant_key, total_key] = keys;
        let commit = match counters.count.expect {
            Expect::Absent => return Ok(commit),
            expect @ Expect::At(_) => commit.expect(count.clone(), expect).delete(count),
        };
        let commit = lower(commit, tenant_key, counters.tenant, freed);
        Ok(lower(commit, total_key, counters.total, freed))
    }

    /// Gives back what a run that has ended had reserved and has not used: it gets no more shards,
    /// and may be kept for long. It is a courtesy to other runs: if it fails, all is given back
    /// when the run is taken away.
    pub(crate) async fn return_unused_room(&self, tenant: TenantId, run: RunId) {
        let keys = self.counter_keys(tenant, run);
        let _failed = self.driver.transact(&mut Returning { core: self, keys }).await;
    }

    fn counter_keys(&self, tenant: TenantId, run: RunId) -> [Key; COUNTERS] {
        [self.keys.count(tenant, run), self.keys.quota_tenant(tenant), self.keys.quota_total()]
    }

    fn room(&self, tenant: TenantId, run: RunId, updates: &Updates) -> Reservation {
        let [count, of_tenant, total] = self.counter_keys(tenant, run);
        let mut room = Reservation {
            updates: vec![(count, updates.count.expect, updates.count.value.encode())],
        };
        if let Some((tenant, all)) = &updates.quotas {
            room.updates.push((of_tenant, tenant.expect, tenant.value.encode()));
            room.updates.push((total, all.expect, all.value.encode()));
        }
        room
    }
}

const COUNTERS: usize = 3;

/// Returns shards that a run has reserved and does not use.
struct Returning<'c> {
    core: &'c Core,
    keys: [Key; COUNTERS],
}

impl Transaction for Returning<'_> {
    type Basis = Counters;
    type Answer = ();
    type Output = ();
    type Error = InfraError;

    fn operation(&self) -> &'static str {
        RETURN
    }

    async fn load(&mut self, read: Read) -> Result<(Counters, Read), InfraError> {
        let loaded = self.core.store.load(&self.keys).await;
        let Snapshot { values, .. } = loaded.map_err(|error| fault::read(RETURN, &error))?;
        Ok((Counters::decode(&values, RETURN)?, read))
    }

    async fn decide(&mut self, counters: &Counters) -> Decided<(), InfraError> {
        let Counters { count, tenant, total } = *counters;
        let RunShardsRecord { used, reserved } = count.value;
        let unused = reserved.saturating_sub(used);
        if unused == 0 || used == 0 {
            return Ok(Decision::Answer(()));
        }
        let [count_key, tenant_key, total_key] = self.keys.clone();
        let commit = Commit::builder()
            .expect(count_key.clone(), count.expect)
            .put(count_key, RunShardsRecord { used, reserved: used }.encode());
        let commit = lower(commit, tenant_key, tenant, unused);
        Ok(Decision::Commit(lower(commit, total_key, total, unused), ()))
    }

    fn finish(&mut self, _: Counters, (): (), _: Option<(&Commit, Revision)>) {}
}

fn expect_of(found: Option<Versioned>) -> Expect {
    found.map_or(Expect::Absent, |found| Expect::At(found.revision))
}

/// New values of counters.
struct Updates {
    count: Counter<RunShardsRecord>,
    /// The tenant's and the common one, if more room was reserved.
    quotas: Option<(Counter<ReservedShardsRecord>, Counter<ReservedShardsRecord>)>,
}

impl Counters {
    fn decode(values: &[Option<Versioned>], operation: &'static str) -> Result<Self, InfraError> {
        let [count, tenant, total] = values.first_chunk().ok_or_else(|| {
            fault::corrupt(operation, "the store answered for other keys than asked")
        })?;
        Ok(Self {
            count: counter(count.as_ref(), RunShardsRecord { used: 0, reserved: 0 }, operation)?,
            tenant: counter(tenant.as_ref(), ReservedShardsRecord { reserved: 0 }, operation)?,
            total: counter(total.as_ref(), ReservedShardsRecord { reserved: 0 }, operation)?,
        })
    }

    fn reserve(
        &self,
        limits: &ShardLimits,
        block: u64,
        additional: usize,
    ) -> Result<Updates, ShardLimitViolation> {
        let RunShardsRecord { used, reserved } = self.count.value;
        let wanted = used.saturating_add(additional as u64);
        if wanted <= reserved {
            let count = Counter { value: RunShardsRecord { used: wanted, reserved }, ..self.count };
            return Ok(Updates { count, quotas: None });
        }
        let (tenant, total) = (self.tenant.value.reserved, self.total.value.reserved);
        // What the run has reserved and not used is as good as free to it.
        let slack = reserved - used;
        let others = |reserved: u64| reserved.saturating_sub(slack) as usize;
        limits.check(others(tenant), others(total), additional)?;
        let needed = wanted - reserved;
        let free = (limits.per_tenant as u64)
            .saturating_sub(tenant)
            .min((limits.total as u64).saturating_sub(total));
        let more = needed.max(block.min(free));
        let raise = |counter: Counter<ReservedShardsRecord>| Counter {
            value: ReservedShardsRecord { reserved: counter.value.reserved.saturating_add(more) },
            ..counter
        };
        let value = RunShardsRecord { used: wanted, reserved: reserved.saturating_add(more) };
        Ok(Updates {
            count: Counter { value, ..self.count },
            quotas: Some((raise(self.tenant), raise(self.total))),
        })
    }
}

/// Makes a commit lower a counter, or forget one of which nothing is left.
fn lower(
    commit: CommitBuilder,
    key: Key,
    counter: Counter<ReservedShardsRecord>,
    freed: u64,
) -> CommitBuilder {
    let reserved = counter.value.reserved.saturating_sub(freed);
    let commit = commit.expect(key.clone(), counter.expect);
    if reserved == 0 && counter.expect != Expect::Absent {
        commit.delete(key)
    } else {
        commit.put(key, ReservedShardsRecord { reserved }.encode())
    }
}

fn counter<T: Record>(
    found: Option<&Versioned>,
    none: T,
    operation: &'static str,
) -> Result<Counter<T>, InfraError> {
    match found {
        Some(found) => {
            let value =
                T::decode(&found.value).map_err(|error| fault::decode(operation, &error))?;
            Ok(Counter { value, expect: Expect::At(found.revision) })
        }
        None => Ok(Counter { value: none, expect: Expect::Absent }),
    }
}
