//! The sentences that must be true of workers, one file each.

pub(super) mod alone;
pub(super) mod done;
pub(super) mod durable;
pub(super) mod lease;
pub(super) mod lost;
pub(super) mod once;
pub(super) mod repeated;
pub(super) mod stale;
pub(super) mod straggler;

use shardwright_coordination::ShardRecord;
use shardwright_worker::extent::TokenEnvelope;

use super::handler::items_in;
use super::script::Script;
use super::truth::Moved;
use crate::oracle::{Finding, Oracle};

/// Every oracle of workers, but for the assertions of the code itself.
pub const ALL: &[&Oracle] = &[
    once::ORACLE,
    lost::ORACLE,
    durable::ORACLE,
    stale::ORACLE,
    lease::ORACLE,
    alone::ORACLE,
    repeated::ORACLE,
    straggler::ORACLE,
    done::ORACLE,
];

/// The finding that a sentence is false unless it holds.
pub(super) fn ensure(
    oracle: &Oracle,
    holds: bool,
    text: impl FnOnce() -> String,
) -> Result<(), Finding> {
    if holds { Ok(()) } else { Err(Finding { oracle: oracle.name, text: text() }) }
}

/// Judges a cursor that moved by the results that it names.
pub(super) fn judge_commit(script: &Script, moved: &Moved) -> Result<(), Finding> {
    let envelope = envelope(&moved.after)?;
    stale::judge(&moved.before, &self::envelope(&moved.before)?, &envelope)?;
    let found = results(script, &moved.after, &envelope)?;
    once::judge_shard(&moved.after, &found)?;
    lost::judge_shard(&moved.after, &found)
}

/// The items whose results a shard's cursor names.
pub(super) fn named(script: &Script, shard: &ShardRecord) -> Result<Vec<u64>, Finding> {
    results(script, shard, &envelope(shard)?)
}

fn envelope(shard: &ShardRecord) -> Result<TokenEnvelope, Finding> {
    TokenEnvelope::decode(shard.cursor.as_update().token()).map_err(|error| Finding {
        oracle: durable::ORACLE.name,
        text: format!("shard {}: {error}", shard.head.key.shard),
    })
}

fn results(
    script: &Script,
    shard: &ShardRecord,
    envelope: &TokenEnvelope,
) -> Result<Vec<u64>, Finding> {
    let state = script.lock();
    let mut found = Vec::new();
    for extent in &envelope.extents {
        let segment = state.segments.get(&(extent.shard, extent.fence));
        let bytes = durable::judge(shard.head.key.shard, extent, segment.map(Vec::as_slice))?;
        found.extend(items_in(bytes));
    }
    Ok(found)
}
