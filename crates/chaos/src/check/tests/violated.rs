//! Illegal histories, one per violation. The checker must detect each.

use super::builder::{
    HistoryBuilder, ROOT, START, checkpoint, complete, done, replayed, stale, unknown,
};
use super::clean::with_residual;
use crate::history::{Action, Outcome, Refusal};

#[test]
fn two_writers_with_one_fence_are_detected() {
    let mut builder = HistoryBuilder::of_one_shard(1);
    builder.acquire(1, 2, None);
    builder.advance(1, 2, 10, 100, 104);
    builder.advance(2, 2, 11, 105, 106);
    builder.end(1, 2, 107);
    builder.is_violated("workers 1 and 2 both wrote with fence 2");
    builder.is_violated("no linearization");
}

#[test]
fn write_after_a_takeover_is_detected() {
    let mut builder = HistoryBuilder::of_one_shard(2);
    builder.acquire(1, 2, None);
    builder.acquire(2, 3, None);
    builder.advance(1, 2, 10, 100, 104);
    builder.end(2, 3, 100);
    builder.is_violated("no linearization");
}

#[test]
fn fence_granted_twice_is_detected() {
    let mut builder = HistoryBuilder::of_one_shard(2);
    builder.acquire(1, 2, None);
    builder.acquire(2, 2, None);
    builder.end(2, 2, 100);
    builder.is_violated("fence 2 was granted twice");
}

#[test]
fn falling_fence_is_detected() {
    let mut builder = HistoryBuilder::of_one_shard(2);
    builder.acquire(1, 3, None);
    builder.acquire(2, 2, None);
    builder.end(2, 2, 100);
    builder.is_violated("was granted after");
}

#[test]
fn fence_raised_without_a_request_is_detected() {
    let mut builder = HistoryBuilder::of_one_shard(1);
    builder.acquire(1, 3, None);
    builder.end(1, 3, 100);
    builder.is_violated("no linearization");
}

#[test]
fn outdated_cursor_in_a_grant_is_detected() {
    let mut builder = HistoryBuilder::of_one_shard(2);
    builder.acquire(1, 2, None);
    builder.advance(1, 2, 10, 100, 104);
    builder.acquire(2, 3, None);
    builder.end(2, 3, 100);
    builder.is_violated("the cursor was at None after Some(104)");
    builder.is_violated("no linearization");
}

#[test]
fn cursor_moving_back_is_detected() {
    let mut builder = HistoryBuilder::of_one_shard(1);
    builder.acquire(1, 2, None);
    builder.advance(1, 2, 10, 100, 104);
    builder.call(1, checkpoint(2, 11, 102), done());
    builder.end(1, 2, 105);
    builder.is_violated("no linearization");
}

#[test]
fn lost_checkpoint_is_detected() {
    let mut builder = HistoryBuilder::of_one_shard(1);
    builder.acquire(1, 2, None);
    builder.advance(1, 2, 10, 100, 104);
    builder.call(1, Action::Release { shard: ROOT, fence: 2, op: 11 }, done());
    builder.root().status = crate::history::Status::Active;
    builder.root().cursor = None;
    builder.is_violated("no linearization");
}

#[test]
fn second_effect_of_an_operation_is_detected() {
    let mut builder = HistoryBuilder::of_one_shard(1);
    builder.acquire(1, 2, None);
    builder.advance(1, 2, 10, 100, 104);
    builder.call(1, checkpoint(2, 10, 104), done());
    builder.end(1, 2, 105);
    builder.is_violated("operation a of run 1 had 2 effects");
    builder.is_violated("no linearization");
}

#[test]
fn replay_of_an_operation_never_done_is_detected() {
    let mut builder = HistoryBuilder::of_one_shard(2);
    builder.acquire(1, 2, None);
    builder.acquire(2, 3, None);
    builder.process(ROOT, 2, 100, 104);
    builder.call(1, checkpoint(2, 10, 104), replayed());
    builder.end(2, 3, 100);
    builder.is_violated("no linearization");
}

