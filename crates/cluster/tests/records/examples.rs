//! Examples of every record, among them the largest.

use shardwright_cluster::records::{
    ClusterDeletionRecord, ClusterFormat, ClusterGateRecord, ClusterLeaderRecord,
    ClusterPlanRecord, DrainMarkRecord, LeavingRecord, NodeMemberRecord, ShardClaimRecord,
    TargetChunkRecord, TargetHeadRecord,
};
use shardwright_contracts::{FenceEpoch, LogicalTime};
use shardwright_placement::limits::{MAX_FLAG_SIZE, MAX_NODE_ADDRESS_SIZE, MAX_OTHER_FLAGS};
use shardwright_placement::{
    Claim, Flag, Flags, Incarnation, NodeAddress, NodeInstance, ShardCount, ShardHash, Sharding,
    Target, TargetHeader, TargetSince, TargetVersion,
};

use crate::record_tests::{Examples, encoded};

const fn time(millis: u64) -> LogicalTime {
    LogicalTime::from_millis(millis)
}

fn fence(raw: u64) -> FenceEpoch {
    FenceEpoch::from_raw(raw).unwrap()
}

pub(crate) fn cluster_plan() -> ClusterPlanRecord {
    let num_shards = ShardCount::try_new(8_192).unwrap();
    let sharding = Sharding { hash: ShardHash::Avalanche64, num_shards };
    ClusterPlanRecord { sharding, format: ClusterFormat::Seed }
}

pub(crate) fn deletion() -> ClusterDeletionRecord {
    ClusterDeletionRecord { floor: fence(901), unfinished: true }
}

pub(crate) fn node(text: &str) -> NodeAddress {
    NodeAddress::parse(text).unwrap()
}

pub(crate) fn holder() -> NodeInstance {
    let incarnation = Incarnation::from_raw(7);
    NodeInstance { address: node("n1:1"), incarnation }
}

pub(crate) fn weighing(weight: u32) -> NodeMemberRecord {
    NodeMemberRecord { weight: std::num::NonZeroU32::new(weight).unwrap() }
}

pub(crate) fn target_head() -> TargetHeadRecord {
    let version = TargetVersion::from_raw(7);
    TargetHeadRecord {
        header: TargetHeader { version, frozen: true, spreading: false, shedding: true },
    }
}

pub(crate) fn target_chunk() -> TargetChunkRecord {
    let flags = Flags::try_new(vec![Flag::Pinned, Flag::Home(node("b"))]).unwrap();
    let target = |name, flags, since| Target { node: Some(node(name)), flags, since };
    let targets = vec![
        target("c", Flags::default(), TargetSince::Placed(time(1_000))),
        Target::default(),
        target("b", Flags::default(), TargetSince::Unknown),
        target("c", flags, TargetSince::Moved(time(2_000))),
    ];
    TargetChunkRecord { targets }
}

/// As many nodes as shards, each with the longest name, and all flags on one shard.
pub(crate) fn largest_target_chunk() -> TargetChunkRecord {
    let flags = (0..MAX_OTHER_FLAGS)
        .map(|number| Flag::parse(&format!("{number:0width$}", width = MAX_FLAG_SIZE)).unwrap());
    let flags = Flags::try_new(flags.collect()).unwrap();
    let target = |number: usize| Target {
        node: Some(node(&format!("{number:0width$}", width = MAX_NODE_ADDRESS_SIZE))),
        flags: if number == 0 { flags.clone() } else { Flags::default() },
        since: TargetSince::Moved(LogicalTime::MAX),
    };
    TargetChunkRecord { targets: (0..8).map(target).collect() }
}

pub(crate) fn shard_claim() -> ShardClaimRecord {
    ShardClaimRecord { claim: Claim { holder: Some(holder()), fence: fence(2) } }
}

pub(crate) fn released() -> ShardClaimRecord {
    ShardClaimRecord { claim: Claim { holder: None, fence: fence(2) } }
}

/// At least one value of each kind.
pub(crate) fn small() -> Examples {
    vec![
        encoded(&cluster_plan()),
        encoded(&deletion()),
        encoded(&weighing(3)),
        encoded(&ClusterGateRecord),
        encoded(&ClusterLeaderRecord { holder: holder() }),
        encoded(&target_head()),
        encoded(&target_chunk()),
        encoded(&TargetChunkRecord::default()),
        encoded(&shard_claim()),
        encoded(&released()),
        encoded(&DrainMarkRecord),
        encoded(&LeavingRecord),
    ]
}

/// The largest value of the kind that varies in size.
pub(crate) fn largest() -> Examples {
    vec![encoded(&largest_target_chunk())]
}
