//! What one shard may do, written a second time.
//!
//! This is the checker's own account of the protocol: it shares no code with what it judges. Time
//! is not in it. A lease may be over at any moment, so another worker may take a shard whenever it
//! is active; only who held it with which fence decides what may happen then.

use serde::{Deserialize, Serialize};

use crate::history::{Acquired, Action, Facts, Outcome, Piece, Refusal, Status};

/// How many operations a shard remembers.
const REMEMBERED: usize = 16;

/// Where a shard is in its life, before it has one included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Life {
    /// The split that makes it has not happened yet.
    Unborn,
    /// It has a status.
    Born(Status),
}

/// A shard at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Shard {
    /// Where it is in its life.
    pub life: Life,
    /// Whether its run has ended.
    pub run_ended: bool,
    /// The fence of its last owner.
    pub fence: u64,
    /// Who holds it or held it last, unless that one gave it back.
    pub holder: Option<u64>,
    /// Its first key.
    pub start: u64,
    /// The first key behind it.
    pub end: u64,
    /// The last key that is processed.
    pub cursor: Option<u64>,
    /// How often it was acquired.
    pub acquires: u32,
    /// The ids of the last operations, oldest first.
    remembered: Vec<u64>,
    /// The ids of residual splits, which are never forgotten.
    residuals: Vec<u64>,
}

/// What happened to a shard, or was seen of it.
#[allow(missing_docs, reason = "the fields of a call are what they are called")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Event {
    /// The split of another shard made it.
    Create(Piece),
    /// A worker called, and was answered so. Without an answer the call may have had its effect.
    Call { worker: u64, action: Action, outcome: Option<Outcome> },
    /// Its run ended.
    EndRun,
    /// Its run was seen to have ended.
    RunSeenEnded,
    /// It was looked at when all was over.
    Seen(Seen),
}

/// A shard as a list shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Seen {
    /// Its status.
    pub status: Status,
    /// Its first key.
    pub start: u64,
    /// The first key behind it.
    pub end: u64,
    /// The last key that is processed.
    pub cursor: Option<u64>,
    /// How often it was acquired.
    pub acquires: u32,
}

impl Shard {
    /// A shard of a manifest, as it was registered.
    #[must_use]
    pub(super) const fn root(start: u64, end: u64) -> Self {
        Self {
            life: Life::Born(Status::Active),
            run_ended: false,
            fence: 1,
            holder: None,
            start,
            end,
            cursor: None,
            acquires: 0,
            remembered: Vec::new(),
            residuals: Vec::new(),
        }
    }

    /// A shard that a split is going to make.
    #[must_use]
    pub(super) fn unborn() -> Self {
        Self { life: Life::Unborn, ..Self::root(0, 0) }
    }

    /// The shard after an event, or nothing if the event cannot happen now.
    #[must_use]
    pub(super) fn after(&self, event: &Event) -> Option<Self> {
        match event {
            Event::Create(piece) => self.born(piece),
            Event::EndRun => self.ended(),
            Event::RunSeenEnded => self.run_ended.then(|| self.clone()),
            Event::Seen(seen) => self.looks_like(seen).then(|| self.clone()),
            Event::Call { worker, action, outcome: None | Some(Outcome::Unknown(_)) } => {
                self.changed(*worker, action)
            }
            Event::Call { worker, action, outcome: Some(Outcome::Done(facts)) } => {
                self.done(*worker, action, facts)
            }
            Event::Call { worker, action, outcome: Some(Outcome::Refused(refusal)) } => {
                self.refuses(*worker, action, refusal).then(|| self.clone())
            }
            Event::Call { outcome: Some(Outcome::NotApplied(_)), .. } => Some(self.clone()),
            Event::Call { outcome: Some(Outcome::Corrupt(_)), .. } => None,
        }
    }

    fn born(&self, piece: &Piece) -> Option<Self> {
        let born = || Self { cursor: piece.cursor, ..Self::root(piece.start, piece.end) };
        (self.life == Life::Unborn && !self.run_ended).then(born)
    }

