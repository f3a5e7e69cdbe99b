//! Opening a store: format, generation, and a full store.

use std::time::Duration;

use shardwright_contracts::CursorUpdate;
use shardwright_coordination::{
    AcquireError, AsyncCoordinationBackend, AsyncRunManagement, AsyncShardClaiming,
    CheckpointError, ClaimError, CompleteError, InfraError, RenewError, SplitRequestError,
};
use shardwright_engine::codec::{FormatRecord, Record};
use shardwright_runs::{
    CoordinatorOpenError, EngineConfig, EngineConfigError, LeaseBinding, StoreOpenError,
    StoredCoordinator,
};
use shardwright_store::{Commit, Expect, Store};

use crate::flaky::{FlakyStore, Reaction};
use crate::site::{Engine, LEASE_MS, RUN, Site, TENANT, acquire, list, op, shard, start, worker};

#[test]
fn store_of_a_later_format_is_refused() {
    let site = Site::new();
    let key = site.keys.keyspace().format();
    let commit = Commit::builder()
        .expect(key.clone(), Expect::Absent)
        .put(key, FormatRecord { version: 2 }.encode())
        .build()
        .unwrap();
    site.run(site.store.commit(commit)).unwrap();
    let (store, env) = (site.store.clone(), site.world.clone());
    let opened =
        site.run(StoredCoordinator::open(store, env, site.keys.keyspace().clone(), Site::config()));
    assert_eq!(opened.err(), Some(StoreOpenError::NewerFormat { found: 2, known: 1 }.into()));
}

#[test]
fn invalid_configuration_is_refused() {
    let site = Site::new();
    let refusal = |config| {
        let (store, env) = (site.store.clone(), site.world.clone());
        let keys = site.keys.keyspace().clone();
        site.run(StoredCoordinator::open(store, env, keys, config)).err()
    };
    let default = EngineConfig::default();
    let sessions = LeaseBinding::Session { ttl: Duration::ZERO };
    let below = EngineConfigError::SkewBelowMarkInterval {
        skew_allowance_ms: 999,
        clock_mark_interval_ms: 1_000,
    };
    for (config, expected) in [
        (EngineConfig { sessions, ..default }, EngineConfigError::ZeroSessionTtl),
        (EngineConfig { max_children_per_op: 0, ..default }, EngineConfigError::ZeroChildren),
        (EngineConfig { skew_allowance_ms: 999, ..default }, below),
    ] {
        assert_eq!(refusal(config), Some(expected.into()), "{config:?}");
    }
    assert_eq!(site.key_names(), Vec::<String>::new(), "something was written");
    for config in [default, EngineConfig::on_one_machine(), Site::config()] {
        assert_eq!(refusal(config), None, "{config:?}");
    }
}

#[test]
fn opening_ends_if_all_outcomes_stay_unknown() {
    let site = Site::new();
    let store = FlakyStore::new(site.store.clone());
    store.always_after(0, Reaction::Late);
    let (env, keys) = (site.world.clone(), site.keys.keyspace().clone());
    let opened = site.run(StoredCoordinator::open(store.clone(), env, keys, Site::config()));
    let error = opened.err();
    let Some(CoordinatorOpenError::Store(StoreOpenError::Store(error))) = error else {
        panic!("{error:?}")
    };
    assert!(matches!(error, InfraError::Unknown { .. }), "{error:?}");
    assert!(store.commits() < 10, "{}", store.commits());
}

#[test]
fn leases_from_before_a_restore_stay_stale() {
    let site = Site::new();
    let before = site.engine();
    site.run(start(&before, 2));
    let lease = site.run(acquire(&before, 0, 1));
    drop(before);
    let raised =
        site.run(Engine::raise_generation(site.store.clone(), site.keys.keyspace())).unwrap();
    assert_eq!(raised, 1);
    let after = site.engine();
    let renewed = site.run(after.renew(TENANT, &lease));
    assert!(matches!(renewed, Err(RenewError::StaleFence(_))), "{renewed:?}");
    let cursor = CursorUpdate::at(b"0000001");
    let moved = site.run(after.checkpoint(TENANT, &lease, cursor, op(1)));
    assert!(matches!(moved, Err(CheckpointError::StaleFence(_))), "{moved:?}");
    site.world.advance(LEASE_MS);
    for id in [0, 1] {
        let lease = site.run(acquire(&after, id, 2));
        assert!(lease.fence().as_raw() >= 1 << 32, "{:?}", lease.fence());
    }
}

#[test]
fn leases_from_before_a_restore_do_not_block_claims() {
    let site = Site::new();
    // The old coordinator and its session live on.
    let before = site.engine();
    site.run(start(&before, 2));
    let lease = site.run(acquire(&before, 0, 1));
    site.run(acquire(&before, 1, 1));
    site.run(Engine::raise_generation(site.store.clone(), site.keys.keyspace())).unwrap();
    let after = site.engine();
    let asked = site.run(after.request_split(TENANT, shard(0), worker(2), LEASE_MS));
    assert!(matches!(asked, Err(SplitRequestError::NotLeased(_))), "{asked:?}");
    assert!(site.run(list(&after)).iter().all(|shard| shard.lease_deadline.is_none()));
    for by in [2, 3] {
        let claimed = site.run(after.claim_next_available(TENANT, RUN, worker(by))).unwrap();
        assert!(claimed.lease.fence() > lease.fence());
        assert_eq!(claimed.capacity.available_count, 3 - by as u32);
    }
    let none = site.run(after.claim_next_available(TENANT, RUN, worker(4)));
    assert!(matches!(none, Err(ClaimError::NoneAvailable(_))), "{none:?}");
    site.audit();
}

#[test]
fn full_store_rejects_writes_and_recovers() {
    let site = Site::new();
    let (engine, store) = site.flaky_engine();
    site.run(start(&engine, 2));
    let lease = site.run(acquire(&engine, 0, 1));
    let (shards, keys) = (site.run(list(&engine)), site.key_names());
    store.always_after(0, Reaction::Refuse);
    let acquired = site.run(engine.acquire_and_restore(TENANT, shard(1), worker(1)));
    let not_applied = |error: &InfraError| matches!(error, InfraError::NotApplied { .. });
    assert!(matches!(&acquired, Err(AcquireError::BackendError(e)) if not_applied(e)));
    let cursor = CursorUpdate::at(b"0000001");
    let completed = site.run(engine.complete(TENANT, &lease, cursor, op(1)));
    assert!(matches!(&completed, Err(CompleteError::BackendError(e)) if not_applied(e)));
    let created = site.run(engine.create_run(
        TENANT,
        shardwright_contracts::RunId::from_raw(9),
        crate::site::run_config(),
    ));
    assert!(created.is_err());
    assert_eq!((site.run(list(&engine)), site.key_names()), (shards, keys));
    assert!(site.run(engine.get_run(TENANT, RUN)).is_ok());
    store.next([]);
    site.run(engine.complete(TENANT, &lease, cursor, op(1))).unwrap();
    site.run(acquire(&engine, 1, 1));
    site.audit();
}
