//! Both protocols share one registry of record kinds. This crate sees both.

use shardwright_engine::codec::RecordKind;

#[allow(dead_code, reason = "only records matter here")]
#[path = "../../../cluster/tests/checks/mod.rs"]
mod cluster;
#[allow(dead_code, reason = "only records matter here")]
#[path = "../../../runs/tests/checks/mod.rs"]
mod runs;

#[test]
fn every_kind_is_a_record_of_one_protocol() {
    for kind in RecordKind::ALL {
        let is_of_runs = runs::record::as_kind(*kind, &[]).is_some();
        let is_of_cluster = cluster::record::as_kind(*kind, &[]).is_some();
        assert!(is_of_runs != is_of_cluster, "{kind}");
    }
}
