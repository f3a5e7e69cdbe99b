//! Deleting clusters.

use std::fmt::Debug;
use std::num::NonZeroU32;

use shardwright_cluster::records::ClusterDeletionRecord;
use shardwright_cluster::{
    AdminError, Cluster, ClusterCreateError, ClusterDeleteError, ClusterOpenError, JoinError,
    Layout,
};
use shardwright_contracts::{FenceEpoch, InfraError};
use shardwright_engine::codec::Record;

use crate::existence::{create, delete, keys, use_and_leave, with_count};
use crate::flaky::{FlakyStore, Reaction, YieldingStore};
use crate::site::{SHARDS, Site, node, shard};

/// Key of one of the cluster's own records.
fn own(site: &Site, key: &str) -> String {
    match site.layout {
        Layout::Native => format!("shardwright/cluster/test/{key}"),
        Layout::Seed { .. } => format!("shardwright/text/%2fgoverse/{key}"),
    }
}

fn open(site: &Site) -> Result<(), ClusterOpenError> {
    site.run(Cluster::open(site.store.clone(), site.world.clone(), site.options())).map(|_| ())
}

/// Why a node and a gate cannot join. No session is left.
fn refusal(site: &Site, opened: &Cluster) -> JoinError {
    let refused = site.run(opened.join(node("b:1"), NonZeroU32::MIN)).unwrap_err();
    let gate = site.run(opened.join_gate(node("gate:1"))).unwrap_err();
    assert_eq!(gate, refused);
    assert_eq!(site.store.until_next_expiry(), None, "no session is left");
    refused
}

#[test]
fn a_deletion_leaves_one_record() {
    for site in [Site::new(), Site::text()] {
        assert_eq!(delete(&site), Err(ClusterDeleteError::NotThere));
        let (a, b) = (site.node("a:1"), site.node("b:1"));
        site.settle(&[&a, &b]);
        site.run(a.cluster().set_drained(&node("c:1"), true)).unwrap();
        site.run(a.cluster().set_frozen(true)).unwrap();
        for one in [a, b] {
            site.run(one.leave()).unwrap();
        }
        assert!(keys(&site).len() > SHARDS as usize);
        assert_eq!(delete(&site), Ok(()));
        assert_eq!(keys(&site), [own(&site, "deletion")]);
        assert_eq!(delete(&site), Err(ClusterDeleteError::NotThere));
        create(&site, &with_count(&site, 2 * SHARDS)).unwrap();
    }
}

#[test]
fn a_cluster_with_members_is_not_deleted() {
    for site in [Site::new(), Site::text()] {
        let (a, gate) = (site.node("a:1"), site.run(site.cluster().join_gate(node("gate:1"))));
        let gate = gate.unwrap();
        let before = keys(&site);
        let refused = delete(&site).unwrap_err();
        assert_eq!(refused.to_string(), "the cluster has members: a:1, gate:1");
        assert_eq!(keys(&site), before);
        site.run(a.leave()).unwrap();
        assert_eq!(delete(&site), Err(ClusterDeleteError::Members(vec![node("gate:1")])));
        site.run(gate.leave()).unwrap();
        assert_eq!(delete(&site), Ok(()));
    }
}

#[test]
fn a_deleted_cluster_cannot_be_joined() {
    for site in [Site::new(), Site::text()] {
        let opened = site.cluster();
        assert_eq!(delete(&site), Ok(()));
        assert_eq!(refusal(&site, &opened), JoinError::Deleted);
        create(&site, &with_count(&site, 2 * SHARDS)).unwrap();
        assert_eq!(refusal(&site, &opened), JoinError::Deleted, "other shards");
        assert_eq!(delete(&site), Ok(()));
        assert_eq!(refusal(&site, &opened), JoinError::Deleted);
    }
}

