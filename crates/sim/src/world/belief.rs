//! What an actor believes: which shards it holds, how far it is, what it waits for.

use std::collections::VecDeque;

use shardwright_contracts::WorkerId;
use shardwright_coordination::{CoordError, HolderNotice, Lease, SplitRequest};

use super::intent::Intent;
use crate::keyspace::{Point, key, point_at_or_after};
use crate::request::{DraftCursor, DraftSpec, HolderAct, Request};
use crate::system::{Answer, Granted, Outcome};

/// How many lost leases and sent requests an actor keeps in mind.
const MEMORY: usize = 8;

/// A shard that a worker believes to hold.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) lease: Lease,
    pub(crate) spec: DraftSpec,
    /// The last cursor that was accepted, as far as the worker knows.
    pub(crate) cursor: DraftCursor,
    /// The first point that it processed itself, and the next that it will.
    pub(crate) first: Point,
    pub(crate) next: Point,
    pub(crate) end: Point,
    pub(crate) request: Option<SplitRequest>,
}

impl Held {
    pub(crate) fn new(tag: u8, granted: Granted) -> Self {
        let Granted { lease, spec, cursor, .. } = granted;
        Self::assume(tag, lease, spec, cursor)
    }

    /// What the holder of such a lease would believe.
    pub(crate) fn assume(tag: u8, lease: Lease, spec: DraftSpec, cursor: DraftCursor) -> Self {
        let first = match &cursor.last_key {
            None => point_at_or_after(tag, &spec.start),
            Some(done) => point_at_or_after(tag, &[done.as_slice(), &[0]].concat()),
        };
        let end = point_at_or_after(tag, &spec.end);
        Self { lease, spec, cursor, first, next: first, end, request: None }
    }

    /// The points that it has really processed.
    pub(crate) fn processed(&self) -> Option<(Point, Point)> {
        (self.next > self.first).then(|| (self.first, self.next - 1))
    }

    /// The cursor of where it really is.
    pub(crate) fn position(&self, tag: u8, token: Option<Vec<u8>>) -> DraftCursor {
        match self.processed() {
            Some((_, last)) => DraftCursor::at(key(tag, last), token),
            None => self.cursor.clone(),
        }
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.next >= self.end
    }

    fn is(&self, lease: &Lease) -> bool {
        (self.lease.key(), self.lease.fence()) == (lease.key(), lease.fence())
    }
}

/// A request that waits for its reply.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) id: u64,
    pub(crate) intent: Intent,
    pub(crate) retry_at: u64,
    pub(crate) attempts: u32,
}

/// A worker and what it believes.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) id: WorkerId,
    pub(crate) life: u32,
    pub(crate) held: Vec<Held>,
    /// Shards that it held once, by its own belief.
    pub(crate) ghosts: VecDeque<Held>,
    pub(crate) sent: VecDeque<Intent>,
    pub(crate) pending: Option<Pending>,
    pub(crate) asleep_until: u64,
}

impl Worker {
    pub(crate) const fn new(id: WorkerId) -> Self {
        Self {
            id,
            life: 0,
            held: Vec::new(),
            ghosts: VecDeque::new(),
            sent: VecDeque::new(),
            pending: None,
            asleep_until: 0,
        }
    }

    /// Forgets everything but who it is.
    pub(crate) fn crash(&mut self, until: u64) {
        let life = self.life + 1;
        *self = Self { life, asleep_until: until, ..Self::new(self.id) };
    }

    pub(crate) fn remember_sent(&mut self, intent: &Intent) {
        remember(&mut self.sent, intent.clone());
    }

    fn lose(&mut self, lease: &Lease) {
        if let Some(index) = self.held.iter().position(|held| held.is(lease)) {
            remember(&mut self.ghosts, self.held.remove(index));
        }
    }

    fn find(&mut self, lease: &Lease) -> Option<&mut Held> {
        self.held.iter_mut().find(|held| held.is(lease))
    }

    /// Learns what became of a request. A stubborn worker does not let go of what it lost.
    pub(crate) fn learn(&mut self, tag: u8, request: &Request, outcome: &Outcome, stubborn: bool) {
        match (request, outcome) {
            (_, Ok(Answer::Granted(granted))) if self.find(&granted.lease).is_none() => {
                self.held.push(Held::new(tag, granted.clone()));
            }
            (Request::Holder { lease, act }, Ok(answer)) => {
                self.learn_done(tag, lease, act, answer)
            }
            (Request::Holder { lease, .. }, Err(refusal)) => {
                let for_good = !matches!(
                    refusal,
                    CoordError::OpIdConflict(_)
                        | CoordError::SplitInvalid(_)
                        | CoordError::ResourceExhausted(_)
                        | CoordError::ParkDetailTooLarge(_)
                        | CoordError::BackendError(_)
                );
                if for_good && !stubborn {
                    self.lose(lease);
                }
            }
            _ => {}
        }
    }

    fn learn_done(&mut self, tag: u8, lease: &Lease, act: &HolderAct, answer: &Answer) {
        let ends = matches!(
            act,
            HolderAct::Complete { .. }
                | HolderAct::Park { .. }
                | HolderAct::Release { .. }
                | HolderAct::SplitReplace { .. }
        );
        if ends {
            return self.lose(lease);
        }
        let Some(held) = self.find(lease) else { return };
        match (act, answer) {
            (HolderAct::Renew, Answer::Renewed(renewed)) => {
                held.lease = held.lease.renewed(renewed.new_deadline);
                held.hear(renewed.notice);
            }
            (HolderAct::Checkpoint { cursor, .. }, Answer::Noticed { notice, .. }) => {
                if cursor.last_key >= held.cursor.last_key {
                    held.cursor = cursor.clone();
                }
                held.hear(*notice);
            }
            (HolderAct::SplitResidual { split, .. }, _) => {
                if let Some((left, _)) = split.parts.first() {
                    held.spec = left.clone();
                    held.end = point_at_or_after(tag, &left.end);
                }
                held.request = None;
            }
            (HolderAct::Decline { .. }, _) => held.request = None,
            _ => {}
        }
    }
}

impl Held {
    /// If nothing was told, what was heard before still stands.
    const fn hear(&mut self, notice: Option<HolderNotice>) {
        if let Some(notice) = notice {
            self.request = notice.split_request;
        }
    }
}

/// A tenant's operator and what it waits for.
#[derive(Debug, Default)]
pub(crate) struct Operator {
    pub(crate) sent: VecDeque<Intent>,
    pub(crate) pending: Option<Pending>,
    /// How many shards the next manifest may have, after one was too large.
    pub(crate) shards_max: Option<usize>,
}

impl Operator {
    pub(crate) fn remember_sent(&mut self, intent: &Intent) {
        remember(&mut self.sent, intent.clone());
    }
}

fn remember<T>(memory: &mut VecDeque<T>, item: T) {
    if memory.len() >= MEMORY {
        memory.pop_front();
    }
    memory.push_back(item);
}
