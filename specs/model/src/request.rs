//! The requests of workers, as data that can be stored and resent.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use shardwright_contracts::{
    CursorUpdate, FenceEpoch, OpId, ShardSpecRef, SplitReplacePlan, SplitResidualPlan,
    plan_split_replace, plan_split_residual,
};

use crate::LOG;
use crate::bounds::KEYS_MAX;

/// A key, by its index in the keyspace.
pub type Key = u8;

const KEY_BYTES: [[u8; 1]; 8] = [*b"a", *b"b", *b"c", *b"d", *b"e", *b"f", *b"g", *b"h"];

/// The bytes of a key.
#[must_use]
pub(crate) fn bytes_of(key: Key) -> &'static [u8] {
    KEY_BYTES.get(usize::from(key)).map_or(&[], |bytes| bytes)
}

/// The key of its bytes.
#[must_use]
pub(crate) fn key_of(bytes: &[u8]) -> Key {
    bytes.first().map_or(Key::MAX, |byte| byte.wrapping_sub(b'a'))
}

/// The cursor at a key, or the initial one.
#[must_use]
pub(crate) fn cursor_at(key: Option<Key>) -> CursorUpdate<'static> {
    key.map_or(CursorUpdate::initial(), |key| CursorUpdate::at(bytes_of(key)))
}

/// A split, planned for the state of a shard at that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Plan {
    /// First key of the shard.
    pub start: Key,
    /// First key after it.
    pub end: Key,
    /// The boundary between the parts.
    pub boundary: Key,
    /// The cursor at that time.
    pub cursor: Option<Key>,
}

impl Plan {
    fn spec_ref(self) -> ShardSpecRef<'static> {
        ShardSpecRef::new(bytes_of(self.start), bytes_of(self.end), b"")
    }

    /// The plan of two children. A plan is large, so each is built once.
    pub(crate) fn replace(self) -> Option<&'static SplitReplacePlan<'static>> {
        static PLANS: LazyLock<BTreeMap<Plan, Box<SplitReplacePlan<'static>>>> =
            LazyLock::new(|| {
                let made = all_plans().filter_map(|plan| {
                    let (spec, cursor) = (plan.spec_ref(), cursor_at(plan.cursor));
                    let made = plan_split_replace(spec, cursor, &[bytes_of(plan.boundary)]);
                    made.ok().map(|made| (plan, Box::new(made)))
                });
                made.collect()
            });
        PLANS.get(&self).map(Box::as_ref)
    }

    /// The plan of a left and a right part.
    pub(crate) fn residual(self) -> Option<SplitResidualPlan<'static>> {
        let (spec, cursor) = (self.spec_ref(), cursor_at(self.cursor));
        plan_split_residual(spec, cursor, bytes_of(self.boundary)).ok()
    }
}

/// All combinations of keys. Most are not valid plans.
fn all_plans() -> impl Iterator<Item = Plan> {
    let keys = || 0..=KEYS_MAX;
    let cursors = move || keys().map(Some).chain([None]);
    keys().flat_map(move |start| {
        keys().flat_map(move |end| {
            keys().flat_map(move |boundary| {
                cursors().map(move |cursor| Plan { start, end, boundary, cursor })
            })
        })
    })
}

/// An operation that carries an operation id, with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Move the cursor. Always refused without a key.
    Checkpoint(Option<Key>),
    /// Complete the shard at a cursor.
    Complete(Option<Key>),
    /// Park the shard.
    Park,
    /// Release the lease.
    Release,
    /// Replace the shard by two children.
    Replace(Plan),
    /// Give the right part to a new shard.
    Residual(Plan),
    /// Make a parked shard active again. Needs no lease.
    Unpark,
}

impl Command {
    /// The request that a faulty worker sends under the same id: other parameters, or another
    /// operation with the same ones.
    #[must_use]
    pub fn altered(self) -> Option<Self> {
        match self {
            Self::Checkpoint(key) => Some(Self::Complete(key)),
            Self::Complete(_) | Self::Release => Some(Self::Park),
            Self::Park | Self::Replace(_) => Some(Self::Release),
            Self::Residual(plan) => {
                let after = plan.boundary + 1;
                Some(if after < plan.end {
                    Self::Residual(Plan { boundary: after, ..plan })
                } else {
                    Self::Release
                })
            }
            Self::Unpark => None,
        }
    }

    /// Number of shards that it creates.
    #[must_use]
    pub const fn spawns(self) -> usize {
        match self {
            Self::Replace(_) => 2,
            Self::Residual(_) => 1,
            _ => 0,
        }
    }

    /// Whether the shard that it creates records the operation for good.
    #[must_use]
    pub const fn is_residual(self) -> bool {
        matches!(self, Self::Residual(_))
    }
}

/// The effects of a request so far. The model keeps them apart from the records, so that the op log
/// is not judged by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The effect of the request, if it had one.
    pub effect: Option<Effect>,
    /// The payload that created a residual, if one did.
    pub residual: Option<Payload>,
}

/// An effect of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effect {
    /// Number of later operations on the shard, at most the log's capacity.
    pub since: u8,
    /// The payload that took effect.
    pub payload: Payload,
}

/// Which of the two requests that are sent under one id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// The original request.
    Original,
    /// The request of [`Command::altered`].
    Altered,
}

/// The required answer to a remembered request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpectedAnswer {
    /// The same answer as before.
    Replay,
    /// A conflict: the id was used for another request.
    Conflict,
}

impl Memory {
    /// Whether the op log has evicted its entry.
    #[must_use]
    pub fn is_evicted(self) -> bool {
        self.effect.is_some_and(|effect| usize::from(effect.since) >= LOG)
    }

    /// The required answer to `command` with this payload, if the request is remembered.
    #[must_use]
    pub(crate) fn expected_answer(
        self,
        command: Command,
        payload: Payload,
    ) -> Option<ExpectedAnswer> {
        let fresh = self.effect.filter(|_| !self.is_evicted()).map(|effect| effect.payload);
        let known = fresh.or(self.residual.filter(|_| command.is_residual()))?;
        Some(if known == payload { ExpectedAnswer::Replay } else { ExpectedAnswer::Conflict })
    }

    /// Records that another operation of the shard took effect.
    pub fn age(&mut self) {
        if let Some(effect) = &mut self.effect {
            effect.since = (effect.since + 1).min(LOG as u8);
        }
    }
}

/// A request that may be delivered any number of times, at any time, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The sender.
    pub worker: u8,
    /// Its operation id, never used for another request.
    pub op: OpId,
    /// The shard, by its index in the world.
    pub shard: u8,
    /// The fence of its lease; none if it needs no lease.
    pub fence: Option<FenceEpoch>,
    /// The operation.
    pub command: Command,
    /// Its effects so far.
    pub memory: Memory,
}
