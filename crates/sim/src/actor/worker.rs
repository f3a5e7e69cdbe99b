//! A worker's own view: the shards that it holds, its progress, its pending request.

use std::collections::VecDeque;

use shardwright_contracts::WorkerId;
use shardwright_coordination::{
    CoordError, HolderNotice, IdempotentOutcome, Lease, RestoredShardState, SplitRequest,
};

use super::Intent;
use crate::keyspace::{Point, key, point_at_or_after};
use crate::request::operation::{Checkpoint, SplitResidual};
use crate::request::{
    Answer, Cursor, Reply, Request, Spec, cursor_at, granted_cursor, granted_spec, last_key,
};

/// Number of lost leases and sent requests that an actor keeps.
const MEMORY: usize = 8;

/// A shard that a worker holds, in its own view.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) lease: Lease,
    pub(crate) spec: Spec,
    /// The last cursor that the worker knows to be accepted.
    pub(crate) cursor: Cursor,
    /// The first point that the worker processed itself, and the next point.
    pub(crate) first: Point,
    pub(crate) next: Point,
    pub(crate) end: Point,
    pub(crate) request: Option<SplitRequest>,
}

impl Held {
    pub(crate) fn new(tag: u8, granted: &RestoredShardState) -> Self {
        Self::assume(tag, granted.lease, granted_spec(granted), granted_cursor(granted))
    }

    /// The view of the holder of such a lease.
    pub(crate) fn assume(tag: u8, lease: Lease, spec: Spec, cursor: Cursor) -> Self {
        let first = match last_key(&cursor) {
            None => point_at_or_after(tag, spec.as_ref().start()),
            Some(done) => point_at_or_after(tag, &[done, &[0]].concat()),
        };
        let end = point_at_or_after(tag, spec.as_ref().end());
        Self { lease, spec, cursor, first, next: first, end, request: None }
    }

    /// The points that it has actually processed.
    pub(crate) fn processed(&self) -> Option<(Point, Point)> {
        (self.next > self.first).then(|| (self.first, self.next - 1))
    }

    /// The cursor of its actual position.
    pub(crate) fn position(&self, tag: u8, token: Option<Vec<u8>>) -> Cursor {
        match self.processed() {
            Some((_, last)) => cursor_at(key(tag, last), token),
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

/// A worker and its view.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) id: WorkerId,
    pub(crate) life: u32,
    pub(crate) held: Vec<Held>,
    /// Shards that it held before, in its own view.
    pub(crate) ghosts: VecDeque<Held>,
    pub(crate) sent: VecDeque<Intent>,
    pub(crate) pending: Option<Pending>,
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
        }
    }

    /// Loses everything but its id.
    pub(crate) fn crash(&mut self) {
        let life = self.life + 1;
        *self = Self { life, ..Self::new(self.id) };
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

    /// Learns the outcome of a request. A stubborn worker keeps using a lost lease.
    pub(crate) fn learn(&mut self, tag: u8, request: &Request, outcome: &Answer, stubborn: bool) {
        match (request.lease(), outcome) {
            (_, Ok(Reply::Granted(granted))) if self.find(&granted.lease).is_none() => {
                self.held.push(Held::new(tag, granted));
            }
            (Some(_), Ok(reply)) => self.learn_done(tag, request, reply),
            (Some(lease), Err(refusal)) => {
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

    fn learn_done(&mut self, tag: u8, request: &Request, reply: &Reply) {
        let Some(lease) = request.lease() else { return };
        let ends = matches!(
            request,
            Request::Complete(_)
                | Request::ParkShard(_)
                | Request::Release(_)
                | Request::SplitReplace(_)
        );
        if ends {
            return self.lose(lease);
        }
        let Some(held) = self.find(lease) else { return };
        match (request, reply) {
            (Request::Renew(_), Reply::Renewed(renewed)) => {
                held.lease = held.lease.renewed(renewed.new_deadline);
                held.notice(renewed.notice);
            }
            (Request::Checkpoint(Checkpoint { cursor, .. }), Reply::Noticed(outcome)) => {
                if last_key(cursor) >= last_key(&held.cursor) {
                    held.cursor = cursor.clone();
                }
                let (IdempotentOutcome::Executed(notice) | IdempotentOutcome::Replayed(notice)) =
                    outcome;
                held.notice(*notice);
            }
            (Request::SplitResidual(SplitResidual { narrowed, .. }), _) => {
                held.spec = narrowed.clone();
                held.end = point_at_or_after(tag, narrowed.as_ref().end());
                held.request = None;
            }
            (Request::DeclineSplit(_), _) => held.request = None,
            _ => {}
        }
    }
}

impl Held {
    /// Without a notice, the last one stays valid.
    const fn notice(&mut self, notice: Option<HolderNotice>) {
        if let Some(notice) = notice {
            self.request = notice.split_request;
        }
    }
}

pub(super) fn remember<T>(memory: &mut VecDeque<T>, item: T) {
    if memory.len() >= MEMORY {
        memory.pop_front();
    }
    memory.push_back(item);
}