    fn ended(&self) -> Option<Self> {
        let is_settled = matches!(self.life, Life::Born(Status::Done | Status::Split));
        (is_settled && !self.run_ended).then(|| Self { run_ended: true, ..self.clone() })
    }

    fn looks_like(&self, seen: &Seen) -> bool {
        self.life == Life::Born(seen.status)
            && (self.start, self.end, self.cursor) == (seen.start, seen.end, seen.cursor)
            && self.acquires == seen.acquires
    }

    fn is_active(&self) -> bool {
        self.life == Life::Born(Status::Active) && !self.run_ended
    }

    fn is_held(&self, worker: u64, fence: u64) -> bool {
        self.is_active() && self.fence == fence && self.holder == Some(worker)
    }

    /// Whether an operation is known to have been done.
    fn recalls(&self, action: &Action) -> bool {
        operation(action).is_some_and(|op| {
            self.remembered.contains(&op)
                || (matches!(action, Action::SplitResidual { .. }) && self.residuals.contains(&op))
        })
    }

    fn done(&self, worker: u64, action: &Action, facts: &Facts) -> Option<Self> {
        if facts.replayed {
            return self.recalls(action).then(|| self.clone());
        }
        let after = self.changed(worker, action)?;
        let matches = match &facts.acquired {
            None => true,
            Some(Acquired { fence, start, end, cursor, .. }) => {
                after.fence == *fence
                    && (after.start, after.end, after.cursor) == (*start, *end, *cursor)
            }
        };
        matches.then_some(after)
    }

    /// The shard after an action had its effect, or nothing if it cannot have one now.
    fn changed(&self, worker: u64, action: &Action) -> Option<Self> {
        if self.recalls(action) || !self.admits(worker, action) {
            return None;
        }
        let mut after = self.clone();
        match action {
            Action::Claim | Action::Acquire { .. } => {
                after.fence += 1;
                after.acquires += 1;
                after.holder = Some(worker);
            }
            Action::Checkpoint { key, .. } => after.cursor = Some(*key),
            Action::Complete { key, .. } => {
                after.cursor = Some(*key);
                after.settle(Status::Done);
            }
            Action::Park { .. } => after.settle(Status::Parked),
            Action::Release { .. } => after.holder = None,
            Action::Unpark { .. } => {
                after.life = Life::Born(Status::Active);
                after.fence += 1;
            }
            Action::SplitReplace { .. } => after.settle(Status::Split),
            Action::SplitResidual { op, at, .. } => {
                after.end = *at;
                after.residuals.push(*op);
            }
            Action::Renew { .. }
            | Action::Register { .. }
            | Action::RequestSplit { .. }
            | Action::DeclineSplit { .. }
            | Action::CompleteRun { .. } => {}
        }
        if let Some(op) = operation(action) {
            after.remembered.push(op);
            if after.remembered.len() > REMEMBERED {
                after.remembered.remove(0);
            }
        }
        Some(after)
    }

    fn settle(&mut self, status: Status) {
        self.life = Life::Born(status);
        self.holder = None;
    }

    /// Whether an action that was not done before is allowed now.
    fn admits(&self, worker: u64, action: &Action) -> bool {
        let held = |fence: &u64| self.is_held(worker, *fence);
        match action {
            Action::Claim | Action::Acquire { .. } => self.is_active(),
            Action::Unpark { .. } => self.life == Life::Born(Status::Parked) && !self.run_ended,
            Action::Checkpoint { fence, key, .. } | Action::Complete { fence, key, .. } => {
                held(fence) && self.contains(*key) && Some(*key) >= self.cursor
            }
            Action::Renew { fence, .. }
            | Action::Park { fence, .. }
            | Action::Release { fence, .. } => held(fence),
            Action::SplitReplace { fence, children, .. } => held(fence) && self.is_tiled(children),
            Action::SplitResidual { fence, start, at, end, .. } => {
                held(fence)
                    && (*start, *end) == (self.start, self.end)
                    && self.contains(*at)
                    && *at > self.start
                    && self.cursor.is_none_or(|cursor| cursor < *at)
            }
            // Advice, of which a shard keeps nothing.
            Action::RequestSplit { .. } | Action::DeclineSplit { .. } => true,
            Action::Register { .. } | Action::CompleteRun { .. } => true,
        }
    }

