//! The legal behaviour of one shard.
//!
//! This is the checker's own model of the protocol. It shares no code with the code under test. It
//! has no time: a lease may expire at any moment, so another worker may acquire an active shard at
//! any time. Only the last holder and its fence decide what is legal.

use serde::{Deserialize, Serialize};

use crate::history::{Acquired, Action, Facts, Outcome, Piece, Refusal, Status};

/// Capacity of the op log.
const REMEMBERED: usize = 16;

/// Whether a shard exists, and its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Existence {
    /// The split that creates it has not happened yet.
    NotCreated,
    /// It exists.
    Created(Status),
}

/// The state of a shard.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Shard {
    /// Whether it exists, and its status.
    pub existence: Existence,
    /// Whether its run has ended.
    pub run_ended: bool,
    /// The fence of its last owner.
    pub fence: u64,
    /// The current or last holder, unless it released the shard.
    pub holder: Option<u64>,
    /// Its first key.
    pub start: u64,
    /// The first key after it.
    pub end: u64,
    /// The last key that is processed.
    pub cursor: Option<u64>,
    /// Number of acquires.
    pub acquires: u32,
    /// The ids of the last operations, oldest first.
    remembered: Vec<u64>,
    /// The ids of residual splits, which are never evicted.
    residuals: Vec<u64>,
}

/// A change or an observation of a shard.
#[allow(missing_docs, reason = "the fields of a call are what they are called")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Event {
    /// The split of another shard created it.
    Create(Piece),
    /// A call and its outcome. A call without an answer may have had its effect.
    Call { worker: u64, action: Action, outcome: Option<Outcome> },
    /// Its run ended.
    EndRun,
    /// An answer showed that its run had ended.
    RunSeenEnded,
    /// Its record at the end of the test.
    Seen(Seen),
}

/// A shard as listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Seen {
    /// Its status.
    pub status: Status,
    /// Its first key.
    pub start: u64,
    /// The first key after it.
    pub end: u64,
    /// The last key that is processed.
    pub cursor: Option<u64>,
    /// Number of acquires.
    pub acquires: u32,
}

impl Shard {
    /// A shard of a manifest, as it was registered.
    #[must_use]
    pub(super) const fn root(start: u64, end: u64) -> Self {
        Self {
            existence: Existence::Created(Status::Active),
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

    /// A shard that a split will create.
    #[must_use]
    pub(super) fn not_created() -> Self {
        Self { existence: Existence::NotCreated, ..Self::root(0, 0) }
    }

    /// The shard after an event, or `None` if the event is not possible.
    #[must_use]
    pub(super) fn after(&self, event: &Event) -> Option<Self> {
        match event {
            Event::Create(piece) => self.created(piece),
            Event::EndRun => self.ended(),
            Event::RunSeenEnded => self.run_ended.then(|| self.clone()),
            Event::Seen(seen) => self.matches(seen).then(|| self.clone()),
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

    fn created(&self, piece: &Piece) -> Option<Self> {
        let created = || Self { cursor: piece.cursor, ..Self::root(piece.start, piece.end) };
        (self.existence == Existence::NotCreated && !self.run_ended).then(created)
    }

    fn ended(&self) -> Option<Self> {
        let is_settled = matches!(self.existence, Existence::Created(Status::Done | Status::Split));
        (is_settled && !self.run_ended).then(|| Self { run_ended: true, ..self.clone() })
    }

    fn matches(&self, seen: &Seen) -> bool {
        self.existence == Existence::Created(seen.status)
            && (self.start, self.end, self.cursor) == (seen.start, seen.end, seen.cursor)
            && self.acquires == seen.acquires
    }

    fn is_active(&self) -> bool {
        self.existence == Existence::Created(Status::Active) && !self.run_ended
    }

    fn is_held(&self, worker: u64, fence: u64) -> bool {
        self.is_active() && self.fence == fence && self.holder == Some(worker)
    }

    /// Whether an operation is in the op log or the list of residuals.
    fn remembers(&self, action: &Action) -> bool {
        operation(action).is_some_and(|op| {
            self.remembered.contains(&op)
                || (matches!(action, Action::SplitResidual { .. }) && self.residuals.contains(&op))
        })
    }

    fn done(&self, worker: u64, action: &Action, facts: &Facts) -> Option<Self> {
        if facts.replayed {
            return self.remembers(action).then(|| self.clone());
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
        if self.remembers(action) || !self.admits(worker, action) {
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
                after.existence = Existence::Created(Status::Active);
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
        self.existence = Existence::Created(status);
        self.holder = None;
    }

    /// Whether a new action is legal.
    fn admits(&self, worker: u64, action: &Action) -> bool {
        let held = |fence: &u64| self.is_held(worker, *fence);
        match action {
            Action::Claim | Action::Acquire { .. } => self.is_active(),
            Action::Unpark { .. } => {
                self.existence == Existence::Created(Status::Parked) && !self.run_ended
            }
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
            // Split requests are advisory and do not change a shard.
            Action::RequestSplit { .. } | Action::DeclineSplit { .. } => true,
            Action::Register { .. } | Action::CompleteRun { .. } => true,
        }
    }

    const fn contains(&self, key: u64) -> bool {
        self.start <= key && key < self.end
    }

    /// Whether children tile the range and their cursors do not exceed the parent's.
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

    /// Whether the reason of a refusal is true.
    fn refuses(&self, worker: u64, action: &Action, refusal: &Refusal) -> bool {
        // A retry is replayed, never refused.
        if self.remembers(action) && !matches!(refusal, Refusal::OpIdConflict) {
            return false;
        }
        let presented = presented_fence(action);
        let is_held = presented.is_some_and(|fence| self.is_held(worker, fence));
        match refusal {
            Refusal::StaleFence { current } => {
                self.is_active() && self.fence == *current && !is_held
            }
            // The model has no time, so any lease may have expired.
            Refusal::LeaseExpired => is_held,
            Refusal::AlreadyLeased { owner } => self.is_active() && self.holder == Some(*owner),
            Refusal::ShardTerminal { status } => {
                *status != Status::Active
                    && self.existence == Existence::Created(*status)
                    && !self.run_ended
            }
            Refusal::NotParked { status } => {
                *status != Status::Parked
                    && self.existence == Existence::Created(*status)
                    && !self.run_ended
            }
            Refusal::ShardNotFound => self.existence == Existence::NotCreated,
            Refusal::RunEnded => self.run_ended,
            Refusal::CursorRegression => is_held && moved_to(action) < self.cursor,
            Refusal::CursorOutOfBounds => {
                is_held && moved_to(action).is_some_and(|key| !self.contains(key))
            }
            Refusal::SplitInvalid => is_held && !self.admits(worker, action),
            // No worker reuses an operation id.
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

/// The operation id of an action.
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

/// The fence that an action presents.
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
