//! What must not happen, once each, and must be noticed.

use super::clean::with_residual;
use super::story::{ROOT, START, Story, checkpoint, complete, done, replayed, stale, unknown};
use crate::history::{Action, Outcome, Refusal};

#[test]
fn two_workers_write_with_one_fence() {
    let mut story = Story::of_one_shard(1);
    story.acquire(1, 2, None);
    story.advance(1, 2, 10, 100, 104);
    story.advance(2, 2, 11, 105, 106);
    story.end(1, 2, 107);
    story.is_violated("workers 1 and 2 both wrote with fence 2");
    story.is_violated("no possible order");
}

#[test]
fn a_writer_goes_on_after_a_takeover() {
    let mut story = Story::of_one_shard(2);
    story.acquire(1, 2, None);
    story.acquire(2, 3, None);
    story.advance(1, 2, 10, 100, 104);
    story.end(2, 3, 100);
    story.is_violated("no possible order");
}

#[test]
fn one_fence_is_granted_twice() {
    let mut story = Story::of_one_shard(2);
    story.acquire(1, 2, None);
    story.acquire(2, 2, None);
    story.end(2, 2, 100);
    story.is_violated("fence 2 was granted twice");
}

#[test]
fn a_fence_falls() {
    let mut story = Story::of_one_shard(2);
    story.acquire(1, 3, None);
    story.acquire(2, 2, None);
    story.end(2, 2, 100);
    story.is_violated("was granted after");
}

#[test]
fn a_fence_rises_without_anybody_having_asked() {
    let mut story = Story::of_one_shard(1);
    story.acquire(1, 3, None);
    story.end(1, 3, 100);
    story.is_violated("no possible order");
}

#[test]
fn a_new_holder_is_told_a_cursor_that_was_passed_long_ago() {
    let mut story = Story::of_one_shard(2);
    story.acquire(1, 2, None);
    story.advance(1, 2, 10, 100, 104);
    story.acquire(2, 3, None);
    story.end(2, 3, 100);
    story.is_violated("the cursor was at None after Some(104)");
    story.is_violated("no possible order");
}

#[test]
fn a_cursor_moves_back() {
    let mut story = Story::of_one_shard(1);
    story.acquire(1, 2, None);
    story.advance(1, 2, 10, 100, 104);
    story.call(1, checkpoint(2, 11, 102), done());
    story.end(1, 2, 105);
    story.is_violated("no possible order");
}

#[test]
fn an_acknowledged_checkpoint_is_lost() {
    let mut story = Story::of_one_shard(1);
    story.acquire(1, 2, None);
    story.advance(1, 2, 10, 100, 104);
    story.call(1, Action::Release { shard: ROOT, fence: 2, op: 11 }, done());
    story.root().status = crate::history::Status::Active;
    story.root().cursor = None;
    story.is_violated("no possible order");
}

#[test]
fn one_operation_has_two_effects() {
    let mut story = Story::of_one_shard(1);
    story.acquire(1, 2, None);
    story.advance(1, 2, 10, 100, 104);
    story.call(1, checkpoint(2, 10, 104), done());
    story.end(1, 2, 105);
    story.is_violated("operation a of run 1 had 2 effects");
    story.is_violated("no possible order");
}

#[test]
fn a_replay_is_told_of_what_cannot_have_been_done() {
    let mut story = Story::of_one_shard(2);
    story.acquire(1, 2, None);
    story.acquire(2, 3, None);
    story.process(ROOT, 2, 100, 104);
    story.call(1, checkpoint(2, 10, 104), replayed());
    story.end(2, 3, 100);
    story.is_violated("no possible order");
}

#[test]
fn a_refused_operation_has_an_effect() {
    let mut story = Story::of_one_shard(2);
    story.acquire(1, 2, None);
    story.process(ROOT, 2, 100, 104);
    story.call(1, checkpoint(2, 10, 104), Outcome::Refused(Refusal::LeaseExpired));
    story.acquire(2, 3, Some(104));
    story.end(2, 3, 105);
    story.is_violated("no possible order");
}

