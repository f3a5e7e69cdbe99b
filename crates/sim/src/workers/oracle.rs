//! The oracles of workers.

use std::collections::{BTreeMap, BTreeSet};

use shardwright_contracts::ShardId;
use shardwright_coordination::{RunStatus, ShardRecord, ShardStatus};
use shardwright_worker::extent::{Extent, TokenEnvelope};

use super::handler::items_in;
use super::script::{Call, Script};
use super::sink::digest;
use super::source::{left, passed};
use super::stored_state::{Moved, StoredState};
use crate::oracle::{ASSERTIONS, Finding, Oracle};

pub(super) const ONCE: &Oracle = &Oracle::of_the_world(
    "results count once",
    "committed cursors name the result of an item at most once, and of no item that they have not \
     passed",
);

pub(super) const RESOLVED: &Oracle = &Oracle::of_the_world(
    "no cursor passes an unresolved item",
    "a committed cursor passes an item only after the handler has returned its result",
);

pub(super) const TRIES: &Oracle = &Oracle::of_the_world(
    "tries survive a crash",
    "after an item was split off to wait for its retry, no holder of its shard begins to count its \
     tries again until the shard is unparked",
);

pub(super) const LOST: &Oracle = &Oracle::of_the_world(
    "no item is lost",
    "the result of every item that a committed cursor has passed is named by it, and every other \
     item lies in a shard that is not done",
);

pub(super) const DURABLE: &Oracle = &Oracle::of_the_world(
    "named results are durable",
    "when a committed cursor names an extent, the sink holds its bytes durably, with that digest \
     and that many results",
);

pub(super) const STALE: &Oracle = &Oracle::of_the_world(
    "stale results never count",
    "a commit adds an extent, or bytes of one, to a cursor only under the shard's current fence",
);

pub(super) const LEASE: &Oracle = &Oracle::of_the_world(
    "no work beyond the lease",
    "a handler call runs only under a granted lease, and is dropped before nine tenths of the \
     lease duration have passed since the last renewal",
);

pub(super) const ALONE: &Oracle = &Oracle::of_the_world(
    "one holder works on an item",
    "while a handler works on an item under a valid lease, no other handler does; clocks beyond \
     the allowance and ended sessions excepted",
);

pub(super) const REPEATED: &Oracle = &Oracle::of_the_world(
    "no work is repeated without a fault",
    "without faults the handler is called once for every item",
);

pub(super) const STRAGGLER: &Oracle = &Oracle::of_the_world(
    "stragglers are split",
    "if all work is in one shard and workers are idle, the shard is split and several workers \
     share it",
);

pub(super) const DONE: &Oracle = &Oracle::of_the_world(
    "all work is done after faults",
    "after faults stop and operators unpark shards, the run completes, or only poisoned items \
     are parked",
);

/// Every oracle of workers.
pub const ALL: &[&Oracle] = &[
    RESOLVED, ONCE, LOST, DURABLE, STALE, LEASE, ALONE, TRIES, REPEATED, STRAGGLER, DONE,
    ASSERTIONS,
];

/// Ok if `holds`, else a violation of the oracle.
pub(super) fn ensure(
    oracle: &Oracle,
    holds: bool,
    text: impl FnOnce() -> String,
) -> Result<(), Finding> {
    if holds { Ok(()) } else { Err(Finding { oracle: oracle.name, text: text() }) }
}

/// Judges a moved cursor by the results that it names.
pub(super) fn judge_commit(script: &Script, moved: &Moved) -> Result<(), Finding> {
    judge_resolved(script, moved)?;
    let envelope = envelope(&moved.after)?;
    judge_stale(&moved.before, &self::envelope(&moved.before)?, &envelope)?;
    let found = results(script, &moved.after, &envelope)?;
    once_in_shard(&moved.after, &found)?;
    lost_in_shard(&moved.after, &found)
}