#[test]
fn effect_of_a_refused_operation_is_detected() {
    let mut builder = HistoryBuilder::of_one_shard(2);
    builder.acquire(1, 2, None);
    builder.process(ROOT, 2, 100, 104);
    builder.call(1, checkpoint(2, 10, 104), Outcome::Refused(Refusal::LeaseExpired));
    builder.acquire(2, 3, Some(104));
    builder.end(2, 3, 105);
    builder.is_violated("no linearization");
}

#[test]
fn effect_of_an_operation_not_applied_is_detected() {
    let mut builder = HistoryBuilder::of_one_shard(2);
    builder.acquire(1, 2, None);
    builder.process(ROOT, 2, 100, 104);
    builder.call(1, checkpoint(2, 10, 104), Outcome::NotApplied("no".to_owned()));
    builder.acquire(2, 3, Some(104));
    builder.end(2, 3, 105);
    builder.is_violated("no linearization");
}

#[test]
fn refused_retry_of_a_done_operation_is_detected() {
    let mut builder = HistoryBuilder::of_one_shard(2);
    builder.acquire(1, 2, None);
    builder.advance(1, 2, 10, 100, 104);
    builder.acquire(2, 3, Some(104));
    builder.call(1, checkpoint(2, 10, 104), stale(3));
    builder.end(2, 3, 105);
    builder.is_violated("no linearization");
}

#[test]
fn untrue_refusal_is_detected() {
    let mut builder = HistoryBuilder::of_one_shard(1);
    builder.acquire(1, 2, None);
    builder.call(2, checkpoint(1, 10, 104), stale(9));
    builder.end(1, 2, 100);
    builder.is_violated("no linearization");
}

#[test]
fn false_op_id_conflict_is_detected() {
    let mut builder = HistoryBuilder::of_one_shard(1);
    builder.acquire(1, 2, None);
    builder.call(1, checkpoint(2, 10, 104), Outcome::Refused(Refusal::OpIdConflict));
    builder.end(1, 2, 100);
    builder.is_violated("no linearization");
}

#[test]
fn corrupt_record_is_detected() {
    let mut builder = HistoryBuilder::of_one_shard(1);
    builder.acquire(1, 2, None);
    builder.call(1, checkpoint(2, 10, 104), Outcome::Corrupt("bytes".to_owned()));
    builder.end(1, 2, 100);
    builder.is_violated("no linearization");
}

#[test]
fn change_after_completion_is_detected() {
    let mut builder = HistoryBuilder::of_one_shard(2);
    builder.acquire(1, 2, None);
    builder.process(ROOT, 2, 100, 109);
    builder.call(1, complete(2, 10, 109), done());
    builder.acquire(2, 3, Some(109));
    builder.call(2, Action::CompleteRun { op: 71 }, done());
    builder.is_violated("was executed after");
    builder.is_violated("no linearization");
}

#[test]
fn change_after_the_end_of_the_run_is_detected() {
    let mut builder = HistoryBuilder::of_one_shard(1);
    builder.acquire(1, 2, None);
    builder.process(ROOT, 2, 100, 109);
    builder.call(1, Action::CompleteRun { op: 71 }, done());
    builder.call(1, complete(2, 10, 109), done());
    builder.is_violated("no linearization");
}

#[test]
fn unprocessed_key_is_detected() {
    let mut builder = HistoryBuilder::of_one_shard(1);
    builder.acquire(1, 2, None);
    builder.process(ROOT, 2, 100, 102);
    builder.call(1, checkpoint(2, 10, 104), done());
    builder.end(1, 2, 105);
    builder.is_violated("skipped key 103");
    builder.is_violated("2 keys were never processed, the first is 103");
}

#[test]
fn key_processed_too_late_is_detected() {
    let mut builder = HistoryBuilder::of_one_shard(1);
    builder.acquire(1, 2, None);
    builder.call(1, checkpoint(2, 10, 104), done());
    builder.process(ROOT, 2, 100, 104);
    builder.end(1, 2, 105);
    builder.is_violated("skipped key 100");
}

#[test]
fn key_processed_under_a_stale_fence_is_detected() {
    let mut builder = HistoryBuilder::of_one_shard(2);
    builder.acquire(1, 2, None);
    builder.acquire(2, 3, None);
    builder.process(ROOT, 2, 100, 104);
    builder.call(2, checkpoint(3, 10, 104), done());
    builder.end(2, 3, 105);
    builder.is_violated("skipped key 100");
}

