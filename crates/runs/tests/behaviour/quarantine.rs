//! A record that cannot be read puts its shard out of work, and no other.

use bytes::Bytes;
use shardwright_contracts::CursorUpdate;
use shardwright_coordination::{
    AcquireError, AsyncCoordinationBackend, AsyncShardClaiming, ClaimError, InfraError,
};
use shardwright_store::{Commit, Expect, Key, Store};

use crate::site::{LEASE_MS, RUN, Site, TENANT, op, shard, start, worker};

pub(crate) async fn scribble(site: &Site, key: Key) {
    write(site, key, Bytes::from_static(b"scribble")).await;
}

pub(crate) async fn write(site: &Site, key: Key, value: Bytes) {
    let found = site.store.load(std::slice::from_ref(&key)).await.unwrap();
    let at = found.values[0].as_ref().unwrap().revision;
    let commit =
        Commit::builder().expect(key.clone(), Expect::At(at)).put(key, value).build().unwrap();
    site.store.commit(commit).await.unwrap();
}

fn a_damaged_shard_is_named_and_the_others_are_worked_on(which: impl Fn(&Site) -> Key) {
    let site = Site::new();
    let engine = site.engine();
    site.run(start(&engine, 5));
    site.run(scribble(&site, which(&site)));
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
fn a_shard_that_was_repaired_is_claimed_by_those_who_had_found_it_damaged() {
    let site = Site::new();
    let engine = site.engine();
    site.run(start(&engine, 1));
    let key = site.keys.progress(TENANT, shard(0));
    let whole = site.run(site.store.load(std::slice::from_ref(&key))).unwrap();
    let whole = whole.values[0].clone().unwrap().value;
    site.run(scribble(&site, key.clone()));
    let nothing = site.run(engine.claim_next_available(TENANT, RUN, worker(1)));
    assert!(matches!(nothing, Err(ClaimError::NoneAvailable(_))), "{nothing:?}");
    site.run(write(&site, key, whole));
    site.world.advance(LEASE_MS);
    let claimed = site.run(engine.claim_next_available(TENANT, RUN, worker(1))).unwrap();
    assert_eq!(claimed.lease.key(), shard(0));
}

#[test]
fn damaged_progress_puts_one_shard_out_of_work() {
    let which = |site: &Site| site.keys.progress(TENANT, shard(2));
    a_damaged_shard_is_named_and_the_others_are_worked_on(which);
}

#[test]
fn a_damaged_definition_puts_one_shard_out_of_work() {
    let which = |site: &Site| site.keys.definition(TENANT, shard(2));
    a_damaged_shard_is_named_and_the_others_are_worked_on(which);
}
