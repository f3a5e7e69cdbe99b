//! What may happen and must be accepted.

use super::story::{END, ROOT, START, Story, checkpoint, complete, done, replayed, stale, unknown};
use crate::check::Seen;
use crate::final_state::FinalShard;
use crate::history::{Action, Facts, Outcome, Piece, Status};

#[test]
fn a_shard_that_one_worker_finishes() {
    let mut story = Story::of_one_shard(1);
    story.acquire(1, 2, None);
    story.advance(1, 2, 10, 100, 104);
    story.call(1, Action::Renew { shard: ROOT, fence: 2 }, done());
    story.end(1, 2, 105);
    story.is_clean();
}

#[test]
fn a_takeover_after_which_the_first_holder_is_refused() {
    let mut story = Story::of_one_shard(2);
    story.acquire(1, 2, None);
    story.advance(1, 2, 10, 100, 104);
    story.acquire(2, 3, Some(104));
    story.process(ROOT, 2, 105, 106);
    story.call(1, checkpoint(2, 11, 106), stale(3));
    story.end(2, 3, 105);
    story.is_clean();
}

#[test]
fn an_unknown_checkpoint_that_took_effect() {
    let mut story = Story::of_one_shard(2);
    story.acquire(1, 2, None);
    story.process(ROOT, 2, 100, 104);
    story.call(1, checkpoint(2, 10, 104), unknown());
    story.acquire(2, 3, Some(104));
    story.end(2, 3, 105);
    story.is_clean();
}

#[test]
fn an_unknown_checkpoint_that_took_effect_late_or_never() {
    let mut story = Story::of_one_shard(1);
    story.acquire(1, 2, None);
    story.process(ROOT, 2, 100, 104);
    story.begin(1, checkpoint(2, 10, 104));
    story.call(1, checkpoint(2, 11, 104), done());
    story.end(1, 2, 105);
    story.is_clean();
}

#[test]
fn a_retry_of_what_was_done_is_a_replay_even_after_a_takeover() {
    let mut story = Story::of_one_shard(2);
    story.acquire(1, 2, None);
    story.process(ROOT, 2, 100, 104);
    story.call(1, checkpoint(2, 10, 104), unknown());
    story.acquire(2, 3, Some(104));
    story.call(1, checkpoint(2, 10, 104), replayed());
    story.end(2, 3, 105);
    story.is_clean();
}

#[test]
fn a_call_that_was_done_and_overtaken_before_it_could_look() {
    let mut story = Story::of_one_shard(2);
    story.acquire(1, 2, None);
    story.process(ROOT, 2, 100, 104);
    let late = story.begin(1, checkpoint(2, 10, 104));
    story.acquire(2, 3, Some(104));
    story.answer(late, replayed());
    story.end(2, 3, 105);
    story.is_clean();
}

#[test]
fn a_shard_forgets_its_seventeenth_last_operation_and_not_its_sixteenth() {
    let with_retry_of = |op: u64| {
        let mut story = Story::of_one_shard(2);
        story.acquire(1, 2, None);
        story.advance(1, 2, 10, 100, 104);
        for later in 11..27 {
            story.call(1, checkpoint(2, later, 104), done());
        }
        story.acquire(2, 3, Some(104));
        story.call(1, checkpoint(2, op, 104), replayed());
        story.end(2, 3, 105);
        story
    };
    with_retry_of(11).is_clean();
    with_retry_of(10).is_violated("no possible order");
}

#[test]
fn calls_side_by_side_that_fit_in_one_order_only() {
    let mut story = Story::of_one_shard(2);
    let late = story.begin(1, Action::Acquire { shard: ROOT });
    story.acquire(2, 3, None);
    let acquired =
        crate::history::Acquired { shard: ROOT, fence: 2, start: START, end: END, cursor: None };
    story.answer(late, Outcome::Done(Facts { acquired: Some(acquired), ..Facts::default() }));
    story.end(2, 3, 100);
    story.is_clean();
}