#[test]
fn shard_done_before_its_end_is_detected() {
    let mut builder = HistoryBuilder::of_one_shard(1);
    builder.acquire(1, 2, None);
    builder.process(ROOT, 2, 100, 107);
    builder.call(1, complete(2, 10, 107), done());
    builder.call(1, Action::CompleteRun { op: 71 }, done());
    builder.root().cursor = Some(107);
    builder.is_violated("is done with cursor Some(107)");
    builder.is_violated("2 keys were never processed");
}

#[test]
fn gap_between_leaves_is_detected() {
    let mut builder = with_residual(unknown());
    builder.state.runs[0].shards[1].seen.start = 107;
    builder.is_violated("leaves end at 106, the next starts at 107");
}

#[test]
fn overlapping_leaves_are_detected() {
    let mut builder = with_residual(unknown());
    builder.root().end = 107;
    builder.is_violated("leaves end at 107, the next starts at 106");
}

#[test]
fn missing_last_leaf_is_detected() {
    let mut builder = with_residual(unknown());
    builder.state.runs[0].shards.pop();
    builder.is_violated("leaves end at 106, the manifest at 110");
    builder.is_violated("is missing");
}

#[test]
fn shard_without_a_split_is_detected() {
    let refused = Outcome::Refused(Refusal::SplitInvalid);
    with_residual(refused).is_violated("was created by no split");
}

#[test]
fn effect_of_a_refused_split_is_detected() {
    let not_applied = Outcome::NotApplied("no".to_owned());
    with_residual(not_applied).is_violated("no linearization");
}

#[test]
fn wrong_shard_count_is_detected() {
    let mut builder = HistoryBuilder::of_one_shard(1);
    builder.acquire(1, 2, None);
    builder.end(1, 2, START);
    builder.state.runs[0].counts = [0, 2, 0, 0];
    builder.is_violated("stored counts [0, 2, 0, 0], actual counts [0, 1, 0, 0]");
}

#[test]
fn wrong_watermark_is_detected() {
    let mut builder = HistoryBuilder::of_one_shard(1);
    builder.acquire(1, 2, None);
    builder.end(1, 2, START);
    builder.state.runs[0].watermark = Some(105);
    builder.is_violated("the watermark is Some(105), not 110");
}

#[test]
fn uncounted_acquire_is_detected() {
    let mut builder = HistoryBuilder::of_one_shard(7);
    builder.acquire(1, 2, None);
    builder.end(1, 2, START);
    builder.is_violated("no linearization");
}

#[test]
fn unfinished_run_is_detected() {
    let mut builder = HistoryBuilder::of_one_shard(1);
    builder.acquire(1, 2, None);
    builder.process(ROOT, 2, START, 109);
    builder.call(1, complete(2, 70, 109), done());
    builder.state.runs[0].is_done = false;
    builder.is_violated("the run has not ended");
}

#[test]
fn missing_run_is_detected() {
    let mut builder = HistoryBuilder::of_one_shard(1);
    builder.state.runs.clear();
    builder.is_violated("run 1 has calls but does not exist");
}

#[test]
fn inconsistent_records_are_detected() {
    let mut builder = HistoryBuilder::of_one_shard(1);
    builder.acquire(1, 2, None);
    builder.end(1, 2, START);
    builder.state.complaints.push("3 reserved shards in total, stored 4".to_owned());
    builder.is_violated("reserved shards in total");
}

#[test]
fn stale_refusal_is_counted_separately() {
    let mut builder = HistoryBuilder::of_one_shard(2);
    builder.acquire(1, 2, None);
    builder.call(1, Action::Release { shard: ROOT, fence: 2, op: 10 }, done());
    // The shard has no holder now.
    let held = Outcome::Refused(Refusal::AlreadyLeased { owner: 1 });
    builder.call(2, Action::Acquire { shard: ROOT }, held);
    builder.acquire(2, 3, None);
    builder.end(2, 3, START);
    let findings = builder.findings();
    assert_eq!((findings.violations.len(), findings.stale_refusals), (1, 1));
    assert!(findings.violations[0].contains("stale refusals"), "{findings:?}");
}
