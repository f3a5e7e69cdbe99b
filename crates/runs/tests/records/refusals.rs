//! Invalid records are rejected with the right problem and without excessive allocation.

use shardwright_contracts::limits::{MAX_INITIAL_SHARDS, MAX_SPAWNED_PER_SHARD};
use shardwright_contracts::{
    CursorInputError, FenceEpoch, LogicalTime, ShardId, ShardSpecInputError,
};
use shardwright_coordination::{
    InvariantViolation, OpKind, OpLog, Park, ParkReason, RunConfigError, RunStatus, ShardStatus,
};
use shardwright_engine::codec::{DecodeProblem, FormatRecord, Record};
use shardwright_runs::records::{
    BindingRecord, ClaimableRecord, DefinitionRecord, ManifestRecord, ProgressRecord,
    RunHeadRecord, RunShardsRecord, RunStateRecord, SplitRequestRecord, join_run, join_shard,
};

use crate::checks;
use crate::examples::{self, child, entry};
use crate::record_tests::{self, broken, invalid};

/// The invariant that a record violates.
fn rule<R: Record + std::fmt::Debug>(record: &R) -> &'static str {
    match R::decode(&record.encode()).unwrap_err().problem {
        DecodeProblem::Invariant(InvariantViolation(rule)) => rule,
        problem => panic!("{problem}"),
    }
}

#[test]
fn records_of_other_lengths_are_rejected() {
    let examples = [examples::small(), examples::largest()].concat();
    record_tests::reject_other_lengths(checks::record::as_kind, examples);
    let error = ClaimableRecord::decode(&[16, 1, 0]).unwrap_err();
    assert_eq!((error.problem, error.offset), (DecodeProblem::Trailing { extra: 1 }, 2));
    let error = FormatRecord::decode(&[15, 1, 0]).unwrap_err();
    assert_eq!((error.problem, error.offset), (DecodeProblem::Truncated { needed: 4, left: 1 }, 2));
    let error = FormatRecord::decode(&[]).unwrap_err();
    assert_eq!((error.problem, error.offset), (DecodeProblem::Empty, 0));
}

#[test]
fn other_kinds_and_versions_are_rejected() {
    record_tests::reject_other_kinds(checks::record::as_kind, examples::small());
    let gate = examples::gate();
    assert_eq!(broken(&gate, 0, &[6]), (DecodeProblem::OtherKind { found: 6 }, 0));
    assert_eq!(broken(&gate, 0, &[0]), (DecodeProblem::OtherKind { found: 0 }, 0));
    assert_eq!(broken(&gate, 1, &[0]), (DecodeProblem::OtherVersion { found: 0 }, 1));
    assert_eq!(broken(&gate, 1, &[2]), (DecodeProblem::OtherVersion { found: 2 }, 1));
}

#[test]
fn unknown_bytes_are_rejected() {
    let unknown = |what, byte, offset| (DecodeProblem::UnknownByte { what, byte }, offset);
    let (progress, parked) = (examples::progress(), examples::parked());
    assert_eq!(broken(&progress, 2, &[4]), unknown("status", 4, 2));
    assert_eq!(broken(&progress, 3, &[2]), unknown("park", 2, 3));
    assert_eq!(broken(&parked, 4, &[5]), unknown("reason", 5, 4));
    let log = 2 + 1 + 1 + 8 + 17 + 7 + 8;
    assert_eq!(broken(&progress, log + 12, &[13]), unknown("kind", 13, log + 12));
    assert_eq!(broken(&progress, log + 13, &[3]), unknown("result", 3, log + 13));
    let gate = examples::gate();
    assert_eq!(broken(&gate, 2, &[5]), unknown("status", 5, 2));
    assert_eq!(broken(&gate, 3, &[2]), unknown("paused", 2, 3));
    assert_eq!(broken(&gate, 4, &[2]), unknown("cursor_semantics", 2, 4));
    let run = examples::run();
    let last = run.encode().len() - 1;
    assert_eq!(broken(&run, last, &[2]), unknown("collecting", 2, last));
}

#[test]
fn invalid_field_values_are_rejected() {
    let zero = (DecodeProblem::Zero { what: "fence" }, 10);
    assert_eq!(broken(&examples::binding(), 10, &[0; 8]), zero);
    let config = |error: RunConfigError| (invalid(error), 4);
    assert_eq!(broken(&examples::gate(), 5, &[0; 8]), config(RunConfigError::ZeroLeaseDuration));
    assert_eq!(broken(&examples::gate(), 14, &[0; 4]), config(RunConfigError::ZeroRetries));
    let inverted = ShardSpecInputError::InvertedRange { start_len: 1, end_len: 2 };
    assert_eq!(broken(&examples::definition(), 54, b"x"), (DecodeProblem::Spec(inverted), 50));
}

