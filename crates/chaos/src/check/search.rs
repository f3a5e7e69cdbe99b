//! Whether there is an order in which everything can have happened.
//!
//! Each operation took effect at one moment between its call and its answer. If there is an order
//! of such moments in which the model allows every operation with the answer it got, the history
//! is linearizable. Operations whose outcome is unknown took effect at any time after their call,
//! or never.
//!
//! The search goes deep first and never visits the same set of operations with the same shard
//! twice. What changes nothing and is allowed now is put in at once: that rules nothing out.

use std::collections::HashSet;

use super::model::{Event, Shard};

/// An operation on one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Operation {
    /// When it was called.
    pub called: u64,
    /// When it was answered; without that it may never have happened.
    pub answered: Option<u64>,
    /// What it was.
    pub event: Event,
}

/// What a search came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Everything can have happened, in this order of indices.
    Linearizable(Vec<usize>),
    /// There is no order. This is as far as the best went.
    Impossible(Vec<usize>),
    /// There were too many orders to try.
    TooLong,
}

/// How many states are visited before a search gives up.
const VISITS_MAX: usize = 2_000_000;

/// Looks for an order of `operations`, beginning with `shard`.
#[must_use]
pub(super) fn search(shard: Shard, operations: &[Operation]) -> Verdict {
    let mut search = Search { operations, seen: HashSet::new(), best: Vec::new() };
    let mut stack = vec![search.frame(shard, Taken::none(operations.len()), Vec::new())];
    while let Some(frame) = stack.last_mut() {
        if search.is_complete(&frame.taken) {
            return Verdict::Linearizable(frame.order.clone());
        }
        if search.seen.len() > VISITS_MAX {
            return Verdict::TooLong;
        }
        let Some((index, shard)) = frame.choices.pop() else {
            stack.pop();
            continue;
        };
        let (mut taken, mut order) = (frame.taken.clone(), frame.order.clone());
        taken.insert(index);
        order.push(index);
        if let Some(next) = search.visit(shard, taken, order) {
            stack.push(next);
        }
    }
    Verdict::Impossible(search.best)
}

struct Search<'h> {
    operations: &'h [Operation],
    seen: HashSet<(Taken, Shard)>,
    best: Vec<usize>,
}

struct Frame {
    taken: Taken,
    order: Vec<usize>,
    /// What may come next and what the shard is then; the last is tried first.
    choices: Vec<(usize, Shard)>,
}

impl Search<'_> {
    /// The frame after an operation, unless it was seen before.
    fn visit(&mut self, shard: Shard, taken: Taken, order: Vec<usize>) -> Option<Frame> {
        let before = self.seen.len();
        let frame = self.frame(shard, taken, order);
        (self.seen.len() > before).then_some(frame)
    }

    fn frame(&mut self, shard: Shard, mut taken: Taken, mut order: Vec<usize>) -> Frame {
        while self.take_idle(&shard, &mut taken, &mut order) {}
        if order.len() > self.best.len() {
            self.best.clone_from(&order);
        }
        self.seen.insert((taken.clone(), shard.clone()));
        let mut choices: Vec<(usize, Shard)> = Vec::new();
        for index in self.open(&taken) {
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
        // What was answered first is tried first, and what may never have happened last.
        let answered = |index: &usize| self.operations.get(*index).and_then(|o| o.answered);
        choices.sort_by_key(|(index, _)| {
            std::cmp::Reverse((answered(index).is_none(), answered(index), *index))
        });
        Frame { taken, order, choices }
    }

    /// Puts in everything that may happen now and changes nothing. Says whether there was any.
    fn take_idle(&self, shard: &Shard, taken: &mut Taken, order: &mut Vec<usize>) -> bool {
        let mut any = false;
        for index in self.open(taken) {
            let Some(operation) = self.operations.get(index) else { continue };
            let is_idle = || shard.after(&operation.event).is_some_and(|after| after == *shard);
            if operation.answered.is_some() && is_idle() {
                taken.insert(index);
                order.push(index);
                any = true;
            }
        }
        any
    }

    /// What may come next: everything that was called before the first answer that is still due.
    fn open(&self, taken: &Taken) -> Vec<usize> {
        let left = || self.operations.iter().enumerate().filter(|(at, _)| !taken.contains(*at));
        let due = left().filter_map(|(_, operation)| operation.answered).min();
        left()
            .filter(|(_, operation)| due.is_none_or(|due| operation.called <= due))
            .map(|(index, _)| index)
            .collect()
    }

    fn is_complete(&self, taken: &Taken) -> bool {
        let mut left = self.operations.iter().enumerate().filter(|(at, _)| !taken.contains(*at));
        left.all(|(_, operation)| operation.answered.is_none())
    }
}

/// A set of indices.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Taken(Vec<u64>);

impl Taken {
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
