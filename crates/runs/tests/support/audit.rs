//! Audit of a store: recounts everything from the records.

use std::collections::{BTreeMap, BTreeSet};

use shardwright_contracts::{RunId, ShardKey, TenantId};
use shardwright_coordination::{RunStatus, ShardRecord, ShardStatus};
use shardwright_engine::codec::Record;
use shardwright_runs::keys::{RunKeys, ShardPart, StoreKey, ViewKey};
use shardwright_runs::records::{
    BindingRecord, DefinitionRecord, ProgressRecord, ReservedShardsRecord, RunHeadRecord,
    RunShardsRecord, join_shard,
};
use shardwright_store::{Key, ScanFrom, Store, Versioned};

/// All entries of a keyspace, at one revision.
pub(crate) async fn contents(store: &impl Store, keys: &RunKeys) -> Vec<(Key, Versioned)> {
    let (mut all, mut page) = (Vec::new(), ScanFrom::first(1_000));
    loop {
        let found = store.scan(&keys.keyspace().everything(), page.clone()).await.unwrap();
        all.extend(found.entries);
        match found.next {
            Some(next) => page.after = Some(next),
            None => return all,
        }
    }
}

/// All keys, as text.
pub(crate) async fn key_names(store: &impl Store, keys: &RunKeys) -> BTreeSet<String> {
    contents(store, keys).await.into_iter().map(|(key, _)| key.to_string()).collect()
}

#[derive(Default)]
struct StoredRecords {
    runs: BTreeMap<(TenantId, RunId), RunHeadRecord>,
    definitions: BTreeMap<(TenantId, ShardKey), DefinitionRecord>,
    shards: BTreeMap<(TenantId, ShardKey), ShardRecord>,
    counts: BTreeMap<(TenantId, RunId), RunShardsRecord>,
    tenants: BTreeMap<TenantId, u64>,
    total: u64,
    open: BTreeSet<(TenantId, ShardKey)>,
    owners: BTreeMap<(TenantId, ShardKey), BindingRecord>,
    staged: BTreeSet<(TenantId, RunId)>,
    of_runs: BTreeSet<(TenantId, RunId)>,
}

/// Fails if a record is unexpected, missing or miscounted.
pub(crate) async fn audit(store: &impl Store, keys: &RunKeys) {
    let mut records = StoredRecords::default();
    for (key, found) in contents(store, keys).await {
        let key = keys.parse(&key).unwrap_or_else(|| panic!("{key} is not a key of the keyspace"));
        records.add(key, &found.value);
    }
    records.check_runs();
    records.check_shards();
    records.check_counts();
}

impl StoredRecords {
    fn add(&mut self, key: StoreKey, value: &[u8]) {
        match key {
            StoreKey::Meta(_) => {}
            StoreKey::QuotaTotal => {
                self.total = ReservedShardsRecord::decode(value).unwrap().reserved
            }
            StoreKey::QuotaTenant(tenant) => {
                self.tenants.insert(tenant, ReservedShardsRecord::decode(value).unwrap().reserved);
            }
            StoreKey::Run(tenant, run) => {
                self.runs.insert((tenant, run), RunHeadRecord::decode(value).unwrap());
            }
            StoreKey::Count(tenant, run) => {
                self.counts.insert((tenant, run), RunShardsRecord::decode(value).unwrap());
            }
            StoreKey::Stage(tenant, run) => {
                self.staged.insert((tenant, run));
            }
            StoreKey::Name(..) => {}
            StoreKey::Estimate(tenant, key) => {
                self.of_runs.insert((tenant, key.run));
            }
            // A run is named before it is created.
            StoreKey::Label(..) => {}
            StoreKey::Manifest(tenant, run) | StoreKey::Watermark(tenant, run) => {
                self.of_runs.insert((tenant, run));
            }
            StoreKey::Shard(tenant, key, ShardPart::Definition) => {
                self.definitions.insert((tenant, key), DefinitionRecord::decode(value).unwrap());
            }
            StoreKey::Shard(tenant, key, ShardPart::Progress) => {
                let definition = self.definitions.remove(&(tenant, key));
                let definition = definition.unwrap_or_else(|| panic!("{key:?} is not defined"));
                let shard = join_shard(definition, ProgressRecord::decode(value).unwrap()).unwrap();
                self.shards.insert((tenant, key), shard);
                self.of_runs.insert((tenant, key.run));
            }
            StoreKey::View(tenant, run, view) => {
                self.of_runs.insert((tenant, run));
                match view {
                    ViewKey::Open(shard) => {
                        self.open.insert((tenant, ShardKey::new(run, shard)));
                    }
                    ViewKey::Owner(shard) => {
                        let binding = BindingRecord::decode(value).unwrap();
                        self.owners.insert((tenant, ShardKey::new(run, shard)), binding);
                    }
                    ViewKey::Gate
                    | ViewKey::Waiting(_)
                    | ViewKey::SplitRequest(_)
                    | ViewKey::Requester(_) => {}
                }
            }
        }
    }

    fn check_runs(&self) {
        assert!(self.definitions.is_empty(), "shards without progress: {:?}", self.definitions);
        for key in self.of_runs.iter().chain(&self.staged).chain(self.counts.keys()) {
            assert!(self.runs.contains_key(key), "records are left of the run {key:?}");
        }
        for key in &self.staged {
            let status = self.runs[key].status;
            assert_eq!(status, RunStatus::Initializing, "{key:?} has a stage");
        }
    }

    fn check_shards(&self) {
        for ((tenant, key), shard) in &self.shards {
            let is_open = self.open.contains(&(*tenant, *key));
            assert_eq!(is_open, shard.head.status == ShardStatus::Active, "{key:?} is open");
        }
        for key in &self.open {
            assert!(self.shards.contains_key(key), "{key:?} is open and does not exist");
        }
        for (key, binding) in &self.owners {
            let head = &self.shards[key].head;
            let held = head.lease.map(|holder| (holder.owner, head.fence));
            assert_eq!(held, Some((binding.owner, binding.fence)), "{key:?} is bound");
        }
    }

    fn check_counts(&self) {
        let (mut by_run, mut by_tenant) = (BTreeMap::new(), BTreeMap::new());
        for (tenant, key) in self.shards.keys() {
            *by_run.entry((*tenant, key.run)).or_insert(0_u64) += 1;
        }
        for (key, count) in &self.counts {
            let is_staged = self.staged.contains(key);
            let shards = by_run.remove(key).unwrap_or_default();
            assert!(shards == count.used || is_staged, "{key:?} has {shards}, not {count:?}");
            *by_tenant.entry(key.0).or_insert(0) += count.reserved;
        }
        assert!(by_run.is_empty(), "shards without a counter: {by_run:?}");
        assert_eq!(self.total, by_tenant.values().sum::<u64>(), "reserved in all");
        assert_eq!(self.tenants, by_tenant, "reserved by tenants");
    }
}
