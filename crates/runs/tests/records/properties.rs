//! Whatever is stored comes back, and whatever comes back was stored so.

use std::fmt::Debug;

use proptest::prelude::*;
use proptest::sample::Index;
use shardwright_contracts::CursorUpdate;
use shardwright_engine::codec::{
    ClockMarkRecord, FormatRecord, Record, RecordKind, StoreGenerationRecord,
};
use shardwright_runs::records::{
    ClaimableRecord, DefinitionRecord, ManifestRecord, ProgressRecord, RequesterRecord,
    ReservedShardsRecord, RunHeadRecord, WaitingWorkerRecord, join_run, join_shard, split_run,
    split_shard,
};

use crate::{any, checks, examples};

fn comes_back<R: Record + Debug + PartialEq>(record: &R) -> Result<(), TestCaseError> {
    let decoded = R::decode(&record.encode());
    prop_assert_eq!(decoded.as_ref(), Ok(record));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn shards_come_back(definition in any::definition(), progress in any::progress()) {
        comes_back(&definition)?;
        comes_back(&progress)?;
    }

    #[test]
    fn runs_come_back(run in any::run(), manifest in any::manifest(), gate in any::gate()) {
        comes_back(&run)?;
        comes_back(&manifest)?;
        comes_back(&gate)?;
    }

    #[test]
    fn views_come_back(
        binding in any::binding(),
        split_ask in any::split_ask(),
        until in any::time(),
        shard in any::shard(),
    ) {
        comes_back(&binding)?;
        comes_back(&split_ask)?;
        comes_back(&WaitingWorkerRecord { until })?;
        comes_back(&RequesterRecord { shard })?;
        comes_back(&ClaimableRecord)?;
    }

    #[test]
    fn counts_and_marks_come_back(
        count in any::count(),
        stage in any::stage(),
        reserved in any::<u64>(),
        reserved_until in any::time(),
        number in any::<u32>(),
    ) {
        comes_back(&count)?;
        comes_back(&stage)?;
        comes_back(&ReservedShardsRecord { reserved })?;
        comes_back(&ClockMarkRecord { reserved_until })?;
        comes_back(&StoreGenerationRecord { number })?;
        comes_back(&FormatRecord { version: number })?;
    }

    /// The two records of a shard go together just when the shard they make can be.
    #[test]
    fn a_shard_is_joined_from_what_it_was_split_into(
        definition in any::definition(), progress in any::progress(),
    ) {
        let within = progress.cursor.as_update().is_within(definition.spec.as_spec_ref());
        let childless = definition.spawned.is_empty();
        let split = progress.status == shardwright_coordination::ShardStatus::Split;
        match join_shard(definition.clone(), progress.clone()) {
            Ok(record) => {
                prop_assert!(within && !(split && childless));
                prop_assert_eq!(DefinitionRecord::encode_of(&record), definition.encode());
                prop_assert_eq!(ProgressRecord::encode_of(&record), progress.encode());
                prop_assert_eq!(split_shard(record), (definition, progress));
            }
            Err(_) => prop_assert!(!within || (split && childless)),
        }
    }

    #[test]
    fn a_run_is_joined_from_what_it_was_split_into(
        run in any::run(), manifest in any::manifest(),
    ) {
        use shardwright_coordination::RunStatus::{Cancelled, Initializing};
        let possible = match run.status {
            Cancelled => true,
            Initializing => manifest.root_shards.is_empty(),
            _ => !manifest.root_shards.is_empty(),
        };
        match join_run(run.clone(), manifest.clone()) {
            Ok(record) => {
                prop_assert!(possible);
                prop_assert_eq!(RunHeadRecord::encode_of(&record, run.collecting), run.encode());
                prop_assert_eq!(ManifestRecord::encode_of(&record), manifest.encode());
                prop_assert_eq!(split_run(record, run.collecting), (run, manifest));
            }
            Err(_) => prop_assert!(!possible),
        }
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
        definition in any::definition(),
        progress in any::progress(),
        run in any::run(),
        damage in proptest::collection::vec(any::<(Index, u8)>(), 1..4),
    ) {
        let records = [definition.encode(), progress.encode(), run.encode()];
        for value in records {
            let mut damaged = value.to_vec();
            for (index, byte) in &damage {
                *index.get_mut(&mut damaged) = *byte;
            }
            checks::record::any_kind(&damaged);
        }
    }
}

#[test]
fn the_largest_records_come_back() {
    for (kind, value) in examples::largest() {
        assert_eq!(checks::record::as_kind(kind, &value), Some(true), "{kind}");
    }
    let definition = examples::largest_definition();
    let record = join_shard(definition, examples::largest_progress()).unwrap();
    assert!(DefinitionRecord::encode_of(&record).len() < 42_000);
    assert_eq!(record.cursor.as_update().last_key(), Some(&[0xfe; 4_096][..]));
    assert_ne!(record.cursor.as_update(), CursorUpdate::initial());
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
