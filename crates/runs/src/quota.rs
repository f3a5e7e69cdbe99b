//! Reservations of shards, made before the shards exist.
//!
//! A run reserves shards from its tenant's counter and the total counter, and its own shards use
//! them up. A registration reserves exactly its manifest. A split reserves up to `quota_block`
//! shards ahead, at most as many as the run has. So most splits write only the run's counter, and
//! the shared counters see few writes.
//!
//! Only existing shards count against a limit. If the reservations of all runs leave no room, their
//! unused parts are returned first.

mod returning;

use std::cmp::Reverse;

use bytes::Bytes;
use shardwright_contracts::{RunId, TenantId};
use shardwright_coordination::error::reason::SplitInvalid;
use shardwright_coordination::{InfraError, ShardLimitViolation, ShardLimits, ShardRecord};
use shardwright_engine::codec::Record;
use shardwright_engine::{Operation, operation};
use shardwright_engine::{fault, listing};
use shardwright_store::{CommitBuilder, Expect, Key, Revision, Snapshot, Store, Versioned};

use self::returning::Returning;
use crate::collection::RunAddress;
use crate::config::EngineConfig;
use crate::coordinator::Core;
use crate::keys::StoreKey;
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
pub(crate) enum NotReserved<R> {
    /// The parent or the counters have changed, so the reservation must be repeated.
    Moved,
    Refused(R),
}

