//! Legal histories. The checker must accept them.

use super::builder::{
    END, HistoryBuilder, ROOT, START, checkpoint, complete, done, replayed, stale, unknown,
};
use crate::check::Seen;
use crate::final_state::FinalShard;
use crate::history::{Action, Facts, Outcome, Piece, Status};

#[test]
fn one_worker_may_complete_a_shard() {
    let mut builder = HistoryBuilder::of_one_shard(1);
    builder.acquire(1, 2, None);
    builder.advance(1, 2, 10, 100, 104);
    builder.call(1, Action::Renew { shard: ROOT, fence: 2 }, done());
    builder.end(1, 2, 105);
    builder.is_clean();
}

#[test]
fn first_holder_may_be_fenced_after_a_takeover() {
    let mut builder = HistoryBuilder::of_one_shard(2);
    builder.acquire(1, 2, None);
    builder.advance(1, 2, 10, 100, 104);
    builder.acquire(2, 3, Some(104));
    builder.process(ROOT, 2, 105, 106);
    builder.call(1, checkpoint(2, 11, 106), stale(3));
    builder.end(2, 3, 105);
    builder.is_clean();
}

#[test]
fn unknown_checkpoint_may_have_taken_effect() {
    let mut builder = HistoryBuilder::of_one_shard(2);
    builder.acquire(1, 2, None);
    builder.process(ROOT, 2, 100, 104);
    builder.call(1, checkpoint(2, 10, 104), unknown());
    builder.acquire(2, 3, Some(104));
    builder.end(2, 3, 105);
    builder.is_clean();
}

#[test]
fn unknown_checkpoint_may_take_effect_late_or_never() {
    let mut builder = HistoryBuilder::of_one_shard(1);
    builder.acquire(1, 2, None);
    builder.process(ROOT, 2, 100, 104);
    builder.begin(1, checkpoint(2, 10, 104));
    builder.call(1, checkpoint(2, 11, 104), done());
    builder.end(1, 2, 105);
    builder.is_clean();
}

#[test]
fn retry_may_be_replayed_after_a_takeover() {
    let mut builder = HistoryBuilder::of_one_shard(2);
    builder.acquire(1, 2, None);
    builder.process(ROOT, 2, 100, 104);
    builder.call(1, checkpoint(2, 10, 104), unknown());
    builder.acquire(2, 3, Some(104));
    builder.call(1, checkpoint(2, 10, 104), replayed());
    builder.end(2, 3, 105);
    builder.is_clean();
}

#[test]
fn overtaken_call_may_be_answered_as_a_replay() {
    let mut builder = HistoryBuilder::of_one_shard(2);
    builder.acquire(1, 2, None);
    builder.process(ROOT, 2, 100, 104);
    let late = builder.begin(1, checkpoint(2, 10, 104));
    builder.acquire(2, 3, Some(104));
    builder.answer(late, replayed());
    builder.end(2, 3, 105);
    builder.is_clean();
}

#[test]
fn op_log_keeps_sixteen_operations() {
    let with_retry_of = |op: u64| {
        let mut builder = HistoryBuilder::of_one_shard(2);
        builder.acquire(1, 2, None);
        builder.advance(1, 2, 10, 100, 104);
        for later in 11..27 {
            builder.call(1, checkpoint(2, later, 104), done());
        }
        builder.acquire(2, 3, Some(104));
        builder.call(1, checkpoint(2, op, 104), replayed());
        builder.end(2, 3, 105);
        builder
    };
    with_retry_of(11).is_clean();
    with_retry_of(10).is_violated("no linearization");
}

#[test]
fn concurrent_calls_are_reordered() {
    let mut builder = HistoryBuilder::of_one_shard(2);
    let late = builder.begin(1, Action::Acquire { shard: ROOT });
    builder.acquire(2, 3, None);
    let acquired =
        crate::history::Acquired { shard: ROOT, fence: 2, start: START, end: END, cursor: None };
    builder.answer(late, Outcome::Done(Facts { acquired: Some(acquired), ..Facts::default() }));
    builder.end(2, 3, 100);
    builder.is_clean();
}

