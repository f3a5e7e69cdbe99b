//! A record that cannot be read disables its shard only.

use bytes::Bytes;
use shardwright_contracts::CursorUpdate;
use shardwright_coordination::{
    AcquireError, AsyncCoordinationBackend, AsyncShardClaiming, ClaimError, InfraError,
};
use shardwright_store::{Commit, CommitBuilder, Expect, Key, Store};

use crate::site::{LEASE_MS, RUN, Site, TENANT, op, shard, start, worker};

/// Overwrites a record with bytes that do not decode.
pub(crate) async fn corrupt(site: &Site, key: Key) {
    write(site, key, Bytes::from_static(b"scribble")).await;
}

pub(crate) async fn write(site: &Site, key: Key, value: Bytes) {
    let commit = found(site, &key).await.put(key, value).build().unwrap();
    site.store.commit(commit).await.unwrap();
}

pub(crate) async fn delete(site: &Site, key: Key) {
    let commit = found(site, &key).await.delete(key).build().unwrap();
    site.store.commit(commit).await.unwrap();
}

/// A commit that expects a key as it is stored.
async fn found(site: &Site, key: &Key) -> CommitBuilder {
    site.note_damaged();
    let found = site.store.load(std::slice::from_ref(key)).await.unwrap();
    let at = found.values[0].as_ref().unwrap().revision;
    Commit::builder().expect(key.clone(), Expect::At(at))
}

fn check_damaged_shard_is_isolated(which: impl Fn(&Site) -> Key) {
    let site = Site::new();
    let engine = site.engine();
    site.run(start(&engine, 5));
    site.run(corrupt(&site, which(&site)));
    let acquired = site.run(engine.acquire_and_restore(TENANT, shard(2), worker(1)));
    let Err(AcquireError::BackendError(InfraError::Corrupt { message, .. })) = acquired else {
        panic!("{acquired:?}");
    };
    assert!(message.contains(&format!("shard {}", shard(2).shard)), "{message}");
    for id in 0..4 {
        let claimed = site.run(engine.claim_next_available(TENANT, RUN, worker(id))).unwrap();
        assert_ne!(claimed.lease.key(), shard(2));
        let cursor = CursorUpdate::initial();
        site.run(engine.complete(TENANT, &claimed.lease, cursor, op(id))).unwrap();
    }
    let nothing = site.run(engine.claim_next_available(TENANT, RUN, worker(1)));
    assert!(matches!(nothing, Err(ClaimError::NoneAvailable(_))), "{nothing:?}");
}

#[test]
fn repaired_shard_is_claimed_again() {
    let site = Site::new();
    let engine = site.engine();
    site.run(start(&engine, 1));
    let key = site.keys.progress(TENANT, shard(0));
    let whole = site.run(site.store.load(std::slice::from_ref(&key))).unwrap();
    let whole = whole.values[0].clone().unwrap().value;
    site.run(corrupt(&site, key.clone()));
    let nothing = site.run(engine.claim_next_available(TENANT, RUN, worker(1)));
    assert!(matches!(nothing, Err(ClaimError::NoneAvailable(_))), "{nothing:?}");
    site.run(write(&site, key, whole));
    site.world.advance(LEASE_MS);
    let claimed = site.run(engine.claim_next_available(TENANT, RUN, worker(1))).unwrap();
    assert_eq!(claimed.lease.key(), shard(0));
}

#[test]
fn damaged_progress_disables_one_shard() {
    let which = |site: &Site| site.keys.progress(TENANT, shard(2));
    check_damaged_shard_is_isolated(which);
}

#[test]
fn damaged_definition_disables_one_shard() {
    let which = |site: &Site| site.keys.definition(TENANT, shard(2));
    check_damaged_shard_is_isolated(which);
}