#[test]
fn an_operation_that_was_not_applied_has_an_effect() {
    let mut story = Story::of_one_shard(2);
    story.acquire(1, 2, None);
    story.process(ROOT, 2, 100, 104);
    story.call(1, checkpoint(2, 10, 104), Outcome::NotApplied("no".to_owned()));
    story.acquire(2, 3, Some(104));
    story.end(2, 3, 105);
    story.is_violated("no possible order");
}

#[test]
fn what_was_done_is_refused_when_it_is_asked_again() {
    let mut story = Story::of_one_shard(2);
    story.acquire(1, 2, None);
    story.advance(1, 2, 10, 100, 104);
    story.acquire(2, 3, Some(104));
    story.call(1, checkpoint(2, 10, 104), stale(3));
    story.end(2, 3, 105);
    story.is_violated("no possible order");
}

#[test]
fn a_refusal_tells_what_was_never_true() {
    let mut story = Story::of_one_shard(1);
    story.acquire(1, 2, None);
    story.call(2, checkpoint(1, 10, 104), stale(9));
    story.end(1, 2, 100);
    story.is_violated("no possible order");
}

#[test]
fn an_id_is_said_to_be_used_for_something_else() {
    let mut story = Story::of_one_shard(1);
    story.acquire(1, 2, None);
    story.call(1, checkpoint(2, 10, 104), Outcome::Refused(Refusal::OpIdConflict));
    story.end(1, 2, 100);
    story.is_violated("no possible order");
}

#[test]
fn what_is_stored_cannot_be_read() {
    let mut story = Story::of_one_shard(1);
    story.acquire(1, 2, None);
    story.call(1, checkpoint(2, 10, 104), Outcome::Corrupt("bytes".to_owned()));
    story.end(1, 2, 100);
    story.is_violated("no possible order");
}

#[test]
fn a_shard_is_changed_after_its_completion() {
    let mut story = Story::of_one_shard(2);
    story.acquire(1, 2, None);
    story.process(ROOT, 2, 100, 109);
    story.call(1, complete(2, 10, 109), done());
    story.acquire(2, 3, Some(109));
    story.call(2, Action::CompleteRun { op: 71 }, done());
    story.is_violated("was done after");
    story.is_violated("no possible order");
}

#[test]
fn a_shard_is_changed_after_its_run_has_ended() {
    let mut story = Story::of_one_shard(1);
    story.acquire(1, 2, None);
    story.process(ROOT, 2, 100, 109);
    story.call(1, Action::CompleteRun { op: 71 }, done());
    story.call(1, complete(2, 10, 109), done());
    story.is_violated("no possible order");
}

#[test]
fn a_key_is_passed_over_that_nobody_processed() {
    let mut story = Story::of_one_shard(1);
    story.acquire(1, 2, None);
    story.process(ROOT, 2, 100, 102);
    story.call(1, checkpoint(2, 10, 104), done());
    story.end(1, 2, 105);
    story.is_violated("skipped key 103");
    story.is_violated("2 keys were never processed, 103 among them");
}

#[test]
fn a_key_is_processed_only_after_it_was_passed_over() {
    let mut story = Story::of_one_shard(1);
    story.acquire(1, 2, None);
    story.call(1, checkpoint(2, 10, 104), done());
    story.process(ROOT, 2, 100, 104);
    story.end(1, 2, 105);
    story.is_violated("skipped key 100");
}

#[test]
fn a_key_is_processed_under_a_fence_that_was_refused() {
    let mut story = Story::of_one_shard(2);
    story.acquire(1, 2, None);
    story.acquire(2, 3, None);
    story.process(ROOT, 2, 100, 104);
    story.call(2, checkpoint(3, 10, 104), done());
    story.end(2, 3, 105);
    story.is_violated("skipped key 100");
}

