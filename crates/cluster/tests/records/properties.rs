//! Whatever is stored comes back, and whatever comes back was stored so.

use std::fmt::Debug;

use proptest::prelude::*;
use proptest::sample::Index;
use shardwright_cluster::records::ClusterLeaderRecord;
use shardwright_engine::codec::{Record, RecordKind};

use crate::{any, checks, examples};

fn comes_back<R: Record + Debug + PartialEq>(record: &R) -> Result<(), TestCaseError> {
    let decoded = R::decode(&record.encode());
    prop_assert_eq!(decoded.as_ref(), Ok(record));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn clusters_come_back(
        plan in any::cluster_plan(),
        weight in 1..=u32::MAX,
        holder in any::holder(),
        head in any::target_head(),
        chunk in any::target_chunk(),
        claim in any::shard_claim(),
    ) {
        comes_back(&plan)?;
        comes_back(&examples::weighing(weight))?;
        comes_back(&ClusterLeaderRecord { holder })?;
        comes_back(&head)?;
        comes_back(&chunk)?;
        comes_back(&claim)?;
    }

    #[test]
    fn any_bytes_are_a_record_or_an_error(
        data in proptest::collection::vec(any::<u8>(), 0..200),
        kind in proptest::sample::select(RecordKind::ALL),
    ) {
        checks::record::any_kind(&data);
        checks::record::any_kind(&[&[kind.as_byte(), 1], &data[..]].concat());
    }

    /// Damage that is not noticed has made another record, and the only encoding of it.
    #[test]
    fn damaged_records_are_other_records_or_errors(
        chunk in any::target_chunk(),
        damage in proptest::collection::vec(any::<(Index, u8)>(), 1..4),
    ) {
        let mut damaged = chunk.encode().to_vec();
        for (index, byte) in &damage {
            *index.get_mut(&mut damaged) = *byte;
        }
        checks::record::any_kind(&damaged);
    }

    #[test]
    fn any_bytes_are_a_key_or_none(
        data in proptest::collection::vec(any::<u8>(), 0..150),
        name in "plan|member|leaving|drain|gate|leader|targets|chunk|claim|nodes|gates|shard",
        rest in "(/[0-9a-f]{16}|/[0-9]{1,5}|/[a-z]{1,3}:[0-9]{1,4}){0,2}/?",
    ) {
        checks::cluster_key::any_bytes(&data);
        checks::cluster_key::any_bytes(format!("{name}{rest}").as_bytes());
    }
}

#[test]
fn the_largest_record_comes_back() {
    let (kind, value) = examples::largest();
    assert_eq!(checks::record::as_kind(kind, &value), Some(true), "{kind}");
}

#[test]
fn every_change_of_one_byte_makes_another_record_or_an_error() {
    for (kind, value) in examples::small() {
        assert_eq!(checks::record::as_kind(kind, &value), Some(true), "{kind}");
        for index in 0..value.len() {
            let mut damaged = value.to_vec();
            for byte in 0..=u8::MAX {
                damaged[index] = byte;
                checks::record::as_kind(kind, &damaged);
            }
        }
    }
}