#[test]
fn cursors_have_one_encoding() {
    let parked = examples::parked().encode();
    let at = 2 + 1 + 9 + 8 + 1;
    let with_cursor = |cursor: &[u8]| {
        let value = [&parked[..at], cursor, &parked[at + 2..]].concat();
        ProgressRecord::decode(&value).map(drop).map_err(|error| {
            assert_eq!(error.offset, at);
            error.problem
        })
    };
    assert_eq!(with_cursor(&[0, 0]), Ok(()));
    assert_eq!(with_cursor(&[1, 1, 0, 0, 0, 7, 0]), Ok(()));
    assert_eq!(with_cursor(&[1, 1, 0, 0, 0, 7, 1, 0, 0, 0, 0]), Err(DecodeProblem::EmptyToken));
    let cursor = |error| Err(DecodeProblem::Cursor(error));
    assert_eq!(with_cursor(&[1, 0, 0, 0, 0, 0]), cursor(CursorInputError::EmptyLastKey));
    let keyless = [0, 1, 1, 0, 0, 0, 7];
    assert_eq!(with_cursor(&keyless), cursor(CursorInputError::TokenWithoutKey));
    let long = [&[1, 1, 16, 0, 0][..], &[7; 4_097], &[0]].concat();
    let too_large = CursorInputError::KeyTooLarge { size: 4_097, max: 4_096 };
    assert_eq!(with_cursor(&long), cursor(too_large));
}

#[test]
fn lists_are_bounded_before_they_are_read() {
    let too_many = |what, count, max, at| (DecodeProblem::TooMany { what, count, max }, at);
    let bytes = |count: usize| (count as u32).to_le_bytes();
    let most = MAX_INITIAL_SHARDS;
    let (manifest, root) = (examples::manifest(), "root shards");
    assert_eq!(broken(&manifest, 2, &bytes(most + 1)), too_many(root, most + 1, most, 2));
    assert_eq!(
        broken(&manifest, 2, &bytes(most)),
        (DecodeProblem::Truncated { needed: 8 * most, left: 16 }, 6)
    );
    let (definition, spawned) = (examples::definition(), "spawned shards");
    let (most, at) = (MAX_SPAWNED_PER_SHARD, definition.encode().len() - 20);
    assert_eq!(broken(&definition, at, &bytes(most + 1)), too_many(spawned, most + 1, most, at));
    let truncated = |needed, left, at| (DecodeProblem::Truncated { needed, left }, at + 4);
    assert_eq!(broken(&definition, at, &bytes(2)), truncated(32, 16, at));
    let (progress, remembered) = (examples::progress(), "remembered operations");
    let at = progress.encode().len() - 8 - 26 - 4;
    assert_eq!(broken(&progress, at, &bytes(17)), too_many(remembered, 17, 16, at));
    assert_eq!(broken(&progress, at, &bytes(16)), truncated(16 * 26, 26 + 8, at));
    let run = examples::run();
    let at = run.encode().len() - 1 - 26 - 4;
    assert_eq!(broken(&run, at, &bytes(9)), too_many(remembered, 9, 8, at));
}

#[test]
fn impossible_records_are_rejected() {
    let definition = examples::definition();
    assert!(rule(&DefinitionRecord { parent: None, ..definition.clone() }).contains("parent"));
    let mut spawned = definition.spawned.clone();
    spawned[0].shard = ShardId::SINGLE;
    assert!(rule(&DefinitionRecord { spawned, ..definition }).contains("derived"));

    let (progress, parked) = (examples::progress(), examples::parked());
    assert!(rule(&ProgressRecord { park: None, ..parked.clone() }).contains("park reason"));
    let detail = vec![0; 1_025].into();
    let park = Some(Park { reason: ParkReason::Other, detail });
    assert!(rule(&ProgressRecord { park, ..parked }).contains("detail"));
    let done = ProgressRecord { status: ShardStatus::Done, ..progress.clone() };
    assert!(rule(&done).contains("not leased"));
    let split = ProgressRecord { status: ShardStatus::Split, lease: None, ..progress.clone() };
    assert_eq!(ProgressRecord::decode(&split.encode()), Ok(split));
    let unfenced = ProgressRecord { fence: FenceEpoch::INITIAL, ..progress.clone() };
    assert!(rule(&unfenced).contains("fence"));
    let op_log = OpLog::from_entries([entry(1, OpKind::Park), entry(1, OpKind::Unpark)]);
    assert!(rule(&ProgressRecord { op_log, ..progress.clone() }).contains("twice"));
    assert!(
        rule(&ProgressRecord { acquires_without_progress: 4, ..progress })
            .contains("without progress")
    );

    let run = examples::run();
    assert!(rule(&RunHeadRecord { completed_at: None, ..run.clone() }).contains("end time"));
    assert!(
        rule(&RunHeadRecord { created_at: LogicalTime::MAX, ..run.clone() }).contains("before")
    );
    assert!(rule(&RunHeadRecord { paused: true, ..run }).contains("paused"));
    assert!(
        rule(&RunStateRecord { status: RunStatus::Failed, ..examples::gate() }).contains("paused")
    );
    let root_shards = vec![ShardId::from_raw(2), ShardId::from_raw(1)];
    assert!(rule(&ManifestRecord { root_shards }).contains("in order"));
    assert!(rule(&ManifestRecord { root_shards: vec![child(1)] }).contains("derived"));
    assert!(rule(&RunShardsRecord { used: 2, reserved: 1 }).contains("reserved"));
}

