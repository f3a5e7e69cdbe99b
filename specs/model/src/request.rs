//! What workers ask for, as data that can be kept and sent again.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use shardwright_contracts::{
    CursorUpdate, FenceEpoch, OpId, ShardSpecRef, SplitReplacePlan, SplitResidualPlan,
    plan_split_replace, plan_split_residual,
};

use crate::LOG;
use crate::bounds::KEYS_MAX;

/// A key, by its place in the keyspace.
pub type Key = u8;

const KEY_BYTES: [[u8; 1]; 8] = [*b"a", *b"b", *b"c", *b"d", *b"e", *b"f", *b"g", *b"h"];

/// The bytes of a key.
#[must_use]
pub(crate) fn bytes_of(key: Key) -> &'static [u8] {
    KEY_BYTES.get(usize::from(key)).map_or(&[], |bytes| bytes)
}

/// The key that bytes stand for.
#[must_use]
pub(crate) fn key_of(bytes: &[u8]) -> Key {
    bytes.first().map_or(Key::MAX, |byte| byte.wrapping_sub(b'a'))
}

/// The cursor at a key, or the initial one.
#[must_use]
pub(crate) fn cursor_at(key: Option<Key>) -> CursorUpdate<'static> {
    key.map_or(CursorUpdate::initial(), |key| CursorUpdate::at(bytes_of(key)))
}

/// The split of a shard as it was when somebody planned it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Plan {
    /// First key of the shard.
    pub start: Key,
    /// First key behind it.
    pub end: Key,
    /// Where it is to be cut.
    pub boundary: Key,
    /// How far it was.
    pub cursor: Option<Key>,
}

impl Plan {
    fn spec_ref(self) -> ShardSpecRef<'static> {
        ShardSpecRef::new(bytes_of(self.start), bytes_of(self.end), b"")
    }

    /// The plan of two children. Plans have room for hundreds, so each is made once.
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

/// Everything that looks like a plan; most of it is none.
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

/// An operation with an id, and what it asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Move the cursor; without a key it is always refused.
    Checkpoint(Option<Key>),
    /// Finish the shard at a cursor.
    Complete(Option<Key>),
    /// Stop the shard.
    Park,
    /// Give the lease back.
    Release,
    /// Replace the shard by two children.
    Replace(Plan),
    /// Give the right part to a new shard.
    Residual(Plan),
    /// Make a parked shard active again. Needs no lease.
    Unpark,
}

impl Ask {
    /// What a mistaken worker sends under the same id: other parameters, or another operation
    /// with the same ones.
    #[must_use]
    pub fn misused(self) -> Option<Self> {
        match self {
            Self::Checkpoint(key) => Some(Self::Complete(key)),
            Self::Complete(_) | Self::Release => Some(Self::Park),
            Self::Park | Self::Replace(_) => Some(Self::Release),
            Self::Residual(plan) => {
                let behind = plan.boundary + 1;
                Some(if behind < plan.end {
                    Self::Residual(Plan { boundary: behind, ..plan })
                } else {
                    Self::Release
                })
            }
            Self::Unpark => None,
        }
    }

    /// How many shards it makes.
    #[must_use]
    pub const fn spawns(self) -> usize {
        match self {
            Self::Replace(_) => 2,
            Self::Residual(_) => 1,
            _ => 0,
        }
    }

    /// Whether the shards it makes bear witness of it for ever.
    #[must_use]
    pub const fn is_residual(self) -> bool {
        matches!(self, Self::Residual(_))
    }
}

/// What a request has effected so far. Kept by the model itself, beside the records, so that the
/// op log is judged by something that is not the op log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// It took effect, this many operations of the shard ago; at most the log's capacity.
    pub effect: Option<Effect>,
    /// It made a residual, as which of its two wordings.
    pub residual: Option<Wording>,
}

/// An effect of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effect {
    /// How many operations of the shard came later.
    pub since: u8,
    /// In which wording it took effect.
    pub wording: Wording,
}

/// Which of the two things that are sent under one id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wording {
    /// What was meant.
    Meant,
    /// What [`Ask::misused`] makes of it.
    Misused,
}

/// What has to be said to a request that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// The same answer as before.
    Replay,
    /// That its id is taken.
    Conflict,
}

impl Memory {
    /// Whether its effect is old enough to be forgotten.
    #[must_use]
    pub fn is_evicted(self) -> bool {
        self.effect.is_some_and(|effect| usize::from(effect.since) >= LOG)
    }

    /// What has to be said to `ask` in this wording, if anything is remembered.
    #[must_use]
    pub(crate) fn owes(self, ask: Ask, wording: Wording) -> Option<Known> {
        let fresh = self.effect.filter(|_| !self.is_evicted()).map(|effect| effect.wording);
        let known = fresh.or(self.residual.filter(|_| ask.is_residual()))?;
        Some(if known == wording { Known::Replay } else { Known::Conflict })
    }

    /// Another operation of the shard took effect.
    pub fn age(&mut self) {
        if let Some(effect) = &mut self.effect {
            effect.since = (effect.since + 1).min(LOG as u8);
        }
    }
}

/// A request that may be delivered any number of times, at any time, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Who sent it.
    pub worker: u8,
    /// Its id, never used for another.
    pub op: OpId,
    /// The shard, by its place in the world.
    pub shard: u8,
    /// The fence of the lease it shows; none for what needs no lease.
    pub fence: Option<FenceEpoch>,
    /// What it asks.
    pub ask: Ask,
    /// What it has effected.
    pub memory: Memory,
}