/// Judges the items that a cursor has passed.
fn judge_resolved(script: &Script, moved: &Moved) -> Result<(), Finding> {
    let state = script.lock();
    let (from, to) = (passed(&moved.before).end, passed(&moved.after).end);
    let unresolved = (from..to).find(|item| !state.resolved.contains(item));
    ensure(RESOLVED, unresolved.is_none(), || {
        let id = moved.after.head.key.shard;
        format!("shard {id} has passed {unresolved:?}, of which there is no result")
    })
}

/// Judges a call of an item that was split off after so many tries.
pub(super) fn judge_tries(call: &Call, tries: u32) -> Result<(), Finding> {
    ensure(TRIES, call.attempt > tries, || {
        format!("{call:?} begins after {tries} tries were stored")
    })
}

/// How often a shard was unparked: its fence rises with each acquire, and with each unpark.
pub(super) fn unparks(shard: &ShardRecord) -> u64 {
    shard.head.fence.as_raw().saturating_sub(shard.head.acquire_count.into())
}

/// The items whose results a shard's cursor names.
pub(super) fn named(script: &Script, shard: &ShardRecord) -> Result<Vec<u64>, Finding> {
    results(script, shard, &envelope(shard)?)
}

fn envelope(shard: &ShardRecord) -> Result<TokenEnvelope, Finding> {
    TokenEnvelope::decode(shard.cursor.as_update().token()).map_err(|error| Finding {
        oracle: DURABLE.name,
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
        let bytes = judge_durable(shard.head.key.shard, extent, segment.map(Vec::as_slice))?;
        found.extend(items_in(bytes));
    }
    Ok(found)
}

/// Judges the results of one shard against its cursor.
pub(super) fn once_in_shard(shard: &ShardRecord, found: &[u64]) -> Result<(), Finding> {
    let (id, passed) = (shard.head.key.shard, passed(shard));
    let is_rising = found.array_windows().all(|[one, other]| one < other);
    ensure(ONCE, is_rising, || format!("shard {id} names twice or out of order: {found:?}"))?;
    let beyond: Vec<&u64> = found.iter().filter(|item| !passed.contains(item)).collect();
    ensure(ONCE, beyond.is_empty(), || {
        format!("shard {id} has passed {passed:?} and names {beyond:?} as well")
    })
}

/// Judges the results of all shards together.
pub(super) fn once_in_all(found: &BTreeMap<u64, Vec<ShardId>>) -> Result<(), Finding> {
    let twice = found.iter().find(|(_, shards)| shards.len() > 1);
    ensure(ONCE, twice.is_none(), || format!("named by several shards: {twice:?}"))
}

/// Judges the results of one shard against its cursor.
pub(super) fn lost_in_shard(shard: &ShardRecord, found: &[u64]) -> Result<(), Finding> {
    let passed = passed(shard);
    let missing: Vec<u64> = passed.clone().filter(|item| !found.contains(item)).collect();
    ensure(LOST, missing.is_empty(), || {
        let id = shard.head.key.shard;
        format!("shard {id} has passed {passed:?} and does not name {missing:?}")
    })
}

/// Judges that every item has a result or is in a shard that is not done.
pub(super) fn lost_in_all(
    items: u64,
    found: &BTreeMap<u64, Vec<ShardId>>,
    left: &BTreeSet<u64>,
) -> Result<(), Finding> {
    let is_lost = |item: &u64| !found.contains_key(item) && !left.contains(item);
    let lost: Vec<u64> = (0..items).filter(is_lost).collect();
    ensure(LOST, lost.is_empty(), || format!("without a result and in no open shard: {lost:?}"))
}

/// Judges an extent by the durable bytes of its segment, and returns the extent's bytes.
pub(super) fn judge_durable<'s>(
    shard: ShardId,
    extent: &Extent,
    segment: Option<&'s [u8]>,
) -> Result<&'s [u8], Finding> {
    let length = usize::try_from(extent.length).unwrap_or(usize::MAX);
    let durable = segment.map(<[u8]>::len);
    let bytes = segment.and_then(|bytes| bytes.get(..length)).unwrap_or_default();
    let is_whole = bytes.len() == length
        && digest(bytes) == extent.digest
        && items_in(bytes).len() as u64 == extent.items;
    ensure(DURABLE, is_whole, || format!("shard {shard} names {extent:?}; durable: {durable:?}"))?;
    Ok(bytes)
}

