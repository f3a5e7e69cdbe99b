//! Equality of worlds.
//!
//! The search keeps real records with real times, fences and ids, which grow without bound. A
//! *canonical form* decides which worlds are equal. It omits all data that no future answer depends
//! on:
//!
//! - **Time** is relative. Of a lease it contains the remaining ticks, zero if the lease has
//!   expired. No check uses the time of an operation or of the run's creation, or a worker's copy
//!   of its deadline.
//! - **Fences** are relative to the shard's. A request presents the current fence or an old one. An
//!   old fence never becomes current again. A request without an effect that presents an old fence
//!   can never have one, whatever its command_bytes. Of the shard's own fence, only whether it has
//!   ever risen is kept, because a record's invariants need it. The number of acquires is omitted.
//!   The number of acquires without progress is kept only if shards park themselves.
//! - **Operation ids** matter only for requests that can still arrive. There they are replaced by
//!   what the log and the spawned shards know of them. An entry without a possible retry only
//!   occupies a position, so only the distance of known entries from the end of the log is kept.
//! - **Shard ids** derive from operation ids. Shards are written in key order, parents before
//!   children, and named by their position. So the order of independent splits does not matter.
//! - **Workers** are interchangeable: the form is the least over all numberings. The order of
//!   requests in flight does not matter either.
//! - **An ended run** refuses every new request. Leases, owners and fences no longer matter.
//!   Remembered operations do.
//!
//! A test checks that equal worlds have equal futures: with small bounds, it steps worlds that were
//! reached by different paths and have the same form.

use std::hash::{DefaultHasher, Hasher};

use arrayvec::ArrayVec;
use shardwright_contracts::FenceEpoch;

use crate::bounds::{REQUESTS_MAX, SHARDS_MAX, WORKERS_MAX};
use crate::request::{Command, Key, Memory, Payload, Plan, Request};
use crate::world::{Shard, World};

/// The canonical form: a few bytes.
pub type Form = ArrayVec<u8, 160>;

const NONE: u8 = u8::MAX;

impl World {
    /// The canonical form of the world.
    #[must_use]
    pub fn form(&self) -> Form {
        let order = self.order();
        let mut least = self.form_for(&order, &[0, 1, 2]);
        // The other numberings of two or three workers.
        let two: &[[u8; WORKERS_MAX]] = &[[1, 0, 2]];
        let three = &[[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        let others = match self.workers {
            0 | 1 => &[],
            2 => two,
            _ => three,
        };
        for numbers in others {
            least = least.min(self.form_for(&order, numbers));
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

    /// The canonical order of the shards.
    fn order(&self) -> ShardOrder {
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
        ShardOrder(order.into_iter().map(|(.., index)| index).collect())
    }

    fn form_for(&self, order: &ShardOrder, numbers: &[u8; WORKERS_MAX]) -> Form {
        let mut form = Writer { world: self, order, numbers, bytes: Form::new() };
        form.run();
        for &index in &order.0 {
            if let Some(shard) = self.shard(index) {
                form.shard(shard);
            }
        }
        form.requests();
        form.bytes
    }
}

/// The indexes of the shards, in canonical order.
struct ShardOrder(ArrayVec<u8, SHARDS_MAX>);

impl ShardOrder {
    fn of(&self, index: u8) -> u8 {
        self.0.iter().position(|other| *other == index).map_or(NONE, |position| position as u8)
    }
}

struct Writer<'a> {
    world: &'a World,
    order: &'a ShardOrder,
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
            index.map_or(NONE, |index| self.order.of(index as u8))
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
        let without_progress = if counted { head.acquires_without_progress as u8 } else { 0 };
        self.put([owner, left, granted, risen.into(), without_progress]);
    }

    fn requests(&mut self) {
        let requests = &self.world.requests;
        let mut requests: ArrayVec<_, REQUESTS_MAX> =
            requests.iter().map(|request| self.request(request)).collect();
        requests.sort_unstable();
        requests.into_iter().for_each(|request| self.put(request));
    }

    fn request(&self, request: &Request) -> [u8; 11] {
        let Request { worker, op, shard: index, fence, command, memory } = *request;
        let Some(shard) = self.world.shard(index) else { return [NONE; 11] };
        let head = &shard.record.head;
        let position = self.order.of(index);
        let is_old = fence.is_some_and(|fence| fence != head.fence);
        if memory == Memory::default() && is_old {
            return [position, NONE, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        }
        let log = &head.op_log;
        let logged = log.entries().zip(1..).find(|(entry, _)| entry.op == op);
        let [age, kind] =
            logged.map_or([NONE; 2], |(entry, nth)| [log.len() as u8 - nth, entry.kind.as_byte()]);
        let [tag, first, second, third, fourth] = command_bytes(command);
        let (worker, is_old) = match fence {
            Some(_) if !self.ended() => (self.number(Some(worker.into())), is_old.into()),
            _ => (NONE, 0),
        };
        let memory = memory_byte(memory);
        [position, worker, is_old, tag, first, second, third, fourth, age, kind, memory]
    }
}

fn command_bytes(command: Command) -> [u8; 5] {
    let key = |key: Option<Key>| key.unwrap_or(NONE);
    let of = |tag, Plan { start, end, boundary, cursor }| [tag, start, end, boundary, key(cursor)];
    match command {
        Command::Checkpoint(at) => [0, key(at), 0, 0, 0],
        Command::Complete(at) => [1, key(at), 0, 0, 0],
        Command::Park => [2, 0, 0, 0, 0],
        Command::Release => [3, 0, 0, 0, 0],
        Command::Unpark => [4, 0, 0, 0, 0],
        Command::Replace(plan) => of(5, plan),
        // The request does not contain the shard's cursor at planning time.
        Command::Residual(plan) => of(6, Plan { cursor: None, ..plan }),
    }
}

fn memory_byte(memory: Memory) -> u8 {
    let payload = |payload| match payload {
        Payload::Original => 1,
        Payload::Altered => 2,
    };
    let effect = memory.effect.map_or(0, |effect| payload(effect.payload) + 2 * effect.since);
    effect | memory.residual.map_or(0, payload) << 4
}
