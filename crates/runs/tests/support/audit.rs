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
    undefined: BTreeSet<(TenantId, ShardKey)>,
    shards: BTreeMap<(TenantId, ShardKey), ShardRecord>,
    counts: BTreeMap<(TenantId, RunId), RunShardsRecord>,
    tenants: BTreeMap<TenantId, u64>,
    total: u64,
    open: BTreeSet<(TenantId, ShardKey)>,
    owners: BTreeMap<(TenantId, ShardKey), BindingRecord>,
    staged: BTreeSet<(TenantId, RunId)>,
    manifests: BTreeSet<(TenantId, RunId)>,
    gates: BTreeSet<(TenantId, RunId)>,
    of_runs: BTreeSet<(TenantId, RunId)>,
}

/// Fails if a record is unexpected, missing or miscounted. Of a run that is being registered or
/// deleted, any part may be missing.
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
            StoreKey::Manifest(tenant, run) => {
                self.manifests.insert((tenant, run));
            }
            StoreKey::Watermark(tenant, run) => {
                self.of_runs.insert((tenant, run));
            }
            StoreKey::Shard(tenant, key, ShardPart::Definition) => {
                self.definitions.insert((tenant, key), DefinitionRecord::decode(value).unwrap());
            }
            StoreKey::Shard(tenant, key, ShardPart::Progress) => {
                let definition = self.definitions.remove(&(tenant, key));
                let progress = ProgressRecord::decode(value).unwrap();
                self.of_runs.insert((tenant, key.run));
                match definition {
                    Some(definition) => {
                        let shard = join_shard(definition, progress).unwrap();
                        self.shards.insert((tenant, key), shard);
                    }
                    None => _ = self.undefined.insert((tenant, key)),
                }
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
                    ViewKey::Gate => _ = self.gates.insert((tenant, run)),
                    ViewKey::Waiting(_) | ViewKey::SplitRequest(_) | ViewKey::Requester(_) => {}
                }
            }
        }
    }

    /// Whether a run is being deleted: it is marked, or its gate was deleted after its end.
    fn is_going(&self, key: &(TenantId, RunId)) -> bool {
        let run = self.runs.get(key);
        let is_ungated = !self.gates.contains(key);
        run.is_some_and(|run| run.collecting || (is_ungated && run.status.is_terminal()))
    }

    /// Whether only some of a run's shards may be stored.
    fn is_partial(&self, key: &(TenantId, RunId)) -> bool {
        self.staged.contains(key) || self.is_going(key)
    }

    fn check_runs(&self) {
        let parts = self.definitions.keys().chain(&self.undefined);
        for (tenant, shard) in parts {
            assert!(self.is_partial(&(*tenant, shard.run)), "{shard:?} lacks a record");
        }
        let of_runs = self.of_runs.iter().chain(&self.staged).chain(self.counts.keys());
        for key in of_runs.chain(&self.manifests) {
            assert!(self.runs.contains_key(key), "records are left of the run {key:?}");
        }
        for (key, RunHeadRecord { status, .. }) in &self.runs {
            if self.is_going(key) {
                continue;
            }
            let has_manifest = self.manifests.contains(key);
            let (is_staged, is_counted) =
                (self.staged.contains(key), self.counts.contains_key(key));
            assert!(self.gates.contains(key), "{key:?} has no gate");
            match status {
                RunStatus::Initializing => {
                    assert!(!has_manifest, "{key:?} has a manifest before it has begun");
                    assert_eq!(is_counted, is_staged, "{key:?} has reserved shards");
                }
                // A run can be cancelled before it has begun.
                RunStatus::Cancelled => {
                    assert!(!is_staged, "{key:?} has a stage");
                    assert_eq!(is_counted, has_manifest, "{key:?} has reserved shards");
                }
                RunStatus::Active | RunStatus::Done | RunStatus::Failed => {
                    assert!(!is_staged, "{key:?} has a stage");
                    assert!(has_manifest && is_counted, "{key:?} lacks its manifest or counter");
                }
            }
        }
    }

    fn check_shards(&self) {
        for ((tenant, key), shard) in &self.shards {
            let is_open = self.open.contains(&(*tenant, *key));
            let is_active = shard.head.status == ShardStatus::Active;
            assert!(
                is_open == is_active || self.is_partial(&(*tenant, key.run)),
                "{key:?} is open"
            );
        }
        for (tenant, key) in &self.open {
            let exists = self.shards.contains_key(&(*tenant, *key));
            assert!(exists || self.is_partial(&(*tenant, key.run)), "{key:?} does not exist");
        }
        for ((tenant, key), binding) in &self.owners {
            let head = self.shards.get(&(*tenant, *key)).map(|shard| &shard.head);
            let held = head.and_then(|head| Some((head.lease?.owner, head.fence)));
            let is_its = held == Some((binding.owner, binding.fence));
            assert!(
                is_its || self.is_partial(&(*tenant, key.run)),
                "{key:?} is bound to {binding:?}"
            );
        }
    }

    fn check_counts(&self) {
        let (mut by_run, mut by_tenant) = (BTreeMap::new(), BTreeMap::new());
        for (tenant, key) in self.shards.keys() {
            *by_run.entry((*tenant, key.run)).or_insert(0_u64) += 1;
        }
        for (key, count) in &self.counts {
            let is_partial = self.is_partial(key);
            let shards = by_run.remove(key).unwrap_or_default();
            assert!(shards == count.used || is_partial, "{key:?} has {shards}, not {count:?}");
            *by_tenant.entry(key.0).or_insert(0) += count.reserved;
        }
        assert!(by_run.is_empty(), "shards without a counter: {by_run:?}");
        assert_eq!(self.total, by_tenant.values().sum::<u64>(), "reserved in all");
        assert_eq!(self.tenants, by_tenant, "reserved by tenants");
    }
}
