//! What makes a manifest and a split good, worked out a second time and as simply as possible.

use shardwright_contracts::ShardId;
use shardwright_contracts::limits::{MAX_KEY_SIZE, MAX_METADATA_SIZE, MAX_TOKEN_SIZE};

use crate::model::ShardModel;
use crate::request::{DraftCursor, DraftSpec, DraftSplit};

/// Whether a list of shards can be registered.
pub(super) fn is_manifest(shards: &[(ShardId, DraftSpec, DraftCursor)]) -> bool {
    let mut ids: Vec<_> = shards.iter().map(|(id, ..)| *id).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut ranges: Vec<_> = shards.iter().map(|(_, spec, _)| (&spec.start, &spec.end)).collect();
    ranges.sort();
    !shards.is_empty()
        && ids.len() == shards.len()
        && !ids.iter().any(|id| id.is_derived())
        && ranges.iter().all(|(start, end)| !start.is_empty() && start < end)
        && ranges.array_windows().all(|[left, right]| left.1 <= right.0)
        && shards.iter().all(|(_, spec, cursor)| fits(spec) && stands_in(cursor, spec))
}

fn fits(spec: &DraftSpec) -> bool {
    spec.start.len().max(spec.end.len()) <= MAX_KEY_SIZE && spec.metadata.len() <= MAX_METADATA_SIZE
}

fn stands_in(cursor: &DraftCursor, spec: &DraftSpec) -> bool {
    let token = cursor.token.as_deref().unwrap_or_default();
    token.len() <= MAX_TOKEN_SIZE
        && match &cursor.last_key {
            None => token.is_empty(),
            Some(key) => spec.start <= *key && *key < spec.end,
        }
}

/// Whether the parts of a split divide a shard as it is: they tile it, and none claims more than
/// the shard has done. A residual split's left part has to keep the shard's cursor.
pub(super) fn divides(split: &DraftSplit, shard: &ShardModel, keeps_cursor: bool) -> bool {
    let parts = &split.parts;
    let (Some((first, _)), Some((last, _))) = (parts.first(), parts.last()) else { return false };
    let done = &shard.cursor.last_key;
    first.start == shard.spec.start
        && last.end == shard.spec.end
        && parts.array_windows().all(|[(left, _), (right, _)]| left.end == right.start)
        && parts.iter().all(|(spec, cursor)| stands_in(cursor, spec) && cursor.last_key <= *done)
        && !(keeps_cursor && done.as_ref().is_some_and(|key| *key >= first.end))
}
