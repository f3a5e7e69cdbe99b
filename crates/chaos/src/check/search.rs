//! The search for a linearization.
//!
//! Each operation takes effect at one point between its call and its answer. A history is
//! linearizable if there is an order of these points in which the model allows every operation with
//! its answer. An operation with an unknown outcome takes effect at any time after its call, or
//! never.
//!
//! The search is depth-first and never visits the same set of operations with the same shard twice.
//! Legal operations that change nothing are inserted at once, because that excludes no order.

use std::collections::HashSet;

use super::model::{Event, Shard};

/// An operation on one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Operation {
    /// Time of the call.
    pub called: u64,
    /// Time of the answer. Without an answer it may never have done effect.
    pub answered: Option<u64>,
    /// The change or observation.
    pub event: Event,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A linearization, as an order of indices.
    Linearizable(Vec<usize>),
    /// There is no linearization. This is the longest legal prefix.
    Impossible(Vec<usize>),
    /// The search reached its limit.
    TooLong,
}

/// Most states that a search visits.
const VISITS_MAX: usize = 2_000_000;

/// Searches for a linearization of `operations`, starting with `shard`.
#[must_use]
pub(super) fn search(shard: Shard, operations: &[Operation]) -> Verdict {
    let mut search = Search { operations, seen: HashSet::new(), best: Vec::new() };
    let mut stack = vec![search.frame(shard, OperationSet::none(operations.len()), Vec::new())];
    while let Some(frame) = stack.last_mut() {
        if search.is_complete(&frame.done) {
            return Verdict::Linearizable(frame.order.clone());
        }
        if search.seen.len() > VISITS_MAX {
            return Verdict::TooLong;
        }
        let Some((index, shard)) = frame.choices.pop() else {
            stack.pop();
            continue;
        };
        let (mut done, mut order) = (frame.done.clone(), frame.order.clone());
        done.insert(index);
        order.push(index);
        if let Some(next) = search.visit(shard, done, order) {
            stack.push(next);
        }
    }
    Verdict::Impossible(search.best)
}

struct Search<'h> {
    operations: &'h [Operation],
    seen: HashSet<(OperationSet, Shard)>,
    best: Vec<usize>,
}

struct Frame {
    done: OperationSet,
    order: Vec<usize>,
    /// Possible next operations with the resulting shard. The last is tried first.
    choices: Vec<(usize, Shard)>,
}

impl Search<'_> {
    /// The frame after an operation, unless it was visited before.
    fn visit(&mut self, shard: Shard, done: OperationSet, order: Vec<usize>) -> Option<Frame> {
        let before = self.seen.len();
        let frame = self.frame(shard, done, order);
        (self.seen.len() > before).then_some(frame)
    }

    fn frame(&mut self, shard: Shard, mut done: OperationSet, mut order: Vec<usize>) -> Frame {
        while self.insert_idle(&shard, &mut done, &mut order) {}
        if order.len() > self.best.len() {
            self.best.clone_from(&order);
        }
        self.seen.insert((done.clone(), shard.clone()));
        let mut choices: Vec<(usize, Shard)> = Vec::new();
        for index in self.candidates(&done) {
            let Some(operation) = self.operations.get(index) else { continue };
            let is_twin = |(other, _): &(usize, Shard)| {
                let other = self.operations.get(*other);
                operation.answered.is_none()
                    && other.is_some_and(|other| {
                        other.answered.is_none() && other.event == operation.event
                    })
            };
            if let Some(after) = shard.after(&operation.event)
                && after != shard
                && !choices.iter().any(is_twin)
            {
                choices.push((index, after));
            }
        }
        // Try operations in the order of their answers, and unanswered ones last.
        let answered = |index: &usize| self.operations.get(*index).and_then(|o| o.answered);
        choices.sort_by_key(|(index, _)| {
            std::cmp::Reverse((answered(index).is_none(), answered(index), *index))
        });
        Frame { done, order, choices }
    }

    /// Inserts all legal operations that change nothing. Returns whether there was one.
    fn insert_idle(&self, shard: &Shard, done: &mut OperationSet, order: &mut Vec<usize>) -> bool {
        let mut any = false;
        for index in self.candidates(done) {
            let Some(operation) = self.operations.get(index) else { continue };
            let is_idle = || shard.after(&operation.event).is_some_and(|after| after == *shard);
            if operation.answered.is_some() && is_idle() {
                done.insert(index);
                order.push(index);
                any = true;
            }
        }
        any
    }

    /// Possible next operations: those called before the first outstanding answer.
    fn candidates(&self, done: &OperationSet) -> Vec<usize> {
        let left = || self.operations.iter().enumerate().filter(|(at, _)| !done.contains(*at));
        let next_answer = left().filter_map(|(_, operation)| operation.answered).min();
        left()
            .filter(|(_, operation)| {
                next_answer.is_none_or(|next_answer| operation.called <= next_answer)
            })
            .map(|(index, _)| index)
            .collect()
    }

    fn is_complete(&self, done: &OperationSet) -> bool {
        let mut left = self.operations.iter().enumerate().filter(|(at, _)| !done.contains(*at));
        left.all(|(_, operation)| operation.answered.is_none())
    }
}

/// A set of indices.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct OperationSet(Vec<u64>);

impl OperationSet {
    fn none(count: usize) -> Self {
        Self(vec![0; count.div_ceil(64)])
    }

    fn contains(&self, index: usize) -> bool {
        self.0.get(index / 64).is_some_and(|word| word & (1 << (index % 64)) != 0)
    }

    fn insert(&mut self, index: usize) {
        if let Some(word) = self.0.get_mut(index / 64) {
            *word |= 1 << (index % 64);
        }
    }
}