/// Judges the results that a commit added to a shard.
pub(super) fn judge_stale(
    before: &ShardRecord,
    named: &TokenEnvelope,
    names: &TokenEnvelope,
) -> Result<(), Finding> {
    let current = before.head.fence;
    let is_new = |extent: &&Extent| !named.extents.contains(extent);
    let mut added = names.extents.iter().filter(is_new);
    let stale = added.find(|extent| extent.fence != current);
    ensure(STALE, stale.is_none(), || {
        format!("shard {} is held under {current:?}: {stale:?}", before.head.key.shard)
    })
}

/// Judges a handler call of a process that is not paused.
pub(super) fn judge_lease(stored: &StoredState, call: &Call, now_us: u64) -> Result<(), Finding> {
    let until_us = stored.grant(call.shard, call.fence).map(|grant| grant.usable_until_us);
    ensure(LEASE, until_us.is_some_and(|until_us| now_us <= until_us), || {
        let (number, shard) = (call.number, call.shard);
        format!("call {number} works on shard {shard} at {now_us}, allowed until {until_us:?}")
    })
}

/// Judges a call that starts while another is in progress.
pub(super) fn judge_alone(
    stored: &StoredState,
    begun: &Call,
    other: &Call,
    is_skewed: bool,
) -> Result<(), Finding> {
    let shared = begun.items.iter().find(|item| other.items.contains(item));
    let is_same = (begun.shard, begun.fence) == (other.shard, other.fence);
    let is_over =
        |call: &Call| stored.grant(call.shard, call.fence).is_none_or(|grant| grant.session_ended);
    let may_overlap = !is_same && (is_skewed || is_over(begun) || is_over(other));
    ensure(ALONE, shared.is_none() || may_overlap, || {
        format!("{begun:?} starts while {other:?} is in progress")
    })
}

/// Judges the number of handler calls for each item.
pub(super) fn judge_repeated(items: u64, tries: &BTreeMap<u64, u64>) -> Result<(), Finding> {
    let again: Vec<u64> = (0..items).filter(|item| tries.get(item) != Some(&1)).collect();
    ensure(REPEATED, again.is_empty(), || format!("not called exactly once: {again:?}"))
}

/// Judges the number of shards and workers that shared the work.
pub(super) fn judge_straggler(shards: usize, workers: usize) -> Result<(), Finding> {
    ensure(STRAGGLER, shards > 1 && workers > 1, || {
        format!("{workers} workers shared the work in {shards} shards")
    })
}

/// Why the run has not ended as required, if it has not.
pub(super) fn missing_for_end(stored: &StoredState, bad: &BTreeSet<u64>) -> Option<String> {
    let status = stored.status();
    if matches!(status, Some(RunStatus::Done | RunStatus::Cancelled)) {
        return None;
    }
    let with = |wanted| stored.shards().filter(move |shard| shard.head.status == wanted);
    let active = with(ShardStatus::Active).count();
    let parked: BTreeSet<u64> = with(ShardStatus::Parked).flat_map(left).collect();
    let spared: Vec<&u64> = parked.difference(bad).collect();
    let is_settled = status == Some(RunStatus::Active) && active == 0 && spared.is_empty();
    (!is_settled || parked.is_empty())
        .then(|| format!("the run is {status:?}, {active} shards active, {spared:?} parked"))
}

/// The violation that the run does not end.
pub(super) fn judge_done(missing: Option<String>) -> Result<(), Finding> {
    ensure(DONE, missing.is_none(), || missing.unwrap_or_default())
}