/// Another program stores no plan record.
#[test]
fn a_deleted_cluster_of_another_program_cannot_be_joined() {
    let site = Site::text();
    let open = || {
        for shard in 0..SHARDS {
            site.put(&format!("/goverse/shard/{shard}"), "n1:1,");
        }
        let opened = Cluster::open_existing(site.store.clone(), site.world.clone(), site.options());
        site.run(opened).unwrap()
    };
    let opened = open();
    let gate = site.run(opened.join_gate(node("gate:1"))).unwrap();
    site.run(gate.leave()).unwrap();
    assert!(site.stored(&own(&site, "")).is_empty(), "a gate writes no plan");
    assert_eq!(delete(&site), Ok(()));
    assert_eq!(refusal(&site, &opened), JoinError::Deleted);
    // The plan of another process is adopted.
    let opened = open();
    create(&site, &site.options()).unwrap();
    site.join(&opened, "a:1");
}

#[test]
fn a_join_and_a_deletion_exclude_each_other() {
    for is_text in [false, true] {
        let (mut joins, mut deletions) = (0, 0);
        for seed in 0..64 {
            let site = if is_text { Site::text() } else { Site::new() };
            let opened = site.cluster_over(YieldingStore(site.store.clone()));
            let options = site.options();
            let (joined, deleted) = site.race(
                seed,
                opened.join(node("a:1"), NonZeroU32::MIN),
                Cluster::delete(YieldingStore(site.store.clone()), &options),
            );
            let has_plan = !site.stored(&own(&site, "plan")).is_empty();
            match (joined, deleted) {
                (Ok(_member), Err(ClusterDeleteError::Members(_))) if has_plan => {
                    // The refused deletion has no effect.
                    site.join(&opened, "b:1");
                    joins += 1;
                }
                (Err(JoinError::Deleted | JoinError::BeingDeleted), Ok(())) if !has_plan => {
                    deletions += 1;
                }
                (joined, deleted) => panic!("{joined:?} {deleted:?} {has_plan}"),
            }
        }
        assert!(joins > 0 && deletions > 0, "{joins} {deletions}");
    }
}

/// A request of an operator either precedes the deletion, or is refused.
fn exclude_each_other<R, E: Debug>(
    prepare: impl Fn(&Site),
    request: impl AsyncFn(&Cluster) -> Result<R, E>,
    is_refusal: impl Fn(&E) -> bool,
) {
    for is_text in [false, true] {
        let (mut requests, mut refused) = (0, 0);
        for seed in 0..64 {
            let site = if is_text { Site::text() } else { Site::new() };
            prepare(&site);
            let opened = site.cluster_over(YieldingStore(site.store.clone()));
            let (options, created) = (site.options(), with_count(&site, 2 * SHARDS));
            let store = || YieldingStore(site.store.clone());
            let (requested, recreated) = site.race(seed, request(&opened), async {
                Cluster::delete(store(), &options).await?;
                Cluster::create(store(), &created).await.unwrap();
                Ok::<(), ClusterDeleteError>(())
            });
            match requested {
                Ok(_) => requests += 1,
                Err(error) => {
                    assert!(is_refusal(&error), "{error:?}");
                    refused += 1;
                }
            }
            // The request interfered with the deletion, or left nothing in the new cluster.
            if recreated.is_ok() {
                assert_eq!(keys(&site), ["deletion", "plan"].map(|key| own(&site, key)));
            }
        }
        assert!(requests > 0 && refused > 0, "{requests} {refused}");
    }
}

const fn is_gone<R>(error: &AdminError<R>) -> bool {
    matches!(error, AdminError::Deleted | AdminError::BeingDeleted)
}

#[test]
fn a_freeze_and_a_deletion_exclude_each_other() {
    exclude_each_other(|_| {}, async |it| it.set_frozen(true).await, is_gone);
}

#[test]
fn an_unpin_and_a_deletion_exclude_each_other() {
    let prepare = |site: &Site| {
        let a = site.node("a:1");
        site.settle(&[&a]);
        site.run(a.cluster().pin(shard(3), None)).unwrap();
        site.run(a.leave()).unwrap();
    };
    // As text, only the header may be stored.
    let is_partly = |error: &_| matches!(error, AdminError::Store(InfraError::Unknown { .. }));
    let is_refusal = |error: &_| is_gone(error) || is_partly(error);
    exclude_each_other(prepare, async |it| it.unpin(shard(3)).await, is_refusal);
}

