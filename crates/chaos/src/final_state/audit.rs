//! Checks the consistency of the stored records.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, anyhow};
use shardwright_contracts::{RunId, ShardKey, TenantId};
use shardwright_coordination::ShardStatus;
use shardwright_engine::codec::Record;
use shardwright_engine::keyspace::Keyspace;
use shardwright_runs::keys::{RunKeys, ShardPart, StoreKey, ViewKey};
use shardwright_runs::records::{
    BindingRecord, ProgressRecord, ReservedShardsRecord, RunShardsRecord,
};
use shardwright_store::AnyStore;
use shardwright_store::{ScanFrom, Store as _};

type RecordLocation = (TenantId, ShardKey);

#[derive(Default)]
struct StoredRecords {
    defined: BTreeSet<RecordLocation>,
    shards: BTreeMap<RecordLocation, ProgressRecord>,
    runs: BTreeSet<(TenantId, RunId)>,
    counts: BTreeMap<(TenantId, RunId), RunShardsRecord>,
    tenants: BTreeMap<TenantId, u64>,
    total: u64,
    open: BTreeSet<RecordLocation>,
    owners: BTreeMap<RecordLocation, BindingRecord>,
    complaints: Vec<String>,
}

/// All inconsistencies.
pub(super) async fn complaints(store: &AnyStore) -> Result<Vec<String>> {
    let keys = RunKeys::new(Keyspace::bare());
    let mut records = StoredRecords::default();
    let mut page = ScanFrom::first(500);
    loop {
        let found = store.scan(&keys.keyspace().everything(), page.clone()).await?;
        for (key, value) in found.entries {
            let entered = match keys.parse(&key) {
                Some(location) => records.enter(location, &value.value),
                None => Err(anyhow!("unknown key")),
            };
            if let Err(error) = entered {
                records.complaints.push(format!("{key}: {error:#}"));
            }
        }
        match found.next {
            Some(next) => page.after = Some(next),
            None => break,
        }
    }
    records.check_shards();
    records.check_counts();
    Ok(records.complaints)
}

impl StoredRecords {
    fn enter(&mut self, location: StoreKey, value: &[u8]) -> Result<()> {
        match location {
            // Estimates and names are advisory.
            StoreKey::Estimate(..) | StoreKey::Name(..) | StoreKey::Label(..) => {}
            StoreKey::QuotaTotal => self.total = ReservedShardsRecord::decode(value)?.reserved,
            StoreKey::QuotaTenant(tenant) => {
                self.tenants.insert(tenant, ReservedShardsRecord::decode(value)?.reserved);
            }
            StoreKey::Run(tenant, run) => {
                self.runs.insert((tenant, run));
            }
            StoreKey::Count(tenant, run) => {
                self.counts.insert((tenant, run), RunShardsRecord::decode(value)?);
            }
            StoreKey::Shard(tenant, key, ShardPart::Definition) => {
                self.defined.insert((tenant, key));
            }
            StoreKey::Shard(tenant, key, ShardPart::Progress) => {
                self.shards.insert((tenant, key), ProgressRecord::decode(value)?);
            }
            StoreKey::View(tenant, run, ViewKey::Open(shard)) => {
                self.open.insert((tenant, ShardKey::new(run, shard)));
            }
            StoreKey::View(tenant, run, ViewKey::Owner(shard)) => {
                let location = (tenant, ShardKey::new(run, shard));
                self.owners.insert(location, BindingRecord::decode(value)?);
            }
            StoreKey::Stage(_, run) => {
                self.complaints.push(format!("run {run} still has a registration stage"));
            }
            StoreKey::Meta(_)
            | StoreKey::Manifest(..)
            | StoreKey::Watermark(..)
            | StoreKey::View(..) => {}
        }
        Ok(())
    }

    fn check_shards(&mut self) {
        let Self { defined, shards, open, owners, complaints, .. } = self;
        for location @ (_, key) in shards.keys() {
            if !defined.contains(location) {
                complaints.push(format!("{key:?} has progress but no definition"));
            }
        }
        for location @ (_, key) in defined.iter().chain(open.iter()).chain(owners.keys()) {
            if !shards.contains_key(location) {
                complaints.push(format!("{key:?} does not exist, but has leftover records"));
            }
        }
        for (location, shard) in shards.iter() {
            let key = location.1;
            if open.contains(location) != (shard.status == ShardStatus::Active) {
                complaints
                    .push(format!("{key:?} is {:?}, but its claimable key differs", shard.status));
            }
            let held = shard.lease.map(|holder| (holder.owner, shard.fence));
            let bound = owners.get(location).map(|binding| (binding.owner, binding.fence));
            // A binding ends with its session. An existing one must be the holder's.
            if bound.is_some() && bound != held {
                complaints.push(format!("{key:?} is bound to a worker that does not hold it"));
            }
        }
    }

    fn check_counts(&mut self) {
        let mut used: BTreeMap<(TenantId, RunId), u64> = BTreeMap::new();
        for (tenant, key) in self.shards.keys() {
            *used.entry((*tenant, key.run)).or_default() += 1;
        }
        let mut reserved: BTreeMap<TenantId, u64> = BTreeMap::new();
        for location @ (tenant, run) in &self.runs {
            let shards = used.remove(location).unwrap_or_default();
            let count = self.counts.get(location).copied();
            let Some(count) = count else {
                self.complaints.push(format!("run {run} has no shard count"));
                continue;
            };
            if count.used != shards {
                self.complaints.push(format!("run {run} has {shards} shards, stored {count:?}"));
            }
            *reserved.entry(*tenant).or_default() += count.reserved;
        }
        for (_, run) in used.keys() {
            self.complaints.push(format!("run {run} has shards but no record"));
        }
        let total: u64 = reserved.values().sum();
        if self.total != total {
            let stored = self.total;
            self.complaints.push(format!("{total} reserved shards in total, stored {stored}"));
        }
        if self.tenants != reserved {
            self.complaints.push("the reserved shards per tenant are wrong".to_owned());
        }
    }
}
