//! The runs and their manifests, which every process derives alike. Keys are numbers in big-endian
//! order.

use shardwright_contracts::{CursorSemantics, OpId, RunId, TenantId};
use shardwright_coordination::{RunConfig, RunConfigError};

use crate::history::Root;

/// The tenant of all runs.
pub const TENANT: TenantId = TenantId::from_bytes([7; TenantId::SIZE]);

/// Duration of a lease. Short, so that takeovers are frequent.
pub const LEASE_MS: u64 = 2_500;
/// Skew allowance before a takeover, if the session of the holder is live.
pub const SKEW_MS: u64 = 300;
/// TTL of a session in seconds.
pub const SESSION_SECONDS: u64 = 2;

/// The first key of every run. Above the lowest key, so that the lower bound is checked.
const FIRST_KEY: u64 = 1_000;

/// The configuration of every run.
pub fn config() -> Result<RunConfig, RunConfigError> {
    RunConfig::try_new(CursorSemantics::Completed, LEASE_MS, None)
}

/// The manifest of a run: contiguous ranges.
#[must_use]
pub fn roots(run: u64) -> Vec<Root> {
    let mut rng = fastrand::Rng::with_seed(run);
    let mut start = FIRST_KEY;
    let mut root = |shard| {
        let end = start + rng.u64(20..100);
        let root = Root { shard, start, end };
        start = end;
        root
    };
    (1..=root_count(run)).map(&mut root).collect()
}

const fn root_count(run: u64) -> u64 {
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

/// The number of a key. A key that [`key`] did not build becomes a number outside all ranges.
#[must_use]
pub fn number(key: &[u8]) -> u64 {
    key.try_into().map_or(u64::MAX, u64::from_be_bytes)
}