#[test]
fn a_drain_and_a_deletion_exclude_each_other() {
    exclude_each_other(|_| {}, async |it| it.set_drained(&node("c:1"), true).await, is_gone);
}

/// Stops a deletion after each of its commits.
#[test]
fn an_interrupted_deletion_is_completed_by_the_next() {
    for is_text in [false, true] {
        let mut stops = 0;
        loop {
            let site = if is_text { Site::text() } else { Site::new() };
            let opened = site.cluster();
            let last = use_and_leave(&site);
            for number in 0..80 {
                site.run(opened.set_drained(&node(&format!("n{number}:1")), true)).unwrap();
            }
            let stopping = FlakyStore::new(site.store.clone());
            stopping.always_after(stops, Reaction::Refuse);
            if site.run(Cluster::delete(stopping, &site.options())).is_ok() {
                break;
            }
            if stops > 0 {
                let created = create(&site, &with_count(&site, 2 * SHARDS));
                assert_eq!(created, Err(ClusterCreateError::Open(ClusterOpenError::Remains)));
                assert_eq!(open(&site), Err(ClusterOpenError::Remains));
                assert_eq!(refusal(&site, &opened), JoinError::BeingDeleted);
            }
            assert_eq!(delete(&site), Ok(()));
            assert_eq!(keys(&site), [own(&site, "deletion")]);
            assert_eq!(refusal(&site, &opened), JoinError::Deleted);
            let a = site.node("a:1");
            site.place(&a);
            assert!(site.claim(&a, 3).unwrap() > last, "after {stops} commits");
            stops += 1;
        }
        assert!(stops >= 5, "{stops}");
    }
}

#[test]
fn a_deletion_that_a_member_outlived_is_undone() {
    for site in [Site::new(), Site::text()] {
        let (a, waiting) = (site.node("a:1"), site.cluster());
        let (draining, freezing) = (site.cluster(), site.cluster());
        // A deletion that ended after its first commit. The node joined before it.
        let mark = ClusterDeletionRecord { floor: FenceEpoch::INITIAL, unfinished: true };
        site.put(&own(&site, "deletion"), mark.encode().to_vec());
        let refused = site.run(waiting.join(node("b:1"), NonZeroU32::MIN)).unwrap_err();
        assert_eq!(refused, JoinError::BeingDeleted);
        assert_eq!(delete(&site), Err(ClusterDeleteError::Members(vec![node("a:1")])));
        site.join(&waiting, "b:1");
        site.settle(&[&a]);
        // Processes that have not seen the deletion.
        assert_eq!(site.run(draining.set_drained(&node("c:1"), true)), Ok(true));
        site.run(freezing.set_frozen(true)).unwrap();
    }
}

/// The fence is the only trace of an owner whose writes are still under way.
#[test]
fn fences_rise_above_those_of_a_deleted_cluster() {
    for site in [Site::new(), Site::text()] {
        let mut last = FenceEpoch::INITIAL;
        for _ in 0..3 {
            create(&site, &site.options()).unwrap();
            let highest = use_and_leave(&site);
            let view = site.cluster().view();
            let lowest = view.map.iter().filter_map(|info| info.fence).min().unwrap();
            assert!(lowest > last, "{lowest} {last}");
            last = highest;
            assert_eq!(delete(&site), Ok(()));
        }
    }
}

#[test]
fn fences_rise_above_those_that_cannot_be_read() {
    let site = Site::new();
    let last = use_and_leave(&site);
    site.put(&own(&site, "claim/0000000000000007"), "damaged");
    assert_eq!(delete(&site), Ok(()));
    let a = site.node("a:1");
    site.place(&a);
    assert!(site.claim(&a, 3).unwrap() > last);
}
