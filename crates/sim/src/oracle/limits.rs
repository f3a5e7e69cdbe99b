//! Limits of sizes, numbers and bytes, and rules of manifests and splits. They are computed a
//! second time, as simply as possible.

use shardwright_contracts::SlabFull;
use shardwright_contracts::limits::{
    MAX_KEY_SIZE, MAX_METADATA_SIZE, MAX_PARK_DETAIL_SIZE, MAX_TOKEN_SIZE,
};

use super::{Observation, Oracle, Verdict, ensure};
use crate::model::{Allocation, Model, ShardModel};
use crate::request::operation::{Checkpoint, Complete, ParkShard, SplitReplace, SplitResidual};
use crate::request::{Cursor, Request, RequestExt, Shard, Spec, last_key};

pub(super) const LIMITS: Oracle = Oracle::after(
    "limits",
    "the number of shards and the length of every accepted value stay within their limits",
    judge,
);

fn judge(seen: &Observation<'_>, model: &Model) -> Verdict {
    if seen.executed().is_none() {
        return Ok(());
    }
    let cursor_fits = |cursor: &Cursor| {
        last_key(cursor).is_none_or(|key| (1..=MAX_KEY_SIZE).contains(&key.len()))
            && cursor.as_ref().token().is_none_or(|token| token.len() <= MAX_TOKEN_SIZE)
    };
    let fits = match seen.request {
        Request::Checkpoint(Checkpoint { cursor, .. })
        | Request::Complete(Complete { cursor, .. }) => cursor_fits(cursor),
        Request::ParkShard(ParkShard { detail, .. }) => detail.len() <= MAX_PARK_DETAIL_SIZE,
        request => {
            let shards = request.manifest().unwrap_or_default();
            shards.iter().all(|shard| spec_fits(&shard.spec) && cursor_fits(&shard.cursor))
        }
    };
    ensure(fits, || format!("a {} was longer than allowed", seen.request.label()))?;
    let (own, all) = (model.shards_of(seen.tenant), model.shards_in_all());
    ensure(own <= model.limits.per_tenant && all <= model.limits.total, || {
        format!("{own} shards of a tenant, {all} in all, allowed are {:?}", model.limits)
    })
}

fn spec_fits(spec: &Spec) -> bool {
    let spec = spec.as_ref();
    spec.start().len().max(spec.end().len()) <= MAX_KEY_SIZE
        && spec.metadata().len() <= MAX_METADATA_SIZE
}

/// Whether a list of shards is a valid manifest.
pub(super) fn is_manifest(shards: &[Shard]) -> bool {
    let mut ids: Vec<_> = shards.iter().map(|shard| shard.shard).collect();
    ids.sort_unstable();
    ids.dedup();
    let specs = shards.iter().map(|shard| shard.spec.as_ref());
    let mut ranges: Vec<_> = specs.map(|spec| (spec.start(), spec.end())).collect();
    ranges.sort_unstable();
    !shards.is_empty()
        && ids.len() == shards.len()
        && !ids.iter().any(|id| id.is_derived())
        && ranges.iter().all(|(start, end)| !start.is_empty() && start < end)
        && ranges.array_windows().all(|[left, right]| left.1 <= right.0)
        && shards.iter().all(|it| spec_fits(&it.spec) && stands_in(&it.cursor, &it.spec))
}

fn stands_in(cursor: &Cursor, spec: &Spec) -> bool {
    let token = cursor.as_ref().token().unwrap_or_default();
    let spec = spec.as_ref();
    token.len() <= MAX_TOKEN_SIZE
        && match last_key(cursor) {
            None => token.is_empty(),
            Some(key) => spec.start() <= key && key < spec.end(),
        }
}

/// Whether the parts of a split tile a shard, and no part's cursor is ahead of the shard's. The
/// left part of a residual split has to keep the shard's cursor.
pub(super) fn divides(parts: &[(&Spec, &Cursor)], shard: &ShardModel, keeps_cursor: bool) -> bool {
    let (Some((first, _)), Some((last, _))) = (parts.first(), parts.last()) else { return false };
    let (done, spec) = (last_key(&shard.cursor), shard.spec.as_ref());
    first.as_ref().start() == spec.start()
        && last.as_ref().end() == spec.end()
        && parts
            .array_windows()
            .all(|[(left, _), (right, _)]| left.as_ref().end() == right.as_ref().start())
        && parts.iter().all(|(spec, cursor)| stands_in(cursor, spec) && last_key(cursor) <= done)
        && !(keeps_cursor && done.is_some_and(|key| key >= first.as_ref().end()))
}

/// Whether the reported lack of bytes is true for a part of the request.
pub(super) fn was_full(seen: &Observation<'_>, model: &Model, reason: &SlabFull) -> bool {
    // There are enough handles for the most shards that are allowed.
    let SlabFull::Bytes { requested, free, capacity } = *reason else { return false };
    if model.bytes_capacity != Some(capacity) {
        return false;
    }
    let mut room = model.room();
    // The parts that the request stored before it failed were allocated at that moment.
    allocations(seen, model).into_iter().any(|allocation| {
        let is_it = allocation.bytes() == requested
            && capacity.checked_sub(room.used()) == Some(free)
            && room.may_fail(capacity, allocation);
        room.take(allocation);
        is_it
    })
}

/// The allocations of a request, in the order in which they are made.
fn allocations(seen: &Observation<'_>, model: &Model) -> Vec<Allocation> {
    match seen.request {
        Request::Checkpoint(Checkpoint { cursor, .. })
        | Request::Complete(Complete { cursor, .. }) => {
            let old = seen.shard(model).map(|shard| &shard.cursor);
            Allocation::of_cursor(cursor, old).into_iter().collect()
        }
        Request::ParkShard(ParkShard { detail, .. }) => vec![Allocation::Outside(detail.len())],
        Request::SplitReplace(SplitReplace { parts, .. }) => {
            let spawned = Allocation::of_spawned(parts.len());
            let parts = parts.iter().flat_map(|part| of_shard(&part.spec, &part.cursor));
            [spawned].into_iter().chain(parts).collect()
        }
        Request::SplitResidual(SplitResidual { narrowed, residual, .. }) => {
            let old = seen.shard(model).map_or(narrowed, |shard| &shard.spec);
            let narrowed = Allocation::of_replaced_spec(narrowed, old);
            vec![Allocation::of_spawned(1), Allocation::of_spec(residual), narrowed]
        }
        request => {
            let shards = request.manifest().unwrap_or_default();
            shards.iter().flat_map(|shard| of_shard(&shard.spec, &shard.cursor)).collect()
        }
    }
}

fn of_shard(spec: &Spec, cursor: &Cursor) -> impl Iterator<Item = Allocation> + use<> {
    [Allocation::of_spec(spec)].into_iter().chain(Allocation::of_cursor(cursor, None))
}
