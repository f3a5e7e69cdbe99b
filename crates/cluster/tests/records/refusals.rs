//! What is no record is refused, for the right reason and without waste.

use shardwright_cluster::records::{ClusterGateRecord, ClusterLeaderRecord, TargetChunkRecord};
use shardwright_contracts::InvariantViolation;
use shardwright_engine::codec::{DecodeError, DecodeProblem, Record, RecordKind};
use shardwright_placement::{FlagError, NodeAddressError, ShardCountError};

use crate::{checks, examples};

/// What is wrong with an example in which some bytes were replaced.
fn broken<R: Record + std::fmt::Debug>(
    record: &R,
    at: usize,
    bytes: &[u8],
) -> (DecodeProblem, usize) {
    let mut value = record.encode().to_vec();
    value[at..at + bytes.len()].copy_from_slice(bytes);
    let DecodeError { kind, problem, offset } = R::decode(&value).unwrap_err();
    assert_eq!(kind, R::KIND);
    (problem, offset)
}

/// The problem for a value that its protocol rejects with `error`.
fn invalid(error: impl std::fmt::Display) -> DecodeProblem {
    DecodeProblem::Invalid(error.to_string().into())
}

#[test]
fn every_cut_and_every_extra_byte_is_refused() {
    for (kind, value) in examples::small().into_iter().chain([examples::largest()]) {
        for cut in 0..value.len() {
            let decoded = checks::record::as_kind(kind, &value[..cut]);
            assert_eq!(decoded, Some(false), "{kind} cut to {cut}");
        }
        for byte in 0..=u8::MAX {
            let longer = [&value[..], &[byte]].concat();
            let decoded = checks::record::as_kind(kind, &longer);
            assert_eq!(decoded, Some(false), "{kind} followed by {byte}");
        }
    }
    let error = ClusterGateRecord::decode(&[23, 1, 0]).unwrap_err();
    assert_eq!((error.problem, error.offset), (DecodeProblem::Trailing { extra: 1 }, 2));
}

#[test]
fn other_kinds_and_versions_are_refused() {
    for (kind, value) in examples::small() {
        for other in RecordKind::ALL {
            let decoded = checks::record::as_kind(*other, &value);
            assert!(decoded.is_none_or(|decoded| decoded == (*other == kind)), "{other}");
        }
    }
    let plan = examples::cluster_plan();
    assert_eq!(broken(&plan, 0, &[5]), (DecodeProblem::OtherKind { found: 5 }, 0));
    assert_eq!(broken(&plan, 1, &[2]), (DecodeProblem::OtherVersion { found: 2 }, 1));
}

#[test]
fn records_of_a_cluster_are_what_a_cluster_can_have() {
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
    let fence = DecodeProblem::Zero { what: "fence" };
    assert_eq!(broken(&examples::released(), 2, &[0; 8]), (fence, 2));
}

/// Nodes are at bytes 10 and 15, the numbers by which targets name them at 21, 45 and 55.
#[test]
fn a_chunk_of_targets_has_one_encoding() {
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

/// No more memory than the value is long, give or take a little.
#[test]
fn decoding_takes_no_more_memory_than_there_are_bytes() {
    let bounded = |kind: RecordKind, value: &[u8]| {
        let mut accepted = false;
        let counted = allocation_counter::measure(|| {
            accepted = checks::record::as_kind(kind, value) == Some(true);
        });
        // One that is accepted is encoded and decoded again, all at the same time.
        let copies = if accepted { 4 } else { 2 };
        let most = copies * (value.len() as u64 + 512);
        assert!(counted.bytes_max <= most, "{kind}: {} for {}", counted.bytes_max, value.len());
    };
    for (kind, value) in examples::small().into_iter().chain([examples::largest()]) {
        bounded(kind, &value);
        // Every four bytes of the smaller ones in turn say that an enormous amount follows.
        for at in 2..value.len().min(512).saturating_sub(4) {
            for length in [u32::MAX, u32::MAX - 1, 1 << 31, 1 << 20, 9_999] {
                let mut damaged = value[..value.len().min(512)].to_vec();
                damaged[at..at + 4].copy_from_slice(&length.to_le_bytes());
                bounded(kind, &damaged);
            }
        }
    }
}
