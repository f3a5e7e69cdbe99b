//! What is told of want of room, held against an account of everything that is stored.

use shardwright_contracts::SlabFull;

use super::Observation;
use crate::model::{Demand, Model};
use crate::request::{DraftCursor, DraftSpec, HolderAct, Request};

/// Whether there was no room for something that was asked for, by what was told of it.
pub(super) fn was_lacking(seen: &Observation<'_>, model: &Model, told: &SlabFull) -> bool {
    // There are as many handles as all shards that may be can need.
    let SlabFull::Bytes { requested, free, capacity } = *told else { return false };
    if model.bytes_capacity != Some(capacity) {
        return false;
    }
    let mut room = model.room();
    // What the same request has stored before it failed was taken for that moment.
    demands(seen, model).into_iter().any(|demand| {
        let is_it = demand.bytes() == requested
            && capacity.checked_sub(room.used()) == Some(free)
            && room.may_lack(capacity, demand);
        room.take(demand);
        is_it
    })
}

/// What a request needs room for, in the order in which it is stored.
fn demands(seen: &Observation<'_>, model: &Model) -> Vec<Demand> {
    match seen.request {
        Request::Holder { act, .. } => match act {
            HolderAct::Checkpoint { cursor, .. } | HolderAct::Complete { cursor, .. } => {
                let old = seen.shard(model).map(|shard| &shard.cursor);
                Demand::of_cursor(cursor, old).into_iter().collect()
            }
            HolderAct::Park { detail, .. } => vec![Demand::Beside(detail.len())],
            HolderAct::SplitReplace { split, .. } => {
                let spawned = Demand::of_spawned(split.parts.len());
                let parts = split.parts.iter().flat_map(|(spec, cursor)| of_shard(spec, cursor));
                [spawned].into_iter().chain(parts).collect()
            }
            HolderAct::SplitResidual { split, .. } => {
                let [(left, _), (right, _)] = split.parts.as_slice() else { return Vec::new() };
                let old = seen.shard(model).map_or(left, |shard| &shard.spec);
                let narrowed = Demand::of_spec_instead(left, old);
                vec![Demand::of_spawned(1), Demand::of_spec(right), narrowed]
            }
            HolderAct::Renew | HolderAct::Decline { .. } | HolderAct::Release { .. } => Vec::new(),
        },
        request => {
            let shards = request.manifest().unwrap_or_default();
            shards.iter().flat_map(|(_, spec, cursor)| of_shard(spec, cursor)).collect()
        }
    }
}

fn of_shard(spec: &DraftSpec, cursor: &DraftCursor) -> impl Iterator<Item = Demand> + use<> {
    [Demand::of_spec(spec)].into_iter().chain(Demand::of_cursor(cursor, None))
}
