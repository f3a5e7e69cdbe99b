//! The bytes of each record, field by field. They never change, so that stored data stays readable.

use shardwright_cluster::records::{
    ClusterGateRecord, ClusterLeaderRecord, DrainMarkRecord, LeavingRecord, TargetChunkRecord,
};

use crate::examples;
use crate::record_tests::golden;

#[test]
fn golden_cluster() {
    // Hash: avalanche64; shards; stored as text.
    golden(&examples::cluster_plan(), "15 01", &["01", "00200000", "01"]);
    // The lowest fence of the next cluster; unfinished.
    golden(&examples::deletion(), "1e 01", &["8503000000000000", "01"]);
    golden(&examples::weighing(3), "16 01", &["03000000"]);
    golden(&ClusterGateRecord, "17 01", &[]);
    let holder = ["04000000 6e313a31", "0700000000000000"];
    golden(&ClusterLeaderRecord { holder: examples::holder() }, "18 01", &holder);
    let claim = ["0200000000000000", "01", &holder.concat()];
    golden(&examples::shard_claim(), "1b 01", &claim);
    golden(&examples::released(), "1b 01", &["0200000000000000", "00"]);
    golden(&DrainMarkRecord, "1c 01", &[]);
    golden(&LeavingRecord, "1d 01", &[]);
}

#[test]
fn golden_targets() {
    // Version; frozen, not spreading, shedding.
    golden(&examples::target_head(), "19 01", &["0700000000000000", "01 00 01"]);
    let fields = [
        "02000000",                        // two nodes
        "01000000 63 01000000 62",         // their names
        "04000000",                        // four targets
        "01 00000000 01 e803000000000000", // the first node, placed then
        "00000000",                        // no flags
        "00 00 00000000",                  // no node, unknown, no flags
        "01 01000000 00 00000000",         // the second node, unknown, no flags
        "01 00000000 02 d007000000000000", // the first node, moved then
        "02000000",                        // two flags
        "06000000 70696e6e6564",           // pinned
        "06000000 686f6d653d62",           // home=b
    ];
    golden(&examples::target_chunk(), "1a 01", &fields);
    golden(&TargetChunkRecord::default(), "1a 01", &["00000000", "00000000"]);
}
