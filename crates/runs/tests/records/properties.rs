//! Records and keys round-trip, and each has one encoding.

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

use crate::record_tests::{self, damage, round_trips};
use crate::{any, checks, examples};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn shards_round_trip(definition in any::definition(), progress in any::progress()) {
        round_trips(&definition)?;
        round_trips(&progress)?;
    }

    #[test]
    fn runs_round_trip(run in any::run(), manifest in any::manifest(), gate in any::gate()) {
        round_trips(&run)?;
        round_trips(&manifest)?;
        round_trips(&gate)?;
    }

    #[test]
    fn views_round_trip(
        binding in any::binding(),
        split_request in any::split_request(),
        until in any::time(),
        shard in any::shard(),
    ) {
        round_trips(&binding)?;
        round_trips(&split_request)?;
        round_trips(&WaitingWorkerRecord { until })?;
        round_trips(&RequesterRecord { shard })?;
        round_trips(&ClaimableRecord)?;
    }

    #[test]
    fn counts_and_marks_round_trip(
        count in any::count(),
        stage in any::stage(),
        reserved in any::<u64>(),
        reserved_until in any::time(),
        number in any::<u32>(),
    ) {
        round_trips(&count)?;
        round_trips(&stage)?;
        round_trips(&ReservedShardsRecord { reserved })?;
        round_trips(&ClockMarkRecord { reserved_until })?;
        round_trips(&StoreGenerationRecord { number })?;
        round_trips(&FormatRecord { version: number })?;
    }

    /// Two records join exactly if the joined shard is valid.
    #[test]
    fn split_shard_joins_again(
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
    fn split_run_joins_again(
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

    /// Damage that decodes is another record, in its only encoding.
    #[test]
    fn damaged_records_are_other_records_or_errors(
        definition in any::definition(),
        progress in any::progress(),
        run in any::run(),
        replaced in proptest::collection::vec(any::<(Index, u8)>(), 1..4),
    ) {
        let records = [definition.encode(), progress.encode(), run.encode()];
        for value in records {
            checks::record::any_kind(&damage(&value, &replaced));
        }
    }
}

#[test]
fn largest_records_round_trip() {
    record_tests::accept(checks::record::as_kind, examples::largest());
    let definition = examples::largest_definition();
    let record = join_shard(definition, examples::largest_progress()).unwrap();
    assert!(DefinitionRecord::encode_of(&record).len() < 42_000);
    assert_eq!(record.cursor.as_update().last_key(), Some(&[0xfe; 4_096][..]));
    assert_ne!(record.cursor.as_update(), CursorUpdate::initial());
}

#[test]
fn replaced_bytes_make_another_record_or_an_error() {
    record_tests::replace_each_byte(checks::record::as_kind, examples::small());
}
