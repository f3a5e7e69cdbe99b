//! Keys are unique and sort like their ids.

use proptest::prelude::*;
use proptest::sample::select;
use shardwright_contracts::{ShardId, ShardKey};
use shardwright_coordination::RunName;
use shardwright_engine::keyspace::{Keyspace, MetaKey};
use shardwright_runs::keys::{RunKeys, ShardPart, StoreKey, ViewKey};
use shardwright_store::Key;

use crate::any::{run_id, shard, tenant, worker};
use crate::{checks, examples};

fn view_key() -> impl Strategy<Value = ViewKey> {
    prop_oneof![
        Just(ViewKey::Gate),
        shard().prop_map(ViewKey::Open),
        shard().prop_map(ViewKey::Owner),
        worker().prop_map(ViewKey::Waiting),
        shard().prop_map(ViewKey::SplitRequest),
        worker().prop_map(ViewKey::Requester),
    ]
}

fn store_key() -> impl Strategy<Value = StoreKey> {
    let part = prop_oneof![Just(ShardPart::Definition), Just(ShardPart::Progress)];
    prop_oneof![
        select(&MetaKey::ALL[..]).prop_map(StoreKey::Meta),
        Just(StoreKey::QuotaTotal),
        tenant().prop_map(StoreKey::QuotaTenant),
        (tenant(), run_id()).prop_map(|(tenant, run)| StoreKey::Run(tenant, run)),
        (tenant(), run_id()).prop_map(|(tenant, run)| StoreKey::Manifest(tenant, run)),
        (tenant(), run_id()).prop_map(|(tenant, run)| StoreKey::Count(tenant, run)),
        (tenant(), run_id()).prop_map(|(tenant, run)| StoreKey::Stage(tenant, run)),
        (tenant(), run_id()).prop_map(|(tenant, run)| StoreKey::Watermark(tenant, run)),
        (tenant(), run_id()).prop_map(|(tenant, run)| StoreKey::Label(tenant, run)),
        (tenant(), "[a-zA-Z0-9_-][a-zA-Z0-9._-]{0,39}")
            .prop_map(|(tenant, name)| StoreKey::Name(tenant, RunName::new(&name).unwrap())),
        (tenant(), run_id(), shard()).prop_map(|(tenant, run, shard)| {
            StoreKey::Estimate(tenant, ShardKey::new(run, shard))
        }),
        (tenant(), run_id(), shard(), part).prop_map(|(tenant, run, shard, part)| {
            StoreKey::Shard(tenant, ShardKey::new(run, shard), part)
        }),
        (tenant(), run_id(), view_key())
            .prop_map(|(tenant, run, key)| StoreKey::View(tenant, run, key)),
    ]
}

proptest! {
    #[test]
    fn every_key_round_trips(
        key in store_key(), other in store_key(), prefix in "([a-zA-Z0-9._/-]{0,20}/)?",
    ) {
        let keyspace = RunKeys::new(Keyspace::new(&prefix).unwrap());
        let stored = keyspace.key(&key);
        prop_assert_eq!(keyspace.parse(&stored), Some(key));
        prop_assert_eq!(stored == keyspace.key(&other), key == other);
        checks::store_key::any_bytes(stored.as_bytes());
    }

    #[test]
    fn keys_sort_like_ids(
        tenants in [tenant(), tenant()], runs in [run_id(), run_id()], shards in [shard(), shard()],
    ) {
        let keyspace = RunKeys::new(Keyspace::new("p/").unwrap());
        let ids = [0, 1].map(|index| (tenants[index], runs[index], shards[index]));
        let of_run = ids.map(|(tenant, run, _)| keyspace.run(tenant, run));
        let order = (tenants[0], runs[0]).cmp(&(tenants[1], runs[1]));
        prop_assert_eq!(of_run[0].cmp(&of_run[1]), order);
        let of_shard = ids.map(|(tenant, run, shard)| {
            keyspace.progress(tenant, ShardKey::new(run, shard))
        });
        prop_assert_eq!(of_shard[0].cmp(&of_shard[1]), ids[0].cmp(&ids[1]));
        let same_run = shards.map(|shard| keyspace.open(tenants[0], ShardKey::new(runs[0], shard)));
        prop_assert_eq!(same_run[0].cmp(&same_run[1]), shards[0].cmp(&shards[1]));
    }

    #[test]
    fn any_bytes_parse_as_at_most_one_key(
        data in proptest::collection::vec(proptest::num::u8::ANY, 0..150),
        name in "meta|quota|run|manifest|count|stage|shard|view",
        rest in "(/[0-9a-f]{16}|/[0-9a-f]{64}|/[a-z]{3,8}){0,5}/?",
    ) {
        checks::store_key::any_bytes(&data);
        checks::store_key::any_bytes(format!("{name}{rest}").as_bytes());
    }
}

#[test]
fn definition_sorts_just_before_its_progress() {
    let keyspace = RunKeys::new(Keyspace::new("p/").unwrap());
    let tenant = examples::tenant();
    let key = |shard| ShardKey::new(shardwright_contracts::RunId::from_raw(1), shard);
    let keys: Vec<Key> = [0, 1, 1 << 63]
        .map(|raw| key(ShardId::from_raw(raw)))
        .into_iter()
        .flat_map(|key| [keyspace.definition(tenant, key), keyspace.progress(tenant, key)])
        .collect();
    assert!(keys.is_sorted());
    let range = keyspace.shards(tenant, key(ShardId::SINGLE).run);
    assert!(keys.iter().all(|key| range.contains(key)));
}