#[test]
fn a_shard_is_done_before_its_end() {
    let mut story = Story::of_one_shard(1);
    story.acquire(1, 2, None);
    story.process(ROOT, 2, 100, 107);
    story.call(1, complete(2, 10, 107), done());
    story.call(1, Action::CompleteRun { op: 71 }, done());
    story.root().cursor = Some(107);
    story.is_violated("is done and stands at Some(107)");
    story.is_violated("2 keys were never processed");
}

#[test]
fn leaves_leave_something_out() {
    let mut story = with_residual(unknown());
    story.state.runs[0].shards[1].seen.start = 107;
    story.is_violated("leaves end at 106 and go on at 107");
}

#[test]
fn leaves_overlap() {
    let mut story = with_residual(unknown());
    story.root().end = 107;
    story.is_violated("leaves end at 107 and go on at 106");
}

#[test]
fn the_last_leaf_is_missing() {
    let mut story = with_residual(unknown());
    story.state.runs[0].shards.pop();
    story.is_violated("leaves end at 106, the manifest at 110");
    story.is_violated("has lost shard");
}

#[test]
fn a_shard_appears_that_no_split_made() {
    let refused = Outcome::Refused(Refusal::SplitInvalid);
    with_residual(refused).is_violated("was made by no split");
}

#[test]
fn a_refused_split_narrows_its_shard() {
    let not_applied = Outcome::NotApplied("no".to_owned());
    with_residual(not_applied).is_violated("no possible order");
}

#[test]
fn a_run_miscounts_its_shards() {
    let mut story = Story::of_one_shard(1);
    story.acquire(1, 2, None);
    story.end(1, 2, START);
    story.state.runs[0].counts = [0, 2, 0, 0];
    story.is_violated("it counts [0, 2, 0, 0], and there are [0, 1, 0, 0]");
}

#[test]
fn a_watermark_is_wrong() {
    let mut story = Story::of_one_shard(1);
    story.acquire(1, 2, None);
    story.end(1, 2, START);
    story.state.runs[0].watermark = Some(105);
    story.is_violated("its watermark is Some(105), not 110");
}

#[test]
fn an_acquire_is_not_counted() {
    let mut story = Story::of_one_shard(7);
    story.acquire(1, 2, None);
    story.end(1, 2, START);
    story.is_violated("no possible order");
}

#[test]
fn a_run_does_not_end() {
    let mut story = Story::of_one_shard(1);
    story.acquire(1, 2, None);
    story.process(ROOT, 2, START, 109);
    story.call(1, complete(2, 70, 109), done());
    story.state.runs[0].is_done = false;
    story.is_violated("it has not ended");
}

#[test]
fn a_run_is_gone() {
    let mut story = Story::of_one_shard(1);
    story.state.runs.clear();
    story.is_violated("run 1 was worked on and does not exist");
}

#[test]
fn stored_records_do_not_go_together() {
    let mut story = Story::of_one_shard(1);
    story.acquire(1, 2, None);
    story.end(1, 2, START);
    story.state.complaints.push("3 shards are reserved in all, not 4".to_owned());
    story.is_violated("reserved in all");
}

#[test]
fn a_refusal_that_was_right_a_moment_ago_is_told_from_one_that_never_was() {
    let mut story = Story::of_one_shard(2);
    story.acquire(1, 2, None);
    story.call(1, Action::Release { shard: ROOT, fence: 2, op: 10 }, done());
    // It has no holder any more.
    let held = Outcome::Refused(Refusal::AlreadyLeased { owner: 1 });
    story.call(2, Action::Acquire { shard: ROOT }, held);
    story.acquire(2, 3, None);
    story.end(2, 3, START);
    let findings = story.findings();
    assert_eq!((findings.violations.len(), findings.stale_refusals), (1, 1));
    assert!(findings.violations[0].contains("stale refusals"), "{findings:?}");
}
