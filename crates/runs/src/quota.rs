//! Reservations of shards, made before the shards exist.
//!
//! A run reserves shards in blocks from its tenant's counter and the total counter, and its own
//! shards use them up. So most splits write only the run's counter, and the shared counters see few
//! writes.

use bytes::Bytes;
use shardwright_contracts::{RunId, TenantId};
use shardwright_coordination::error::reason::SplitInvalid;
use shardwright_coordination::{InfraError, ShardLimitViolation, ShardLimits, ShardRecord};
use shardwright_engine::codec::Record;
use shardwright_engine::transact::{Decided, Decision, Read, Transaction};
use shardwright_engine::{Operation, operation};
use shardwright_engine::{fault, listing};
use shardwright_store::{Commit, CommitBuilder, Expect, Key, Revision, Snapshot, Store, Versioned};

use crate::coordinator::Core;
use crate::records::{ReservedShardsRecord, RunShardsRecord};
use crate::shard::{BASIS_KEYS, Basis, ShardAddress};

/// Counter updates that a commit compares and writes, so that each shard is counted once.
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

/// Reason for a failed reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotReserved {
    /// The parent has changed, so the reservation must be repeated.
    Moved,
    Refused(SplitInvalid),
}

/// A counter as it is stored.
#[derive(Clone, Copy)]
struct Counter<T> {
    value: T,
    expect: Expect,
}

const RETURN: Operation = operation!("return_shards");

/// The counters of a reservation.
#[derive(Clone, Copy)]
struct Counters {
    count: Counter<RunShardsRecord>,
    tenant: Counter<ReservedShardsRecord>,
    total: Counter<ReservedShardsRecord>,
}

impl Core {
    /// Reserves the children of a split, which must not exist yet. The same read compares the
    /// parent: if the split was applied meanwhile, its children are already counted.
    pub(crate) async fn reserve_children(
        &self,
        parent: ShardAddress,
        basis: Basis,
        children: &[ShardRecord],
        operation: Operation,
    ) -> Result<Result<Reservation, NotReserved>, InfraError> {
        let max = self.config.max_children_per_op;
        if children.len() > max {
            let children = children.len();
            let reason = SplitInvalid::BackendChildLimitExceeded { children, max };
            return Ok(Err(NotReserved::Refused(reason)));
        }
        let (tenant, run) = (parent.tenant, parent.key.run);
        let ids = || children.iter().map(|child| child.head.key);
        let mut keys = self.counter_keys(tenant, run).to_vec();
        keys.extend(self.basis_keys(parent));
        keys.extend(ids().map(|key| self.keys.definition(tenant, key)));
        let loaded = self.store.load(&keys).await;
        let Snapshot { values, .. } = loaded.map_err(|error| fault::read(operation, &error))?;
        let found = values.first_chunk();
        let found =
            found.ok_or_else(|| fault::corrupt(operation, "the store answered for other keys"))?;
        let counters = Counters::decode(found, operation)?;
        let mut others = values.into_iter().skip(COUNTERS);
        let found = others.by_ref().take(BASIS_KEYS).map(expect_of);
        if !found.eq(basis.expectations()) {
            return Ok(Err(NotReserved::Moved));
        }
        if let Some((_, taken)) = others.zip(ids()).find(|(found, _)| found.is_some()) {
            let reason = SplitInvalid::DerivedIdCollision { shard: taken.shard };
            return Ok(Err(NotReserved::Refused(reason)));
        }
        let limits = &self.config.limits;
        let reservation = counters.reserve(limits, self.config.quota_block, children.len());
        Ok(reservation
            .map(|updates| self.reservation(tenant, run, &updates))
            .map_err(|violation| NotReserved::Refused(violation.into())))
    }

    /// Reserves the manifest of a run. Earlier reservations of the run count. No shard is used yet.
    pub(crate) async fn reserve_manifest(
        &self,
        tenant: TenantId,
        run: RunId,
        shards: usize,
        operation: Operation,
    ) -> Result<Result<Reservation, ShardLimitViolation>, InfraError> {
        let mut counters = self.counters(&self.counter_keys(tenant, run), operation).await?;
        // An earlier attempt may have counted shards that do not exist.
        counters.count.value.used = 0;
        let reservation = counters.reserve(&self.config.limits, self.config.quota_block, shards);
        Ok(reservation.map(|updates| self.reservation(tenant, run, &updates)))
    }

    /// Makes a commit return all shards that a run has reserved, and delete the run's counter.
    pub(crate) async fn return_shards(
        &self,
        tenant: TenantId,
        run: RunId,
        commit: CommitBuilder,
        operation: Operation,
    ) -> Result<CommitBuilder, InfraError> {
        let keys = self.counter_keys(tenant, run);
        let counters = self.counters(&keys, operation).await?;
        let freed = counters.count.value.reserved;
        let [count, tenant_key, total_key] = keys;
        let commit = match counters.count.expect {
            Expect::Absent => return Ok(commit),
            expect @ Expect::At(_) => commit.expect(count.clone(), expect).delete(count),
        };
        let commit = lower(commit, tenant_key, counters.tenant, freed);
        Ok(lower(commit, total_key, counters.total, freed))
    }

    /// Returns the unused reservation of an ended run, which may be kept for long. Failures are
    /// ignored: deleting the run returns everything.
    pub(crate) async fn return_unused_shards(&self, tenant: TenantId, run: RunId) {
        let keys = self.counter_keys(tenant, run);
        let _failed = self.driver.transact(&mut Returning { core: self, keys }).await;
    }

    async fn counters(
        &self,
        keys: &[Key; COUNTERS],
        operation: Operation,
    ) -> Result<Counters, InfraError> {
        let (found, _) = listing::load_all(&self.store, keys, operation).await?;
        Counters::decode(&found, operation)
    }

    fn counter_keys(&self, tenant: TenantId, run: RunId) -> [Key; COUNTERS] {
        [self.keys.count(tenant, run), self.keys.quota_tenant(tenant), self.keys.quota_total()]
    }

    fn reservation(&self, tenant: TenantId, run: RunId, updates: &Updates) -> Reservation {
        let [count, of_tenant, total] = self.counter_keys(tenant, run);
        let mut reservation = Reservation {
            updates: vec![(count, updates.count.expect, updates.count.value.encode())],
        };
        if let Some((tenant, all)) = &updates.quotas {
            reservation.updates.push((of_tenant, tenant.expect, tenant.value.encode()));
            reservation.updates.push((total, all.expect, all.value.encode()));
        }
        reservation
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

    fn operation(&self) -> Operation {
        RETURN
    }

    async fn load(&mut self, read: Read) -> Result<(Counters, Read), InfraError> {
        Ok((self.core.counters(&self.keys, RETURN).await?, read))
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
    /// Of the tenant and of the total, if more shards were reserved.
    quotas: Option<(Counter<ReservedShardsRecord>, Counter<ReservedShardsRecord>)>,
}

impl Counters {
    fn decode(
        [count, tenant, total]: &[Option<Versioned>; COUNTERS],
        operation: Operation,
    ) -> Result<Self, InfraError> {
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
        // The run's unused reservation is available to it.
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

/// Makes a commit lower a counter, or delete it at zero.
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
    operation: Operation,
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