#[test]
fn unknown_claim_explains_a_skipped_fence() {
    let mut builder = HistoryBuilder::of_one_shard(2);
    builder.call(1, Action::Claim, unknown());
    builder.acquire(2, 3, None);
    builder.end(2, 3, 100);
    builder.is_clean();
}

#[test]
fn many_unknown_claims_keep_the_search_bounded() {
    let mut builder = HistoryBuilder::of_one_shard(22);
    for worker in 0..40 {
        builder.call(worker, Action::Claim, unknown());
    }
    for fence in (3..45).step_by(2) {
        builder.acquire(1_000 + fence, fence, None);
    }
    builder.acquire(2, 45, None);
    builder.root().acquires = 44;
    builder.end(2, 45, 100);
    builder.is_clean();
}

#[test]
fn park_and_unpark_raise_the_fence() {
    let mut builder = HistoryBuilder::of_one_shard(2);
    builder.acquire(1, 2, None);
    builder.call(1, Action::Park { shard: ROOT, fence: 2, op: 20 }, done());
    builder.call(2, Action::Unpark { shard: ROOT, op: 21 }, done());
    builder.acquire(2, 4, None);
    builder.end(2, 4, 100);
    builder.is_clean();
}

/// The root keeps its first keys. A child gets the keys from 106.
pub(super) fn with_residual(outcome: Outcome) -> HistoryBuilder {
    let mut builder = HistoryBuilder::of_one_shard(1);
    let child = ROOT | 1 << 63;
    builder.acquire(1, 2, None);
    let split =
        Action::SplitResidual { shard: ROOT, fence: 2, op: 30, start: START, at: 106, end: END };
    builder.call(1, split, outcome);
    builder.process(ROOT, 2, START, 105);
    builder.call(1, complete(2, 31, 105), done());
    builder.acquire_part(2, child, 2, (106, END), None);
    builder.process(child, 2, 106, 109);
    builder.call(2, Action::Complete { shard: child, fence: 2, op: 40, key: 109 }, done());
    builder.call(2, Action::CompleteRun { op: 41 }, done());
    builder.root().end = 106;
    builder.root().cursor = Some(105);
    let seen = Seen { status: Status::Done, start: 106, end: END, cursor: Some(109), acquires: 1 };
    builder.state.runs[0].shards.push(FinalShard { shard: child, parent: Some(ROOT), seen });
    builder.state.runs[0].counts = [0, 2, 0, 0];
    builder
}

#[test]
fn residual_split_is_legal_with_or_without_an_answer() {
    let children = vec![ROOT | 1 << 63];
    with_residual(Outcome::Done(Facts { children, ..Facts::default() })).is_clean();
    with_residual(unknown()).is_clean();
}

#[test]
fn children_may_continue_at_the_parent_cursor() {
    let mut builder = HistoryBuilder::of_one_shard(1);
    let (left, right) = (1 << 63 | 1, 1 << 63 | 2);
    builder.acquire(1, 2, None);
    builder.advance(1, 2, 10, START, 103);
    let children = vec![
        Piece { start: START, end: 105, cursor: Some(103) },
        Piece { start: 105, end: END, cursor: None },
    ];
    let split = Action::SplitReplace { shard: ROOT, fence: 2, op: 30, children };
    let facts = Facts { children: vec![left, right], ..Facts::default() };
    builder.call(1, split, Outcome::Done(facts));
    *builder.root() =
        Seen { status: Status::Split, start: START, end: END, cursor: Some(103), acquires: 1 };
    for (shard, range, cursor, last) in
        [(left, (START, 105), Some(103), 104), (right, (105, END), None, 109)]
    {
        builder.acquire_part(3, shard, 2, range, cursor);
        builder.process(shard, 2, cursor.map_or(range.0, |key| key + 1), last);
        builder.call(3, Action::Complete { shard, fence: 2, op: shard, key: last }, done());
        let cursor = Some(last);
        let seen = Seen { status: Status::Done, start: range.0, end: range.1, cursor, acquires: 1 };
        builder.state.runs[0].shards.push(FinalShard { shard, parent: Some(ROOT), seen });
    }
    builder.call(3, Action::CompleteRun { op: 71 }, done());
    builder.state.runs[0].counts = [0, 2, 1, 0];
    builder.is_clean();
}
