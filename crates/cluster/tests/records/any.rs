//! Generated records, for properties.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use shardwright_cluster::records::{
    ClusterDeletionRecord, ClusterFormat, ClusterPlanRecord, ShardClaimRecord, TargetChunkRecord,
    TargetHeadRecord,
};
use shardwright_contracts::{FenceEpoch, LogicalTime};
use shardwright_placement::limits::MAX_NUM_SHARDS;
use shardwright_placement::{
    Claim, Flag, Flags, Incarnation, NodeAddress, NodeInstance, ShardCount, ShardHash, Sharding,
    Target, TargetHeader, TargetSince, TargetVersion,
};

fn time() -> impl Strategy<Value = LogicalTime> {
    any::<u64>().prop_map(LogicalTime::from_millis)
}

fn fence() -> impl Strategy<Value = FenceEpoch> {
    (1..=u64::MAX).prop_map(|raw| FenceEpoch::from_raw(raw).unwrap())
}

pub(crate) fn address() -> impl Strategy<Value = NodeAddress> {
    "[a-e]{1,3}(:[0-9]{1,5})?".prop_map(|text| NodeAddress::parse(&text).unwrap())
}

pub(crate) fn holder() -> impl Strategy<Value = NodeInstance> {
    (address(), any::<u64>()).prop_map(|(address, incarnation)| NodeInstance {
        address,
        incarnation: Incarnation::from_raw(incarnation),
    })
}

pub(crate) fn shard_claim() -> impl Strategy<Value = ShardClaimRecord> {
    (option::of(holder()), fence())
        .prop_map(|(holder, fence)| ShardClaimRecord { claim: Claim { holder, fence } })
}

pub(crate) fn target_head() -> impl Strategy<Value = TargetHeadRecord> {
    (any::<u64>(), any::<[bool; 3]>()).prop_map(|(version, [frozen, spreading, shedding])| {
        let version = TargetVersion::from_raw(version);
        TargetHeadRecord { header: TargetHeader { version, frozen, spreading, shedding } }
    })
}

fn flags() -> impl Strategy<Value = Flags> {
    (any::<bool>(), option::of(address()), option::of("[x-z]{1,5}")).prop_map(
        |(pinned, home, other)| {
            let other = other.map(|text| Flag::parse(&text).unwrap());
            let pinned = pinned.then_some(Flag::Pinned);
            let flags = other.into_iter().chain(pinned).chain(home.map(Flag::Home));
            Flags::try_new(flags.collect()).unwrap()
        },
    )
}

pub(crate) fn target_chunk() -> impl Strategy<Value = TargetChunkRecord> {
    let since = (0..3, time()).prop_map(|(kind, time)| match kind {
        0 => TargetSince::Unknown,
        1 => TargetSince::Placed(time),
        _ => TargetSince::Moved(time),
    });
    let target = (option::of(address()), flags(), since).prop_map(|(node, flags, since)| Target {
        node,
        flags,
        since,
    });
    vec(target, 0..40).prop_map(|targets| TargetChunkRecord { targets })
}

pub(crate) fn cluster_plan() -> impl Strategy<Value = ClusterPlanRecord> {
    let count = 1..=MAX_NUM_SHARDS;
    (select(&ShardHash::ALL[..]), count, any::<bool>()).prop_map(|(hash, count, text)| {
        let num_shards = ShardCount::try_new(count).unwrap();
        let format = if text { ClusterFormat::Seed } else { ClusterFormat::Native };
        ClusterPlanRecord { sharding: Sharding { hash, num_shards }, format }
    })
}

pub(crate) fn deletion() -> impl Strategy<Value = ClusterDeletionRecord> {
    (fence(), any::<bool>())
        .prop_map(|(floor, unfinished)| ClusterDeletionRecord { floor, unfinished })
}
