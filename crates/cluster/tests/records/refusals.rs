//! Invalid records are rejected with the right problem and without excessive allocation.

use shardwright_cluster::records::{ClusterGateRecord, ClusterLeaderRecord, TargetChunkRecord};
use shardwright_contracts::InvariantViolation;
use shardwright_engine::codec::{DecodeProblem, Record};
use shardwright_placement::{FlagError, NodeAddressError, ShardCountError};

use crate::record_tests::{self, broken, invalid};
use crate::{checks, examples};

#[test]
fn records_of_other_lengths_are_rejected() {
    let examples = [examples::small(), examples::largest()].concat();
    record_tests::reject_other_lengths(checks::record::as_kind, examples);
    let error = ClusterGateRecord::decode(&[23, 1, 0]).unwrap_err();
    assert_eq!((error.problem, error.offset), (DecodeProblem::Trailing { extra: 1 }, 2));
}

#[test]
fn other_kinds_and_versions_are_rejected() {
    record_tests::reject_other_kinds(checks::record::as_kind, examples::small());
    let plan = examples::cluster_plan();
    assert_eq!(broken(&plan, 0, &[5]), (DecodeProblem::OtherKind { found: 5 }, 0));
    assert_eq!(broken(&plan, 1, &[2]), (DecodeProblem::OtherVersion { found: 2 }, 1));
}

#[test]
fn impossible_cluster_records_are_rejected() {
    let plan = examples::cluster_plan();
    let problem = DecodeProblem::UnknownByte { what: "hash", byte: 2 };
    assert_eq!(broken(&plan, 2, &[2]), (problem, 2));
    let none = invalid(ShardCountError(0));
    assert_eq!(broken(&plan, 3, &[0; 4]), (none, 3));
    let problem = DecodeProblem::UnknownByte { what: "format", byte: 9 };
    assert_eq!(broken(&plan, 7, &[9]), (problem, 7));
    let weight = DecodeProblem::Zero { what: "weight" };
    assert_eq!(broken(&examples::weighing(3), 2, &[0; 4]), (weight, 2));
    let leader = ClusterLeaderRecord { holder: examples::holder() };
    let address = invalid(NodeAddressError::Character { at: 0 });
    assert_eq!(broken(&leader, 6, b"/"), (address, 2));
    assert_eq!(broken(&leader, 6, &[0xff]), (DecodeProblem::NotText { what: "address" }, 2));
    let deletion = examples::deletion();
    let floor = DecodeProblem::Zero { what: "floor" };
    assert_eq!(broken(&deletion, 2, &[0; 8]), (floor, 2));
    let fence = DecodeProblem::Zero { what: "fence" };
    assert_eq!(broken(&examples::released(), 2, &[0; 8]), (fence, 2));
}

/// Node names are at bytes 10 and 15. Targets refer to them at bytes 21, 45 and 55.
#[test]
fn chunk_of_targets_has_one_encoding() {
    let chunk = examples::target_chunk();
    let rule = |(problem, _)| match problem {
        DecodeProblem::Invariant(InvariantViolation(rule)) => rule,
        problem => panic!("{problem}"),
    };
    assert_eq!(rule(broken(&chunk, 10, b"b")), "a chunk names each node once");
    let in_turn = "a chunk names nodes in the order in which shards need them";
    assert_eq!(rule(broken(&chunk, 21, &[1])), in_turn);
    assert_eq!(rule(broken(&chunk, 45, &[2])), in_turn);
    // A node that no shard needs.
    assert_eq!(rule(broken(&chunk, 45, &[0])), in_turn);
    let origin = DecodeProblem::UnknownByte { what: "since", byte: 3 };
    assert_eq!(broken(&chunk, 25, &[3]), (origin, 25));
    let value = chunk.encode();
    let at = value.len() - 6;
    let twice = [&value[..at], b"pinned"].concat();
    let error = TargetChunkRecord::decode(&twice).unwrap_err();
    assert_eq!(error.problem, invalid(FlagError::Twice));
}

#[test]
fn decoding_memory_is_bounded_by_the_value() {
    let examples = [examples::small(), examples::largest()].concat();
    record_tests::bound_decoding_memory(checks::record::as_kind, examples);
}
