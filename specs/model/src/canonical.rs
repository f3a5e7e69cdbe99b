//! When two worlds are the same.
//!
//! The search keeps real records, with real times, fences and ids, and those grow without end.
//! What counts as one state is decided by a *canonical form* of the world, in which everything
//! that no future answer can depend on is left out:
//!
//! - **Time** is relative: of a lease only the ticks that are left are written, and a lease that
//!   is over has none left, however long ago that was. When an operation was executed, a run was
//!   created and a worker thinks that its lease ends is never compared with anything.
//! - **Fences** are relative to the shard's: a request shows the present one or an old one, and
//!   an old one never becomes present again. A request that has effected nothing and shows an old
//!   fence will never effect anything, whatever it asks. Of the shard itself only whether its
//!   fence has ever risen is written, because a record's invariants ask for it. How often it was
//!   acquired is not, and how often in vain only if shards park themselves for it.
//! - **Operation ids** are names: they matter for requests that can still arrive, and there they
//!   are replaced by what the log and the spawned shards know of them. An entry of which nobody
//!   can retry the operation is only a place in a queue, so that of a log only the distance of
//!   known entries from its end is written.
//! - **Shard ids** come from operation ids. Shards are written in key order, parents before their
//!   children, and named by their place in it; so the order of independent splits does not matter.
//! - **Workers** are interchangeable: the form is the least over all ways to number them. The
//!   order of requests under way does not matter either.
//! - **An ended run** answers every new request with its end, whoever asks and whatever they
//!   show. Leases, owners and fences do not matter any more; what is remembered does.
//!
//! That two worlds with one form have the same future is itself tested: on small bounds, worlds
//! that were reached differently and look alike are stepped side by side.

use std::hash::{DefaultHasher, Hasher};

use arrayvec::ArrayVec;
use shardwright_contracts::FenceEpoch;

use crate::bounds::{REQUESTS_MAX, SHARDS_MAX, WORKERS_MAX};
use crate::request::{Ask, Key, Memory, Plan, Request, Wording};
use crate::world::{Shard, World};

/// The canonical form: a few bytes.
pub type Form = ArrayVec<u8, 160>;

const NONE: u8 = u8::MAX;

impl World {
    /// The canonical form of the world.
    #[must_use]
    pub fn form(&self) -> Form {
        let places = self.places();
        let mut least = self.form_for(&places, &[0, 1, 2]);
        // The other ways to number two or three workers.
        let two: &[[u8; WORKERS_MAX]] = &[[1, 0, 2]];
        let three = &[[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        let others = match self.workers {
            0 | 1 => &[],
            2 => two,
            _ => three,
        };
        for numbers in others {
            least = least.min(self.form_for(&places, numbers));
        }
        least
    }

    /// A digest of the canonical form.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        hasher.write(&self.form());
        hasher.finish()
    }

    /// The canonical place of each shard.
    fn places(&self) -> Places {
        let mut order: ArrayVec<(Key, u8, u8), SHARDS_MAX> = self
            .shards
            .iter()
            .zip(0..)
            .map(|(shard, index)| {
                let (start, end) = shard.range();
                (start, u8::MAX - end, index)
            })
            .collect();
        order.sort_unstable();
        Places(order.into_iter().map(|(.., index)| index).collect())
    }

    fn form_for(&self, places: &Places, numbers: &[u8; WORKERS_MAX]) -> Form {
        let mut form = Writer { world: self, places, numbers, bytes: Form::new() };
        form.run();
        for &index in &places.0 {
            if let Some(shard) = self.shard(index) {
                form.shard(shard);
            }
        }
        form.requests();
        form.bytes
    }
}

/// The indexes of the shards, in canonical order.
struct Places(ArrayVec<u8, SHARDS_MAX>);

impl Places {
    fn of(&self, index: u8) -> u8 {
        self.0.iter().position(|other| *other == index).map_or(NONE, |place| place as u8)
    }
}

struct Writer<'a> {
    world: &'a World,
    places: &'a Places,
    /// The canonical number of each worker.
    numbers: &'a [u8; WORKERS_MAX],
    bytes: Form,
}

