//! Records and keys round-trip, and each has one encoding.

use proptest::prelude::*;
use proptest::sample::Index;
use shardwright_cluster::records::ClusterLeaderRecord;
use shardwright_engine::codec::{Record, RecordKind};

use crate::record_tests::{self, damage, round_trips};
use crate::{any, checks, examples};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn clusters_round_trip(
        plan in any::cluster_plan(),
        deletion in any::deletion(),
        weight in 1..=u32::MAX,
        holder in any::holder(),
        head in any::target_head(),
        chunk in any::target_chunk(),
        claim in any::shard_claim(),
    ) {
        round_trips(&plan)?;
        round_trips(&deletion)?;
        round_trips(&examples::weighing(weight))?;
        round_trips(&ClusterLeaderRecord { holder })?;
        round_trips(&head)?;
        round_trips(&chunk)?;
        round_trips(&claim)?;
    }

    #[test]
    fn any_bytes_are_a_record_or_an_error(
        data in proptest::collection::vec(any::<u8>(), 0..200),
        kind in proptest::sample::select(RecordKind::ALL),
    ) {
        checks::record::any_kind(&data);
        checks::record::any_kind(&[&[kind.as_byte(), 1], &data[..]].concat());
    }

    /// Damage that decodes is another record, in its only encoding.
    #[test]
    fn damaged_records_are_other_records_or_errors(
        chunk in any::target_chunk(),
        replaced in proptest::collection::vec(any::<(Index, u8)>(), 1..4),
    ) {
        checks::record::any_kind(&damage(&chunk.encode(), &replaced));
    }

    #[test]
    fn any_bytes_parse_as_at_most_one_key(
        data in proptest::collection::vec(any::<u8>(), 0..150),
        name in "plan|deletion|member|leaving|drain|gate|leader|targets|chunk|claim|nodes|gates\
            |shard",
        rest in "(/[0-9a-f]{16}|/[0-9]{1,5}|/[a-z]{1,3}:[0-9]{1,4}){0,2}/?",
    ) {
        checks::cluster_key::any_bytes(&data);
        checks::cluster_key::any_bytes(format!("{name}{rest}").as_bytes());
    }
}

#[test]
fn largest_record_round_trips() {
    record_tests::accept(checks::record::as_kind, examples::largest());
}

#[test]
fn replaced_bytes_make_another_record_or_an_error() {
    record_tests::replace_each_byte(checks::record::as_kind, examples::small());
}