#[test]
fn an_unknown_claim_explains_a_fence_that_no_answer_named() {
    let mut story = Story::of_one_shard(2);
    story.call(1, Action::Claim, unknown());
    story.acquire(2, 3, None);
    story.end(2, 3, 100);
    story.is_clean();
}

#[test]
fn many_unknown_claims_do_not_make_the_search_endless() {
    let mut story = Story::of_one_shard(22);
    for worker in 0..40 {
        story.call(worker, Action::Claim, unknown());
    }
    for fence in (3..45).step_by(2) {
        story.acquire(1_000 + fence, fence, None);
    }
    story.acquire(2, 45, None);
    story.root().acquires = 44;
    story.end(2, 45, 100);
    story.is_clean();
}

#[test]
fn a_park_and_an_unpark_raise_the_fence() {
    let mut story = Story::of_one_shard(2);
    story.acquire(1, 2, None);
    story.call(1, Action::Park { shard: ROOT, fence: 2, op: 20 }, done());
    story.call(2, Action::Unpark { shard: ROOT, op: 21 }, done());
    story.acquire(2, 4, None);
    story.end(2, 4, 100);
    story.is_clean();
}

/// The root keeps its first keys, and a child gets the rest from 106 on.
pub(super) fn with_residual(outcome: Outcome) -> Story {
    let mut story = Story::of_one_shard(1);
    let child = ROOT | 1 << 63;
    story.acquire(1, 2, None);
    let split =
        Action::SplitResidual { shard: ROOT, fence: 2, op: 30, start: START, at: 106, end: END };
    story.call(1, split, outcome);
    story.process(ROOT, 2, START, 105);
    story.call(1, complete(2, 31, 105), done());
    story.acquire_part(2, child, 2, (106, END), None);
    story.process(child, 2, 106, 109);
    story.call(2, Action::Complete { shard: child, fence: 2, op: 40, key: 109 }, done());
    story.call(2, Action::CompleteRun { op: 41 }, done());
    story.root().end = 106;
    story.root().cursor = Some(105);
    let seen = Seen { status: Status::Done, start: 106, end: END, cursor: Some(109), acquires: 1 };
    story.state.runs[0].shards.push(FinalShard { shard: child, parent: Some(ROOT), seen });
    story.state.runs[0].counts = [0, 2, 0, 0];
    story
}

#[test]
fn a_residual_split_whether_it_was_answered_or_not() {
    let children = vec![ROOT | 1 << 63];
    with_residual(Outcome::Done(Facts { children, ..Facts::default() })).is_clean();
    with_residual(unknown()).is_clean();
}

#[test]
fn children_that_go_on_where_their_parent_stopped() {
    let mut story = Story::of_one_shard(1);
    let (left, right) = (1 << 63 | 1, 1 << 63 | 2);
    story.acquire(1, 2, None);
    story.advance(1, 2, 10, START, 103);
    let children = vec![
        Piece { start: START, end: 105, cursor: Some(103) },
        Piece { start: 105, end: END, cursor: None },
    ];
    let split = Action::SplitReplace { shard: ROOT, fence: 2, op: 30, children };
    let facts = Facts { children: vec![left, right], ..Facts::default() };
    story.call(1, split, Outcome::Done(facts));
    *story.root() =
        Seen { status: Status::Split, start: START, end: END, cursor: Some(103), acquires: 1 };
    for (shard, range, cursor, last) in
        [(left, (START, 105), Some(103), 104), (right, (105, END), None, 109)]
    {
        story.acquire_part(3, shard, 2, range, cursor);
        story.process(shard, 2, cursor.map_or(range.0, |key| key + 1), last);
        story.call(3, Action::Complete { shard, fence: 2, op: shard, key: last }, done());
        let cursor = Some(last);
        let seen = Seen { status: Status::Done, start: range.0, end: range.1, cursor, acquires: 1 };
        story.state.runs[0].shards.push(FinalShard { shard, parent: Some(ROOT), seen });
    }
    story.call(3, Action::CompleteRun { op: 71 }, done());
    story.state.runs[0].counts = [0, 2, 1, 0];
    story.is_clean();
}