impl Writer<'_> {
    fn ended(&self) -> bool {
        self.world.run.status.is_terminal()
    }

    fn put(&mut self, bytes: impl IntoIterator<Item = u8>) {
        self.bytes.extend(bytes);
    }

    fn number(&self, worker: Option<u64>) -> u8 {
        let index = worker.and_then(|worker| usize::try_from(worker).ok());
        index.and_then(|index| self.numbers.get(index)).map_or(NONE, |number| *number)
    }

    fn run(&mut self) {
        let run = &self.world.run;
        let shards = self.world.shards.len() as u8;
        self.put([run.status.as_byte(), run.paused.into(), shards]);
    }

    fn shard(&mut self, shard: &Shard) {
        let (head, (start, end)) = (&shard.record.head, shard.range());
        let parent = head.parent.map_or(NONE, |parent| {
            let is_parent = |other: &std::sync::Arc<Shard>| other.record.head.key.shard == parent;
            let index = self.world.shards.iter().position(is_parent);
            index.map_or(NONE, |index| self.places.of(index as u8))
        });
        let reason = head.park.as_ref().map_or(NONE, |park| park.reason.as_byte());
        let cursor = shard.cursor().unwrap_or(NONE);
        self.put([head.status.as_byte(), reason, start, end, cursor, parent]);
        if self.ended() {
            return;
        }
        let owner = self.number(head.lease.map(|holder| holder.owner.as_raw()));
        let left = head.lease.map_or(NONE, |holder| {
            holder.deadline.millis_since(self.world.now).min(u64::from(NONE - 1)) as u8
        });
        let granted = self.number(shard.granted.map(|owner| owner.as_raw()));
        let risen = head.fence > FenceEpoch::INITIAL;
        let counted = self.world.run.config.max_shard_retries.is_some();
        let in_vain = if counted { head.fruitless_acquires as u8 } else { 0 };
        self.put([owner, left, granted, risen.into(), in_vain]);
    }

    fn requests(&mut self) {
        let requests = &self.world.requests;
        let mut requests: ArrayVec<_, REQUESTS_MAX> =
            requests.iter().map(|request| self.request(request)).collect();
        requests.sort_unstable();
        requests.into_iter().for_each(|request| self.put(request));
    }

    fn request(&self, request: &Request) -> [u8; 11] {
        let Request { worker, op, shard: index, fence, ask, memory } = *request;
        let Some(shard) = self.world.shard(index) else { return [NONE; 11] };
        let head = &shard.record.head;
        let place = self.places.of(index);
        let is_old = fence.is_some_and(|fence| fence != head.fence);
        if memory == Memory::default() && is_old {
            return [place, NONE, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        }
        let log = &head.op_log;
        let logged = log.entries().zip(1..).find(|(entry, _)| entry.op == op);
        let [age, kind] =
            logged.map_or([NONE; 2], |(entry, nth)| [log.len() as u8 - nth, entry.kind.as_byte()]);
        let [tag, first, second, third, fourth] = payload(ask);
        let (worker, is_old) = match fence {
            Some(_) if !self.ended() => (self.number(Some(worker.into())), is_old.into()),
            _ => (NONE, 0),
        };
        let memory = memory_byte(memory);
        [place, worker, is_old, tag, first, second, third, fourth, age, kind, memory]
    }
}

fn payload(ask: Ask) -> [u8; 5] {
    let key = |key: Option<Key>| key.unwrap_or(NONE);
    let of = |tag, Plan { start, end, boundary, cursor }| [tag, start, end, boundary, key(cursor)];
    match ask {
        Ask::Checkpoint(at) => [0, key(at), 0, 0, 0],
        Ask::Complete(at) => [1, key(at), 0, 0, 0],
        Ask::Park => [2, 0, 0, 0, 0],
        Ask::Release => [3, 0, 0, 0, 0],
        Ask::Unpark => [4, 0, 0, 0, 0],
        Ask::Replace(plan) => of(5, plan),
        // Where the shard was when it was planned is no part of the request.
        Ask::Residual(plan) => of(6, Plan { cursor: None, ..plan }),
    }
}

fn memory_byte(memory: Memory) -> u8 {
    let wording = |wording| match wording {
        Wording::Meant => 1,
        Wording::Misused => 2,
    };
    let effect = memory.effect.map_or(0, |effect| wording(effect.wording) + 2 * effect.since);
    effect | memory.residual.map_or(0, wording) << 4
}