#[test]
fn inconsistent_records_are_not_joined() {
    let joined = join_shard(examples::definition(), examples::progress()).unwrap();
    joined.check_invariants().unwrap();
    let elsewhere = examples::largest_definition();
    assert!(join_shard(elsewhere, examples::progress()).unwrap_err().0.contains("cursor"));
    let split = ProgressRecord { status: ShardStatus::Split, lease: None, ..examples::progress() };
    join_shard(examples::definition(), split.clone()).unwrap();
    let childless = DefinitionRecord { spawned: Vec::new(), ..examples::definition() };
    assert!(join_shard(childless, split).unwrap_err().0.contains("children"));

    join_run(examples::run(), examples::manifest()).unwrap();
    assert!(join_run(examples::run(), ManifestRecord::default()).unwrap_err().0.contains("shards"));
}

#[test]
fn gate_has_the_state_of_its_run() {
    let record = join_run(examples::run(), examples::manifest()).unwrap();
    let gate = RunStateRecord::of(&record);
    assert_eq!(gate.for_run(record.run, FenceEpoch::MAX), record.state(FenceEpoch::MAX));
}

#[test]
fn errors_and_debug_output_show_no_user_bytes() {
    let secret = |text: String| {
        assert!(!text.contains("secret"), "{text}");
        assert!(!text.contains("115, 101"), "{text}");
        text
    };
    let mut value = examples::definition();
    value.spec =
        shardwright_contracts::ShardSpec::try_new(b"secret0", b"secret1", b"secret2").unwrap();
    secret(format!("{value:?}"));
    let mut bytes = value.encode().to_vec();
    bytes[60] = b'9';
    let error = DefinitionRecord::decode(&bytes).unwrap_err();
    assert_eq!(
        secret(format!("{error} {error:?}")).split(" Decode").next().unwrap(),
        "a stored shard definition cannot be read, at byte 50: the range is empty or inverted \
         (start of 7 bytes, end of 7 bytes)"
    );
    let park = Some(Park { reason: ParkReason::Other, detail: b"secret".as_slice().into() });
    let parked = ProgressRecord { park, ..examples::parked() };
    secret(format!("{parked:?}"));
    let stage = format!("{:?}", examples::stage());
    assert_eq!(stage, "StageRecord { op: OpId(0x9), .. }");
}

#[test]
fn decode_errors_describe_the_bytes() {
    let text = |bytes: &[u8]| FormatRecord::decode(bytes).unwrap_err().to_string();
    let begin = "a stored format cannot be read, at byte";
    let gone = "its bytes are gone, or are not those that were written";
    assert_eq!(text(&[]), format!("{begin} 0: {gone}"));
    assert_eq!(text(&[15]), format!("{begin} 1: 1 more bytes are needed and 0 are left"));
    assert_eq!(text(&[5]), format!("{begin} 0: its first byte is 5, which stands for run state"));
    assert_eq!(text(&[0]), format!("{begin} 0: its first byte is 0, which stands for nothing"));
    assert_eq!(text(&[15, 2]), format!("{begin} 1: its version is 2"));
}

#[test]
fn encoding_takes_one_allocation() {
    for (definition, progress) in [
        (examples::definition(), examples::progress()),
        (examples::largest_definition(), examples::largest_progress()),
    ] {
        let record = join_shard(definition, progress).unwrap();
        let counted = allocation_counter::measure(|| drop(ProgressRecord::encode_of(&record)));
        assert_eq!(counted.count_total, 1);
        let counted = allocation_counter::measure(|| drop(DefinitionRecord::encode_of(&record)));
        assert_eq!(counted.count_total, 1);
    }
    let (binding, ask): (BindingRecord, SplitRequestRecord) =
        (examples::binding(), examples::split_request());
    let counted = allocation_counter::measure(|| drop((binding.encode(), ask.encode())));
    assert_eq!(counted.count_total, 2);
}

#[test]
fn decoding_memory_is_bounded_by_the_value() {
    let examples = [examples::small(), examples::largest()].concat();
    record_tests::bound_decoding_memory(checks::record::as_kind, examples);
}
