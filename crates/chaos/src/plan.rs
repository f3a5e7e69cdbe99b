//! The plan that every process derives: which runs there are, and what is in them. Keys are
//! numbers in big-endian order.

use shardwright_contracts::{CursorSemantics, OpId, RunId, TenantId};
use shardwright_coordination::{RunConfig, RunConfigError};

use crate::history::Root;

/// Whose runs they are.
pub const TENANT: TenantId = TenantId::from_bytes([7; TenantId::SIZE]);

/// How long a lease lasts. Short, so that a storm holds many takeovers.
pub const LEASE_MS: u64 = 2_500;
/// How much later a shard is taken over, if the session of its holder lives.
pub const SKEW_MS: u64 = 300;
/// How long a session outlives its last sign of life, in seconds.
pub const SESSION_SECONDS: u64 = 2;

/// The first key of every run. Not the least there is, which is as good as a bound.
const FIRST_KEY: u64 = 1_000;

/// How shards of every run are worked on.
pub fn config() -> Result<RunConfig, RunConfigError> {
    RunConfig::try_new(CursorSemantics::Completed, LEASE_MS, None)
}

/// The manifest of a run: ranges that follow one another without a gap.
#[must_use]
pub fn roots(run: u64) -> Vec<Root> {
    let mut chance = fastrand::Rng::with_seed(run);
    let mut start = FIRST_KEY;
    let mut root = |shard| {
        let end = start + chance.u64(20..100);
        let root = Root { shard, start, end };
        start = end;
        root
    };
    (1..=chance_of_count(run)).map(&mut root).collect()
}

const fn chance_of_count(run: u64) -> u64 {
    4 + run % 5
}

/// The operation that registers a run. The same for every process.
#[must_use]
pub const fn registration(run: RunId) -> OpId {
    OpId::from_raw(run.as_raw() | 1 << 63)
}

/// The key of a number.
#[must_use]
pub fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// The number of a key. A key that was not made by [`key`] becomes a number that no range has.
#[must_use]
pub fn number(key: &[u8]) -> u64 {
    key.try_into().map_or(u64::MAX, u64::from_be_bytes)
}