    const fn contains(&self, key: u64) -> bool {
        self.start <= key && key < self.end
    }

    /// Whether children leave out nothing, overlap nowhere and claim no work that is not done.
    fn is_tiled(&self, children: &[Piece]) -> bool {
        let mut reached = self.start;
        for child in children {
            let in_bounds = child.cursor.is_none_or(|key| child.start <= key && key < child.end);
            if child.start != reached || child.end <= child.start || !in_bounds {
                return false;
            }
            if child.cursor > self.cursor {
                return false;
            }
            reached = child.end;
        }
        reached == self.end && children.len() > 1
    }

    /// Whether a refusal says what is true of the shard now.
    fn refuses(&self, worker: u64, action: &Action, refusal: &Refusal) -> bool {
        // Whatever was done before is answered, and never refused.
        if self.recalls(action) && !matches!(refusal, Refusal::OpIdConflict) {
            return false;
        }
        let presented = presented_fence(action);
        let is_held = presented.is_some_and(|fence| self.is_held(worker, fence));
        match refusal {
            Refusal::StaleFence { current } => {
                self.is_active() && self.fence == *current && !is_held
            }
            // Its time was up, which is nothing that a shard shows.
            Refusal::LeaseExpired => is_held,
            Refusal::AlreadyLeased { owner } => self.is_active() && self.holder == Some(*owner),
            Refusal::ShardTerminal { status } => {
                *status != Status::Active && self.life == Life::Born(*status) && !self.run_ended
            }
            Refusal::NotParked { status } => {
                *status != Status::Parked && self.life == Life::Born(*status) && !self.run_ended
            }
            Refusal::ShardNotFound => self.life == Life::Unborn,
            Refusal::RunEnded => self.run_ended,
            Refusal::CursorRegression => is_held && moved_to(action) < self.cursor,
            Refusal::CursorOutOfBounds => {
                is_held && moved_to(action).is_some_and(|key| !self.contains(key))
            }
            Refusal::SplitInvalid => is_held && !self.admits(worker, action),
            // No worker uses an id for two things.
            Refusal::OpIdConflict => false,
            Refusal::Other(_) => true,
        }
    }
}

const fn moved_to(action: &Action) -> Option<u64> {
    match action {
        Action::Checkpoint { key, .. } | Action::Complete { key, .. } => Some(*key),
        _ => None,
    }
}

/// The id by which an action is recognised when it is asked again.
#[must_use]
pub(super) const fn operation(action: &Action) -> Option<u64> {
    match action {
        Action::Checkpoint { op, .. }
        | Action::Complete { op, .. }
        | Action::Park { op, .. }
        | Action::Unpark { op, .. }
        | Action::Release { op, .. }
        | Action::SplitReplace { op, .. }
        | Action::SplitResidual { op, .. } => Some(*op),
        Action::Register { .. }
        | Action::Claim
        | Action::Acquire { .. }
        | Action::Renew { .. }
        | Action::RequestSplit { .. }
        | Action::DeclineSplit { .. }
        | Action::CompleteRun { .. } => None,
    }
}

/// The fence that an action shows.
#[must_use]
pub(super) const fn presented_fence(action: &Action) -> Option<u64> {
    match action {
        Action::Renew { fence, .. }
        | Action::Checkpoint { fence, .. }
        | Action::Complete { fence, .. }
        | Action::Park { fence, .. }
        | Action::Release { fence, .. }
        | Action::SplitReplace { fence, .. }
        | Action::SplitResidual { fence, .. }
        | Action::DeclineSplit { fence, .. } => Some(*fence),
        Action::Register { .. }
        | Action::Claim
        | Action::Acquire { .. }
        | Action::Unpark { .. }
        | Action::RequestSplit { .. }
        | Action::CompleteRun { .. } => None,
    }
}