/// A reservation, or the reason why there is none.
type Reserved<R> = Result<Reservation, NotReserved<R>>;

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
    ) -> Result<Reserved<SplitInvalid>, InfraError> {
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
        let loaded = loaded.map_err(|error| fault::read(operation, &error))?;
        let Snapshot { values, revision } = loaded;
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
        let address = RunAddress { tenant, run };
        self.reserve(address, (&counters, revision), children.len(), operation).await
    }

    /// Reserves the manifest of a run. Reuses the reservation of an earlier attempt, and ignores
    /// the shards that it counted as used.
    pub(crate) async fn reserve_manifest(
        &self,
        tenant: TenantId,
        run: RunId,
        shards: usize,
        operation: Operation,
    ) -> Result<Reserved<ShardLimitViolation>, InfraError> {
        let keys = self.counter_keys(tenant, run);
        let (found, revision) = listing::load_all(&self.store, &keys, operation).await?;
        let mut counters = Counters::decode(&found, operation)?;
        counters.count.value.used = 0;
        self.reserve(RunAddress { tenant, run }, (&counters, revision), shards, operation).await
    }

    /// Reserves shards by the counters of a run, which were read at a revision.
    async fn reserve<R: From<ShardLimitViolation>>(
        &self,
        address: RunAddress,
        (counters, at): (&Counters, Revision),
        additional: usize,
        operation: Operation,
    ) -> Result<Reserved<R>, InfraError> {
        let RunAddress { tenant, run } = address;
        let EngineConfig { limits, quota_block, .. } = &self.config;
        let by_counters = match counters.reserve(limits, *quota_block, additional) {
            Ok(updates) => return Ok(Ok(self.reservation(tenant, run, &updates))),
            Err(violation) => violation,
        };
        let usage = self.usage(address, counters.count.value.used, at, operation).await?;
        if let Err(violation) = limits.check(usage.of_tenant, usage.in_all, additional) {
            return Ok(Err(NotReserved::Refused(violation.into())));
        }
        let shortfall = counters.shortfall(limits, additional);
        if usage.has_unused(shortfall) {
            self.return_unused_of(usage, shortfall).await?;
        } else if self.is_unchanged(address, counters, usage.at, operation).await? {
            // The counters contain a reservation that no run has, or that of a run whose own
            // counter is damaged.
            return Ok(Err(NotReserved::Refused(by_counters.into())));
        }
        Ok(Err(NotReserved::Moved))
    }

    /// Whether the counters of a run still have the same revisions, at a revision or later.
    async fn is_unchanged(
        &self,
        RunAddress { tenant, run }: RunAddress,
        counters: &Counters,
        at: Revision,
        operation: Operation,
    ) -> Result<bool, InfraError> {
        let keys = self.counter_keys(tenant, run);
        let (found, _) = listing::load_since(&self.driver, &keys, at, operation).await?;
        Ok(found.map(expect_of) == counters.expectations())
    }

    /// Counts the shards of all runs, at a revision or later. Counts `own` shards for the given
    /// run, whatever its counter states.
    async fn usage(
        &self,
        address: RunAddress,
        own: u64,
        at: Revision,
        operation: Operation,
    ) -> Result<Usage, InfraError> {
        let range = self.keys.counts();
        let (listed_at, entries) = listing::list_since(&self.driver, &range, at, operation).await?;
        let mut usage = Usage::new(listed_at, own as usize);
        for (key, found) in entries {
            let (Some(StoreKey::Count(tenant, run)), Ok(count)) =
                (self.keys.parse(&key), RunShardsRecord::decode(&found.value))
            else {
                continue;
            };
            if (RunAddress { tenant, run }) == address {
                continue;
            }
            let RunShardsRecord { used, reserved } = count;
            usage.in_all = usage.in_all.saturating_add(used as usize);
            let is_of_tenant = tenant == address.tenant;
            if is_of_tenant {
                usage.of_tenant = usage.of_tenant.saturating_add(used as usize);
            }
            if reserved > used {
                let unused = (tenant, key, reserved - used);
                if is_of_tenant {
                    usage.unused_of_tenant.push(unused);
                } else {
                    usage.unused_of_others.push(unused);
                }
            }
        }
        Ok(usage)
    }

    /// Returns unused reservations until the shortfall is covered. Those of the same tenant come
    /// first, because they count against both limits.
    async fn return_unused_of(&self, usage: Usage, shortfall: Shortfall) -> Result<(), InfraError> {
        let most = RETURNS.min(self.store.limits().expectations.saturating_sub(2)).max(1);
        let mut freed = 0;
        for (mut unused, is_missing) in [
            (usage.unused_of_tenant, shortfall.of_tenant.max(shortfall.in_all)),
            (usage.unused_of_others, shortfall.in_all),
        ] {
            // The largest first, by tenant, because a commit lowers one tenant's counter.
            unused.sort_by_key(|(tenant, _, unused)| (*tenant, Reverse(*unused)));
            for of_one in unused.chunk_by(|one, other| one.0 == other.0) {
                for chunk in of_one.chunks(most) {
                    let Some((tenant, ..)) = chunk.first().filter(|_| freed < is_missing) else {
                        break;
                    };
                    let counts = chunk.iter().map(|(_, key, _)| key.clone()).collect();
                    freed += self.return_unused(*tenant, counts).await?;
                }
            }
        }
        Ok(())
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
            // The read may be stale, so the commit compares the absence.
            expect @ Expect::Absent => return Ok(commit.expect(count, expect)),
            expect @ Expect::At(_) => commit.expect(count.clone(), expect).delete(count),
        };
        let commit = lower(commit, tenant_key, counters.tenant, freed);
        Ok(lower(commit, total_key, counters.total, freed))
    }

    /// Returns the unused reservation of an ended run, which may be kept for long. Failures are
    /// ignored: deleting the run returns everything.
    pub(crate) async fn return_unused_shards(&self, tenant: TenantId, run: RunId) {
        let _failed = self.return_unused(tenant, vec![self.keys.count(tenant, run)]).await;
    }

    /// Returns the unused reservations of runs of one tenant, and returns their number.
    async fn return_unused(&self, tenant: TenantId, counts: Vec<Key>) -> Result<u64, InfraError> {
        let mut keys = vec![self.keys.quota_tenant(tenant), self.keys.quota_total()];
        keys.extend(counts);
        match self.driver.transact(&mut Returning { core: self, keys }).await {
            // The caller's own operation has changed nothing yet, so its outcome is not unknown.
            Err(InfraError::Unknown { .. }) => Ok(0),
            // The caller reads the changed counters again.
            Err(error) if error == fault::contention(RETURN) => Ok(0),
            returned => returned,
        }
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

/// Existing shards, and reservations that are not used.
struct Usage {
    /// When they were counted.
    at: Revision,
    of_tenant: usize,
    in_all: usize,
    /// Tenant, counter and unused shards of the tenant's other runs.
    unused_of_tenant: Vec<(TenantId, Key, u64)>,
    /// The same of other tenants' runs.
    unused_of_others: Vec<(TenantId, Key, u64)>,
}

impl Usage {
    const fn new(at: Revision, own: usize) -> Self {
        Self {
            at,
            of_tenant: own,
            in_all: own,
            unused_of_tenant: Vec::new(),
            unused_of_others: Vec::new(),
        }
    }

    /// Whether runs have reservations to return that lower a shortfall.
    const fn has_unused(&self, shortfall: Shortfall) -> bool {
        !self.unused_of_tenant.is_empty()
            || shortfall.in_all > 0 && !self.unused_of_others.is_empty()
    }
}

/// Reserved shards above the limits.
#[derive(Clone, Copy)]
struct Shortfall {
    of_tenant: u64,
    in_all: u64,
}

/// Most runs whose unused reservation is returned by one commit.
const RETURNS: usize = 32;

const NO_SHARDS: RunShardsRecord = RunShardsRecord { used: 0, reserved: 0 };
const NONE_RESERVED: ReservedShardsRecord = ReservedShardsRecord { reserved: 0 };

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
    const fn expectations(&self) -> [Expect; COUNTERS] {
        [self.count.expect, self.tenant.expect, self.total.expect]
    }

    /// Reserved shards of the tenant and in all. The run's unused ones are available to it.
    fn without_own_unused(&self) -> [u64; 2] {
        let RunShardsRecord { used, reserved } = self.count.value;
        let unused = reserved.saturating_sub(used);
        [self.tenant, self.total].map(|counter| counter.value.reserved.saturating_sub(unused))
    }

    /// Reserved shards that must be returned before the run can grow.
    fn shortfall(&self, limits: &ShardLimits, additional: usize) -> Shortfall {
        let [of_tenant, in_all] = self.without_own_unused();
        let over = |reserved: u64, max: usize| {
            reserved.saturating_add(additional as u64).saturating_sub(max as u64)
        };
        Shortfall {
            of_tenant: over(of_tenant, limits.per_tenant),
            in_all: over(in_all, limits.total),
        }
    }

    fn decode(
        [count, tenant, total]: &[Option<Versioned>; COUNTERS],
        operation: Operation,
    ) -> Result<Self, InfraError> {
        Ok(Self {
            count: counter(count.as_ref(), NO_SHARDS, operation)?,
            tenant: counter(tenant.as_ref(), NONE_RESERVED, operation)?,
            total: counter(total.as_ref(), NONE_RESERVED, operation)?,
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
        let [of_tenant, in_all] = self.without_own_unused();
        limits.check(of_tenant as usize, in_all as usize, additional)?;
        let needed = wanted - reserved;
        let free = (limits.per_tenant as u64)
            .saturating_sub(tenant)
            .min((limits.total as u64).saturating_sub(total));
        let more = needed.max(block.min(used).min(free));
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
    Ok(match listing::decode_if_found(found, operation)? {
        Some((value, at)) => Counter { value, expect: Expect::At(at) },
        None => Counter { value: none, expect: Expect::Absent },
    })
}
